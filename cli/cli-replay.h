/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: what the files of `lmtrace replay` share. cmd-replay.c is the order of work (cli.md 3.2), -options.c its table,
 * -input.c finds and opens the FILEs, -merge.c makes one of several, -place.c knows the outputs, -output.c writes lines, CSV,
 * JSON and the report from plain structs, -report.c fills those structs, -watch.c is what a person sees meanwhile.
 */
#include <stdio.h>

#include "cli.h"
#include "cli-progress.h"
#include "cli-replay-output.h"

G_BEGIN_DECLS

/**
 * ReplayConfig: the flags that don't depend on the level (cli.md 3.1, 8.8).
 */
typedef struct
{
  guint32 verbose;
  char *jsonl_out;
  char *output_dir;
  guint32 no_csv;
  char *json; /* NULL: not given; "": in the output folder; else a path or `-` */
  double speed;
  gint64 max_gap_ns;
  guint64 loop;
  guint64 limit; /* 0: none */
  guint32 dry_run;
  gint64 drain_timeout_ns;
  char *max_errors;
  gint64 max_lag_ns; /* 0: none */
  guint32 allow_unknown_schema;
  gint64 interval_ns;
  char *stats_out;
  char *compat;
  guint64 seed;
  char **yes_destroy;
  guint32 merge;
  guint32 resync;
  guint32 follow;
  gint64 follow_idle_ns;
  guint32 print_config;
  guint64 copies;
  char *key_offset; /* NULL: not given; "" or a number */
  guint32 close_pairs;
} ReplayConfig;

extern const LmtOption replay_options[];

/**
 * ReplayPrepared: what the first reading of the line found.
 * @level: of the first FILE; NULL: no word of the line is a trace
 * @level_config: filled from level->options by the second reading
 * @first: the reader of @first_path with its header read; taken by the run
 * @options: of the whole line
 */
typedef struct
{
  LmtSelectConfig select;
  const LmtLevelOps *level;
  gpointer level_config;
  char *first_path;
  LmtReader *first;
  LmtOptions *options;
  GPtrArray *spare; /* configs and tables of levels whose tables were taken for want of a FILE */
} ReplayPrepared;

gboolean replay_prepare (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *prepared,
                         GError **error);
void replay_prepared_free (gpointer prepared);

/**
 * ReplayFile: one FILE with its header read.
 * @n_records: from counting; 0 and @counted FALSE where it can't be known first
 * @span_s: largest time of the file, -1: not known
 */
typedef struct
{
  char *path;
  char *shown; /* path as messages show it: valid UTF-8 */
  LmtReader *reader;
  gpointer run; /* the ReplayRun that reads it */
  gboolean follow;
  gboolean counted;
  guint64 n_records;
  double span_s;
} ReplayFile;

void replay_file_free (ReplayFile *file);

/**
 * replay_open_files: opens what the line names. Those that can't be used are told in one line each and left out.
 * @exit_code: (out): 2 if one was left out
 *
 * Returns: (element-type ReplayFile): the usable ones; NULL with @error: none is, or they may not be replayed together
 */
GPtrArray *replay_open_files (const LmtCommandContext *context, const ReplayConfig *config, ReplayPrepared *prepared,
                              int *exit_code, GError **error);
/* Reads the file once for its number of records and its span, and goes back; nothing on pipes and above 1 GiB. FALSE:
 * interrupted, or
 * @error. */
gboolean replay_file_count (ReplayFile *file, const volatile gint *interrupts, GError **error);

/**
 * ReplayStream: a file that is written line by line.
 * @file: from replay_places_commit() on; NULL: not asked for
 */
typedef struct
{
  const char *flag;
  const char *path;
  int fd;
  int code; /* errno of the first write that failed; nothing is written behind it */
  FILE *file;
} ReplayStream;

void replay_stream_write (ReplayStream *stream, const char *data, gsize len);
void replay_stream_flush (ReplayStream *stream);

/**
 * ReplayPlaces: where the run writes. Opened before the run; what was made is taken away again if the run is refused.
 */
