// SPDX-License-Identifier: Apache-2.0
#pragma once

/**
 * SECTION: what the files of `lmtrace replay-events` share (events.md 13, 15). replay-main.c is the order of work and the
 * options; -feed.c makes the stream that is sent out of merge, selection, renames and rounds; -survey.c is the first pass, -dry.c
 * the run without a network; -post.c the HTTP client, -guard.c the questions before the first POST, -send.c the order and the
 * calls, -beat.c the heartbeats, -position.c what a later --resume needs, -report.c and -progress.c what people see.
 */
#include "events-gate.h"
#include "events-merge.h"
#include "replay-post.h"

G_BEGIN_DECLS

/* -------- options: replay-main.c -------- */

typedef struct
{
  /* target */
  char *url;
  char *events_path;
  char *token_file;
  char *ca_file;
  gint64 connect_timeout_ns;
  gint64 timeout_ns;
  char *kafka_servers;
  char *kafka_topic;
  char **kafka_config;
  char *compat;
  /* pace */
  double speed;
  gint64 max_gap_ns;
  guint64 loops;
  guint32 rename_per_loop;
  guint32 new_incarnations;
  gint64 heartbeat_ns;
  /* order and speed */
  char *merge;
  guint64 batch;
  guint64 inflight;
  guint32 keep_shared_order;
  /* what is sent */
  char **rename;
  char *rename_prefix;
  char *register_mode;
  guint32 reregister;
  /* safety */
  guint32 dry_run;
  guint32 check;
  char *version;
  guint32 force;
  guint32 reset;
  guint32 skip_bad;
  guint32 allow_damaged;
  guint32 allow_glued;
  guint64 max_frame;
  guint64 max_depth;
  guint64 max_entries;
  guint64 max_tokens;
  guint64 max_string;
  guint64 max_path;
  guint64 max_reply;
  /* robustness */
  char *on_error;
  guint64 retries;
  char *position;
  guint64 position_every;
  guint32 resume;
  char *jsonl_out;
  gint64 interval_ns;
} ReplayConfig;

extern const LmtOption replay_options[];

typedef struct
{
  gint64 incarnation;
  gint64 seq;
  gboolean departed;
  gboolean known;
} ReplayCursor;

/**
 * ReplayInstance: one server of the trace, from its first record on. Strings are its own and end in a NUL that doesn't count.
 * @id: as recorded; @name: as sent; @path: percent-encoded for a path, NULL where no path can hold it (R13)
 * @last_n: the last record of a round that names it; @last_is_stop: that is a stop mark (survey)
 * @shared: it reports into a shared pool (survey)
 * @resume_after: n of its last record that a --resume leaves out, plus 1 (survey); 0: none
 * @register_first: a --resume has to register it before its first record, with @ip and so on
 * @held: what the coordinator or the position file says it has
 */
typedef struct
{
  guint32 number;
  gsize id_len;
  char *id;
  char *name;
  gsize name_len;
  char *path;
  char *shown;
  guint64 last_n;
  gboolean last_is_stop;
  gboolean shared;
  gboolean warned_path;
  gboolean warned_trim;
  gboolean left_out; /* the selection left a batch out since the last one that was taken */
  /* resume */
  gboolean has_held;
  ReplayCursor held;
  guint64 resume_after;
  gboolean held_closed;
  gboolean register_first;
  /* the last start mark: what a registration says */
  char *ip;
  gsize ip_len; /* there may be a NUL in it */
  gint64 http_port;
  gint64 mq_port;
  /* sending; `registered` is the beat's, too: under its lock */
  gboolean registered;
  gboolean expected;  /* what the main thread, that sends, takes it for */
  guint lane;         /* plus 1; 0: none yet */
  ReplayCursor acked; /* last acknowledged batch */
} ReplayInstance;

typedef enum
{
  REPLAY_BATCH,
  REPLAY_START,
  REPLAY_STOP,
  REPLAY_SKIP, /* no kind that is replayed */
} ReplayKind;

/**
 * ReplayItem: one record of the stream as it is sent. Spans die with the next one.
 * @n: from 0, over all rounds; @round_n: in its round
 * @bad: (nullable): why LMCache's replay would die of it (B2); the item then has no more than its place
 */
