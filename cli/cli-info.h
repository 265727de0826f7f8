// SPDX-License-Identifier: Apache-2.0
#pragma once

/**
 * SECTION: `lmtrace info`. cmd-info.c reads and decides, cli-info-ops.c counts names, cli-info-text.c and cli-info-json.c show,
 * cli-info-stats.c makes the sections of --stats.
 */
#include "cli.h"

G_BEGIN_DECLS

/**
 * InfoConfig: the options of `info` itself.
 */
typedef struct
{
  guint32 stats;
  guint32 resync;
  guint32 header;
  guint32 follow;
  gint64 follow_idle_ns;
  gint64 window_ns; /* 0: duration / 60, at least 1 s */
  guint64 top;
  char *records; /* NULL: not given; "": all; else a number or a range */
} InfoConfig;

/* -------- cli-info-ops.c: records per qualname -------- */

/**
 * InfoOps: a table of names and counts. The last name is tried first; a name that is known costs no allocation, and neither do
 * the first INFO_OPS_FREE names. At most INFO_OPS_MAX names of INFO_OPS_BYTES_MAX bytes together are kept apart: a file can't
 * make the table grow for ever; records of further names are counted in @others.
 */
typedef struct
{
  const char *name; /* not NUL-terminated */
  gsize len;
  guint64 hash;
  guint64 count;
} InfoOp;

typedef struct
{
  InfoOp *ops;
  guint n;
  guint allocated;
  guint last;
  guint32 *slots; /* index + 1, 0: free */
  guint n_slots;
  char *arena;
  gsize arena_used;
  gsize bytes;
  GPtrArray *names; /* what the arena had no room for */
  guint64 others;
} InfoOps;

enum
{
  INFO_OPS_FREE = 128,
  INFO_OPS_MAX = 10000,
  INFO_OPS_BYTES_MAX = 4 * 1024 * 1024,
};

void info_ops_init (InfoOps *ops);
void info_ops_clear (InfoOps *ops);
void info_ops_count (InfoOps *ops, LmtSpan qualname);
/* By code point of the name. Call once, after the last record. */
void info_ops_sort (InfoOps *ops);

/* -------- cli-info-stats.c: --stats, --top -------- */

typedef struct _InfoStats InfoStats;

/**
 * info_stats_new: @window_s: width of the windows of the time series; @level: (nullable): what sees the keys; @info: its object
 */
InfoStats *info_stats_new (const InfoConfig *config, double window_s, const LmtLevelOps *level, gpointer info);
void info_stats_free (InfoStats *stats);
void info_stats_record (InfoStats *stats, const LmtRecord *record);
/* Sections behind the block, and their JSON members. */
void info_stats_finish (InfoStats *stats, const LmtReaderStats *reader, GString *text, LmtJsonWriter *json);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (InfoStats, info_stats_free)

/* -------- one file -------- */

/**
 * InfoFile: what is known of a FILE once it was read.
 */
typedef struct
{
  const char *path;
  const char *shown; /* the path as messages show it: valid UTF-8 */
  LmtHeader *header; /* borrowed from the reader */
  const LmtReaderStats *stats;
  LmtReader *reader;
  InfoOps *ops;
  guint64 records;  /* counted ones: what the selection took */
  guint64 left_out; /* what it didn't */
  gboolean selected;
  const char *level_text; /* the level's lines, "" if it has none */
  const char *level_json; /* its JSON members as the text of an object, "{}" */
  const char *stats_text;
  const char *stats_json;
} InfoFile;

/* -------- cli-info-text.c -------- */

/* A msgpack value as LMCache's text shows it (cli.md 2): a str bare at the top, in quotes inside lists and maps. */
void info_text_value (GString *out, LmtSpan value);
/* `  LABEL:   VALUE` with the value from column 30 on; @indent blanks in front. */
void info_text_field (GString *out, guint indent, const char *label, const char *value);
/* The block of cli.md 2. */
void info_text_block (GString *out, const InfoFile *file);
/* --header: each key in the file's order. */
void info_text_header (GString *out, const char *shown, const LmtHeader *header);
/* --records: one line. */
void info_text_record (GString *out, const LmtRecord *record);

/* -------- cli-info-json.c -------- */

/* Members of the file's object. */
void info_json_file (LmtJsonWriter *json, const InfoFile *file);
void info_json_header (LmtJsonWriter *json, const char *path, const LmtHeader *header);
void info_json_record (LmtJsonWriter *json, const LmtRecord *record);
/* A msgpack value; bytes as "0x…". */
void info_json_value (LmtJsonWriter *json, LmtSpan value);
/* Rows `file,qualname,count`. */
void info_csv_file (GString *csv, const InfoFile *file);
const char *info_tail_word (guint32 tail);

G_END_DECLS