typedef struct
{
  char *dir;
  char *csv_path;     /* NULL: none */
  char *summary_path; /* NULL: none; `-`: stdout */
  ReplayStream jsonl;
  ReplayStream stats;
  GPtrArray *made; /* paths, in the order made */
} ReplayPlaces;

/* @files: (element-type ReplayFile): no output may be one of them. */
ReplayPlaces *replay_places_open (const LmtCommandContext *context, const ReplayConfig *config, GPtrArray *files, GError **error);
/* `x.csv` for the first FILE, `x.2.csv` for the second … (transfer full) */
char *replay_places_numbered (const char *path, guint index);
/* The run begins: older content of the streams goes. */
gboolean replay_places_commit (ReplayPlaces *places, GError **error);
/* Refused: folders and files made by replay_places_open() go. */
void replay_places_undo (ReplayPlaces *places);
/* Flushes and closes the streams. */
gboolean replay_places_close (ReplayPlaces *places, GError **error);
void replay_places_free (ReplayPlaces *places);

/**
 * ReplayMerge: FILEs as one source of records, by wall time (--merge).
 */
typedef struct _ReplayMerge ReplayMerge;
/* @files: (element-type ReplayFile): borrowed, headers read. */
ReplayMerge *replay_merge_new (GPtrArray *files);
void replay_merge_free (ReplayMerge *merge);
const LmtReplaySource *replay_merge_get_source (ReplayMerge *merge);
/* The file a record is from, if it is the present one; @number becomes its number there. */
const char *replay_merge_get_place (ReplayMerge *merge, guint64 *number);
/* Records whose wall time was before that of the one in front of them in their file. */
guint64 replay_merge_get_steps_back (ReplayMerge *merge);

/**
 * ReplayRun: one FILE's replay, or that of all FILEs merged: session, loop, figures, what is told meanwhile.
 * @file: the first of @files
 * @n_total: records of all rounds, the N of `[i/N]`; 0: not known
 */
typedef struct
{
  const LmtCommandContext *context;
  const ReplayConfig *config;
  const ReplayPrepared *prepared;
  ReplayPlaces *places;
  ReplayFile *file;
  GPtrArray *files;   /* (element-type ReplayFile): those of this run */
  ReplayMerge *merge; /* (nullable) */
  guint index;        /* of the run, from 0 */
  guint n_runs;
  guint compat;         /* 0, 56, 57 */
  guint64 first_tenant; /* of --key-offset */
  guint64 n_total;
  GPtrArray *all_paths; /* borrowed texts, then NULL: of all FILEs of the command */
  const LmtHeader **headers;
  LmtReplayEnv env;
  LmtReplay *replay;
  LmtSelect *select;
  gpointer session;
  gboolean started;
  char *title;     /* (nullable): of the report, with several FILEs */
  char *digest;    /* (nullable): row "Config digest" */
  gboolean broken; /* the file could not be read to its end */
  int exit_code;
  gboolean stdout_gone;
  /* cli-replay-watch.c */
  CliProgress *progress;
  GString *line;
  GString *verbose_lines; /* not yet on stdout */
  gint64 stats_next_ns;
  gint64 began_ns;
  gint64 p99_next_ns;
  gint64 lag_p99_ns;
  gint tables_shown;
} ReplayRun;

/* cli-replay-watch.c: lines per record, progress, interim tables, periodic figures. */
void replay_watch_attach (ReplayRun *run);
void replay_watch_detach (ReplayRun *run);

/* Was it stopped before its end? */
gboolean replay_run_is_partial (const ReplayRun *run);

/* cli-replay-report.c: the figures of one FILE as they are now; clear gives them back. */
void replay_result_init (CliReplayResult *result, ReplayRun *run);
void replay_result_clear (CliReplayResult *result);
/* Table and metrics. (transfer full) */
LmtReport *replay_report_new (ReplayRun *run, const CliReplayResult *result);
/* trace_replay_summary.json. (transfer full) */
char *replay_summary_new (ReplayRun *run, const CliReplayResult *result, const LmtReport *report);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplayPlaces, replay_places_free)

G_END_DECLS