typedef struct
{
  guint64 n;
  guint64 round_n;
  guint64 round;
  guint32 file;
  guint32 kind;
  guint64 number; /* of the record in its file, from 1 */
  guint64 offset;
  double due_wall;
  LmtSpan qualname;
  LmtSpan args;
  ReplayInstance *instance; /* (nullable) */
  const char *bad;
  LmtSpan phase;
  /* batches: as the gate sees them, where they are numbers at all */
  gint64 incarnation;
  gint64 seq;
  gint64 dropped;
  guint32 event;
  guint32 tier;
  gboolean shared;
  /* start marks */
  LmtSpan ip;
  gint64 http_port;
  gint64 mq_port;
} ReplayItem;

/* -------- replay-feed.c -------- */

/**
 * ReplayFeed: the stream: records merged, selected, renamed, repeated. Owns the instances. Threads: one; the strings of instances
 * may be read by others while no round begins.
 */
typedef struct _ReplayFeed ReplayFeed;
typedef struct
{
  const ReplayConfig *config;
  const LmtSelectConfig *select;
  LmtWarnings *warnings;
  const volatile gint *interrupts;
} ReplayFeedConfig;

ReplayFeed *replay_feed_new (EventsMerge *merge, const ReplayFeedConfig *config, GError **error);
void replay_feed_free (ReplayFeed *feed);
EventsMerge *replay_feed_get_merge (ReplayFeed *feed);
/* 1, 0 at the end of all rounds, -1 with @error. */
int replay_feed_next (ReplayFeed *feed, ReplayItem *item, GError **error);
/* Of one round only: the survey. Then from the start, all rounds. */
void replay_feed_set_rounds (ReplayFeed *feed, guint64 rounds);
gboolean replay_feed_rewind (ReplayFeed *feed, GError **error);
guint64 replay_feed_get_rounds (const ReplayFeed *feed);
guint64 replay_feed_get_left_out (const ReplayFeed *feed);
/* Distinct names that at least one selected record bears, over all rounds. */
guint64 replay_feed_count_servers (ReplayFeed *feed);
/* All incarnations of a round, for --new-incarnations. FALSE: its rounds would go beyond what an incarnation can be. */
gboolean replay_feed_set_incarnations (ReplayFeed *feed, gint64 lowest, gint64 highest, GError **error);
/* Called before another round begins, and its names with it. FALSE: none does. */
typedef gboolean (*ReplayRoundFunc) (gpointer data);
void replay_feed_set_round_func (ReplayFeed *feed, ReplayRoundFunc func, gpointer data);
guint replay_feed_get_n_instances (const ReplayFeed *feed);
ReplayInstance *replay_feed_get_instance (ReplayFeed *feed, guint i);
const EventsLimits *replay_feed_get_limits (const ReplayFeed *feed);
/* Renames may not make one of two. */
gboolean replay_feed_check_names (ReplayFeed *feed, GError **error);
/* Is this the last record of its instance? */
gboolean replay_feed_is_last (const ReplayFeed *feed, const ReplayItem *item);

/**
 * replay_feed_append_json: the record's `args` as it is sent: names and incarnations changed, all else as recorded, in its order.
 * FALSE: JSON can't hold it; @reason (out, static)
 */
gboolean replay_feed_append_json (ReplayFeed *feed, const ReplayItem *item, GString *out, const char **reason);
/* The same as msgpack values changed in @scratch, for the model's reader. */
gboolean replay_feed_convert (ReplayFeed *feed, const ReplayItem *item, EventsArena *arena, EventsBatch *batch,
                              EventsProblems *problems);
/* POST /instances. */
/* With a NUL behind it, and perhaps some inside. (transfer full) */
static inline char *
replay_dup_text (LmtSpan text)
{
  char *copy = g_malloc (text.len + 1);
  if (text.len > 0)
    memcpy (copy, text.data, text.len);
  copy[text.len] = '\0';
  return copy;
}
void replay_append_registration (GString *out, const ReplayInstance *instance, const char *mode);
/* Percent-encoding of one path segment; NULL if it is longer than @max. (transfer full) */
char *replay_encode_segment (const char *text, gsize len, gsize max);
/* `FILE: record N (instance ID, seq S)`. (transfer full) */
char *replay_item_describe (ReplayFeed *feed, const ReplayItem *item);

