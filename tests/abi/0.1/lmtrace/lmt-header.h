/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"
#include "lmt-frame.h"

G_BEGIN_DECLS

/**
 * SECTION: headers of traces. Threads: any may read and hold a reference; getters hand out what lives as long as the header.
 * Errors: LMT_ERROR (CORRUPT, VERSION).
 *
 * Since: 0.1
 */

typedef struct _LmtHeader LmtHeader;

/**
 * LmtHeader: frame 0 of a trace file. Reference counted (atomic), immutable once made.
 * Source: LMCache trace format version 1, struct Header. Required for a usable one: a map; `type`, if there, is `header`; `magic`
 * is bin `LMCT`; `format_version` is the integer 1; `level` is a str. All else is optional: absent or of another type is a note.
 */
#define LMT_FORMAT_VERSION 1
#define LMT_SCHEMA_KNOWN_MAX 2 /* 1 and 2 */

/**
 * lmt_header_new_from_body:
 * @body: the frame's body
 * @name: the file as the user named it, for messages
 *
 * Returns: (transfer full): the header, or %NULL with `name: frame 0 at offset 0: reason: …`
 */
LmtHeader *lmt_header_new_from_body (LmtSpan body, const char *name, GError **error);

/**
 * LmtHeaderFields: what a writer gives. @level_meta_msgpack: an encoded map, or empty to leave it out.
 */
typedef struct
{
  const char *level;
  gint64 trace_schema_version;
  double t_mono_start;
  double t_wall_start;
  const char *sm_config_json;
  const char *sm_config_digest;
  LmtSpan level_meta_msgpack;
} LmtHeaderFields;

/* Appends the whole frame (prefix and body), byte for byte as LMCache 0.5.6 writes it. */
void lmt_header_encode (const LmtHeaderFields *fields, GByteArray *out);

LmtHeader *lmt_header_ref (LmtHeader *header);
void lmt_header_unref (LmtHeader *header);

const char *lmt_header_get_level (const LmtHeader *header);
gint64 lmt_header_get_format_version (const LmtHeader *header);
/* FALSE: absent or no integer. */
gboolean lmt_header_get_schema (const LmtHeader *header, gint64 *schema);
gboolean lmt_header_get_t_mono_start (const LmtHeader *header, double *t);
gboolean lmt_header_get_t_wall_start (const LmtHeader *header, double *t);
const char *lmt_header_get_config_json (const LmtHeader *header);   /* "" if absent */
const char *lmt_header_get_config_digest (const LmtHeader *header); /* "" if absent */
/* Encoded map; empty if absent. Lives as long as the header. */
LmtSpan lmt_header_get_level_meta (const LmtHeader *header);
/* The frame's body as read, so that unknown keys survive a rewrite. */
LmtSpan lmt_header_get_body (const LmtHeader *header);
/* Things worth a mention, one sentence each (`trace_schema_version absent`, `unknown fields build, comment`): NULL-terminated. */
const char *const *lmt_header_get_notes (const LmtHeader *header);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtHeader, lmt_header_unref)

G_END_DECLS
