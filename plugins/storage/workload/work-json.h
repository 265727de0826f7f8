/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-json.h>

#include "work-random.h"

G_BEGIN_DECLS

/**
 * WorkPlace: where in a JSON file something stands: a value, and the path to it for messages.
 * `FILE: classes[0].turns: expected X, found Y`
 */
typedef struct
{
  const char *file;
  const LmtJson *value;
  char path[160];
} WorkPlace;

/* Always FALSE: `FILE: PATH: expected @expected, found WHAT STANDS THERE`. */
gboolean work_json_wrong (const WorkPlace *place, const char *expected, GError **error);
/* `FILE: PATH: @text` */
gboolean work_json_refuse (const WorkPlace *place, const char *text, GError **error);

/* A name out of a file, fit for a message: one line, not too long. (transfer full) */
char *work_json_shown_name (const char *name);
/* An object that has no other members than @known, none of them twice. */
gboolean work_json_check_object (const WorkPlace *place, const char *const *known, GError **error);
/* The member of that name; FALSE: absent. @place's value must be an object. */
gboolean work_json_member (const WorkPlace *place, const char *name, WorkPlace *member);
/* The same, required. */
gboolean work_json_need (const WorkPlace *place, const char *name, WorkPlace *member, GError **error);
void work_json_element (const WorkPlace *place, guint i, WorkPlace *element);

/* Single values; a text is read as the command line reads one (cli.md 8.6). Bounds are inclusive. */
gboolean work_json_count (const WorkPlace *place, guint64 least, guint64 most, guint64 *count, GError **error);
gboolean work_json_duration (const WorkPlace *place, gint64 *ns, GError **error);
gboolean work_json_real (const WorkPlace *place, double least, double most, double *real, GError **error);
gboolean work_json_string (const WorkPlace *place, char **text, GError **error);
gboolean work_json_word (const WorkPlace *place, const char *const *words, guint *index, GError **error);

typedef enum
{
  WORK_UNIT_COUNT, /* whole numbers: tokens, turns, documents */
  WORK_UNIT_SECONDS,
} WorkUnit;
/* `{"fixed": x}`, `{"uniform": [a, b]}`, `{"lognormal": [median, sigma]}`, `{"zipf": [n, s]}` (counts only), `{"values": [[x,
 * weight], …]}`; a single value is short for `fixed`. @most: no value above it is taken. @dist: cleared on failure */
gboolean work_json_dist (const WorkPlace *place, WorkUnit unit, double most, WorkDist *dist, GError **error);
/* `[n, s]` */
gboolean work_json_zipf (const WorkPlace *place, WorkZipf *zipf, GError **error);

G_END_DECLS