/* -------- replay-survey.c -------- */

typedef struct
{
  guint64 n;
  guint32 file;
  guint64 number;
  guint64 offset;
  char *instance;
  gboolean has_seq;
  gint64 seq;
  char *why;
} ReplayFinding;

enum
{
  REPLAY_FINDINGS_SHOWN = 10
};

typedef struct
{
  guint64 records;
  guint64 batches;
  guint64 starts;
  guint64 stops;
  guint64 ended;
  guint64 skipped;
  guint64 servers;
  guint64 applied;
  guint64 duplicates;
  guint64 stale;
} ReplayCounts;

/**
 * ReplaySurvey: what the first pass found, over one round.
 * @bad: B2; @refused: B3, what the coordinator would answer 422 to. ReplayFinding, the first ten of each
 */
typedef struct
{
  guint64 records;
  guint64 n_bad;
  GArray *bad;
  guint64 n_refused;
  GArray *refused;
  guint64 first_refused; /* n; G_MAXUINT64: none */
  gboolean all_schema_2;
  double first_wall, last_wall;
} ReplaySurvey;

typedef struct _ReplayPosition ReplayPosition;

ReplaySurvey *replay_survey_new (ReplayFeed *feed, const LmtCommandContext *context, const ReplayConfig *config,
                                 ReplayPosition *resume, GError **error);
void replay_survey_free (ReplaySurvey *survey);

/* -------- replay-dry.c -------- */

int replay_dry_run (ReplayFeed *feed, const ReplaySurvey *survey, const LmtCommandContext *context, const ReplayConfig *config,
                    EventsCompat compat, GError **error);

/* -------- replay-guard.c -------- */

/**
 * ReplayGuard: what the coordinator said before the first POST.
 * @compat: of GET /config/chunk-size, if it was asked
 */
typedef struct
{
  EventsCompat compat;
  gboolean has_compat;
} ReplayGuard;

/* R10, and --reset. 0: go on; else the exit code, with @error. */
int replay_guard_check (ReplayConn *conn, ReplayTarget *target, ReplayFeed *feed, const ReplayConfig *config,
                        const ReplayPosition *resume, LmtWarnings *warnings, ReplayGuard *guard, GError **error);
/* R15: asks GET /lmtrace/streams; where that is answered, @resume holds the coordinator's cursors from then on. As above. */
int replay_guard_streams (ReplayConn *conn, ReplayTarget *target, ReplayPosition *resume, LmtWarnings *warnings, GError **error);

/* -------- replay-position.c -------- */

typedef struct _ReplayBeat ReplayBeat;

/* R15. What a position file holds. */
typedef struct
{
  char *path;
  guint64 size;
  char *sha256;
  guint64 records_done;
} ReplayPositionFile;

struct _ReplayPosition
{
  GPtrArray *files;       /* ReplayPositionFile */
  GHashTable *cursors;    /* name as sent -> ReplayCursor */
  GHashTable *registered; /* set of names as sent */
  gboolean from_streams;  /* the cursors are the coordinator's own word */
};

/* Reads and compares with the FILEs of this run; LMT_ERROR_OPTION if they are others. */
ReplayPosition *replay_position_read (const char *path, EventsMerge *merge, GError **error);
/* As a fresh one for these FILEs: for writing. */
ReplayPosition *replay_position_new (EventsMerge *merge, GError **error);
void replay_position_free (ReplayPosition *position);
gboolean replay_position_is_registered (const ReplayPosition *position, const char *name);
/* @done: records done per file. */
gboolean replay_position_write (ReplayPosition *position, const char *path, ReplayFeed *feed, ReplayBeat *beat,
                                const guint64 *done, GError **error);

/* -------- replay-beat.c -------- */
/* @interval_ns: 0: no heartbeats, but it still keeps who is registered. */
ReplayBeat *replay_beat_new (ReplayTarget *target, gint64 interval_ns, gboolean reregister, LmtWarnings *warnings);
/* Ends all heartbeats; cuts every call of the target that is under way, so it is the last thing of a run. */
void replay_beat_free (ReplayBeat *beat);
/* After its registration was answered. @path: (nullable): its id in paths; NULL: it can't be heartbeated. @body: what was posted
 */
