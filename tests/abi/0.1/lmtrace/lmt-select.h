/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-key.h"
#include "lmt-option.h"
#include "lmt-header.h"
#include "lmt-record.h"

G_BEGIN_DECLS

/**
 * SECTION: selections of records and keys. Threads: one per LmtSelect. Errors: LMT_ERROR_OPTION, fit for the user as it is.
 *
 * Since: 0.1
 */

/**
 * LmtSelect: the selection of cli.md 8.7, the same in every command. Kinds are ANDed, repeats of one kind ORed. Globs know `*`
 * and
 * `?`, match the whole text, and leave out with a `!` in front. Both ends of a range belong to it. No allocation once made.
 */
typedef struct _LmtSelect LmtSelect;

typedef struct
{
  char *time;
  char *records;
  char **qualname;
  char **model;
  char **salt;
  char *rank;
  char *group;
  char **instance;
  char *tier;
  char **backend;
  char *event_type;
  char **key;
  char *sample;
  gint64 session_gap_ns;  /* 0: no sessions */
  double sample_sessions; /* 0: not given */
} LmtSelectConfig;

extern const LmtOption lmt_select_options[]; /* over LmtSelectConfig */

/* @header, @span_s: for --time with @EPOCH, ISO 8601 and percent; span -1: not known (then a percent is refused). */
LmtSelect *lmt_select_new (const LmtSelectConfig *config, const LmtHeader *header, double span_s, GError **error);
void lmt_select_free (LmtSelect *select);
gboolean lmt_select_is_empty (const LmtSelect *select);
gboolean lmt_select_wants_keys (const LmtSelect *select);       /* some kind needs the level's eyes */
gboolean lmt_select_wants_span (const LmtSelectConfig *config); /* a percent stands in --time: the span must be found first */
/* Time, record number, qualname, session. Every record of the input in order: sessions are counted here. */
gboolean lmt_select_record (LmtSelect *select, const LmtRecord *record);
/* The input begins anew: sessions are counted from the first again. */
void lmt_select_rewind (LmtSelect *select);
/* Model, salt, rank, group, key prefix, sample of one key. */
gboolean lmt_select_key (const LmtSelect *select, const LmtKeyFields *key);
/* A word against one of the lists the level knows: kind "instance" "tier" "backend" "event-type". */
gboolean lmt_select_word (const LmtSelect *select, const char *kind, const char *word, gsize len);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtSelect, lmt_select_free)

G_END_DECLS