void replay_beat_start (ReplayBeat *beat, ReplayInstance *instance, const char *path, const char *body);
/* No more heartbeats of it; the answer to one under way no longer counts. Returns whether it is registered as far as we know. */
gboolean replay_beat_stop (ReplayBeat *beat, ReplayInstance *instance);
void replay_beat_forget (ReplayBeat *beat, ReplayInstance *instance);
gboolean replay_beat_is_registered (ReplayBeat *beat, ReplayInstance *instance);
/* The number of the record the run is at, for messages. */
void replay_beat_set_place (ReplayBeat *beat, guint64 n);
void replay_beat_counts (ReplayBeat *beat, guint64 *sent, guint64 *failed, guint64 *dropped);

/* -------- replay-send.c -------- */

typedef struct _ReplayKafka ReplayKafka;

/* Prediction against answers (R9). */
typedef struct
{
  guint64 replies;
  guint64 mismatches;
  EventsCompat compat;
  ReplayCounts predicted; /* of the batches that were answered */
  char *first;            /* (nullable): the first mismatch */
} ReplayComparison;

/**
 * ReplayOutcome: what a real run did.
 * @failure: (nullable): the call that ended it, one line
 * @acked_*: the last acknowledged record, if @has_acked
 */
typedef struct
{
  ReplayCounts counts;
  guint64 calls;
  guint64 unclear;
  guint64 retried;
  guint64 unaddressable; /* calls that no path could be made for */
  guint64 resumed_over;
  guint64 left_out_bad; /* --skip-bad */
  guint64 unreadable;   /* so, too: no record for want of UTF-8 */
  guint64 heartbeats;
  guint64 heartbeats_failed;
  guint64 dropped;   /* instances the coordinator forgot */
  guint64 abandoned; /* records Kafka's producer had and was not told the end of */
  guint64 bytes;
  gint64 duration_ns;
  gboolean interrupted;
  char *failure;
  guint64 acked_n;
  guint32 acked_file;
  guint64 acked_number, acked_offset;
  char *acked_instance;
  gint64 acked_seq;
  gboolean has_acked;
  ReplayComparison comparison;
  LmtStats *lag; /* speed above 0 */
  gint64 recorded_ns;
  gboolean kafka;
} ReplayOutcome;

void replay_outcome_clear (ReplayOutcome *outcome);

typedef struct
{
  ReplayFeed *feed;
  const ReplaySurvey *survey;
  const LmtCommandContext *context;
  const ReplayConfig *config;
  ReplayTarget *target; /* (nullable) only with Kafka */
  ReplayConn *conn;     /* (nullable): the main thread's */
  ReplayKafka *kafka;   /* (nullable) */
  EventsCompat compat;
  ReplayPosition *resume;   /* (nullable) */
  ReplayPosition *position; /* (nullable): to be written */
  FILE *jsonl;              /* (nullable) */
} ReplayRun;

/* FALSE: @error, a file could not be read on; all else is in @outcome. */
gboolean replay_send (const ReplayRun *run, ReplayOutcome *outcome, GError **error);

/* -------- replay-report.c -------- */

LmtReport *replay_report_new (ReplayFeed *feed, const ReplayCounts *counts, double duration_s);
/* Table, JSON and partial report of a real run. */
gboolean replay_report_outcome (const ReplayRun *run, const ReplayOutcome *outcome, int exit_code, GError **error);

/* -------- replay-progress.c -------- */

typedef struct _ReplayProgress ReplayProgress;
typedef struct
{
  guint64 done, total;
  guint64 batches;
  guint64 bytes;
  gint64 lag_ns; /* below 0: none */
} ReplayProgressState;
ReplayProgress *replay_progress_new (const char *mode, gboolean quiet, gint64 interval_ns);
void replay_progress_free (ReplayProgress *progress);
gboolean replay_progress_is_due (ReplayProgress *progress, gint64 now_ns);
void replay_progress_draw (ReplayProgress *progress, const ReplayProgressState *state, gint64 now_ns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplayFeed, replay_feed_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplaySurvey, replay_survey_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplayPosition, replay_position_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplayTarget, replay_target_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ReplayConn, replay_conn_free)

G_END_DECLS
