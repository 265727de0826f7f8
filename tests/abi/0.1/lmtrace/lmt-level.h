/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-header.h"
#include "lmt-key.h"
#include "lmt-option.h"
#include "lmt-pack.h"
#include "lmt-pacer.h"
#include "lmt-record.h"
#include "lmt-report.h"

G_BEGIN_DECLS

typedef struct _LmtReplay LmtReplay;
typedef struct _LmtRegistry LmtRegistry;
typedef struct _LmtSelect LmtSelect;

/**
 * LmtStatus: what became of a record; the same words in text, JSON, CSV and exit code.
 */
typedef enum
{
  LMT_STATUS_OK = 0,
  LMT_STATUS_SKIPPED,
  LMT_STATUS_UNDECODABLE,
  LMT_STATUS_FAILED,
  LMT_STATUS_MISMATCH,
} LmtStatus;
enum
{
  LMT_N_STATUS = 5
};
/* (transfer none): static. */
const char *lmt_status_word (guint32 status); /* ok skipped undecodable failed mismatch */

/**
 * LmtOutcome: what a handler reports of one record. Zeroed by the loop but for struct_size.
 * @start_ns, @end_ns: host clock around the call itself, decoding left out
 * @pending: the call goes on; lmt_replay_complete() with this record's number ends it
 * @error: (nullable): static or alive until the next record; with FAILED and MISMATCH
 * @missing_argument: UNDECODABLE because an argument is absent altogether (`--compat` counts those as failed)
 */
typedef struct
{
  guint32 struct_size;
  guint32 pending;
  gint64 start_ns;
  gint64 end_ns;
  guint64 bytes;
  const char *error;
  LmtFault fault;
  guint32 missing_argument;
  guint32 reserved;
} LmtOutcome;

/**
 * LmtReplayEnv: what a level's session gets. Lives as long as the session.
 */
typedef struct
{
  guint32 struct_size;
  guint32 n_headers;
  LmtRegistry *registry;
  LmtReplay *replay;               /* (nullable): for lmt_replay_complete() and lmt_replay_message() */
  const LmtHeader *const *headers; /* of all FILEs of this session */
  const LmtOptions *options;       /* origins of all options */
  gconstpointer config;            /* the level's own, filled from LmtLevelOps.options */
  const LmtClock *clock;           /* host clock */
  double speed;                    /* 0: as fast as dependencies allow */
  guint32 dry_run;                 /* plan and decode, touch nothing */
  guint32 compat;                  /* 0, 56: LMCache 0.5.6, 57: 0.5.7 */
  guint64 seed;
  gint64 drain_timeout_ns;
  guint32 quiet;
  guint32 n_sessions; /* of this command: above 1 if each of several FILEs has its own */
  const char *const *yes_destroy;
  const volatile gint *interrupts; /* (nullable): signals seen so far: 1 = no new record, 2 = don't wait for the drain */
  LmtWarnings *warnings;           /* (nullable): for what configure() has to say */
  const char *const *files;        /* (nullable): names of the FILEs, up to NULL: for lmt_output_check_inputs() */
  guint32 can_rewind;              /* the FILEs can be read twice: a survey may be asked for */
  guint32 reserved;
} LmtReplayEnv;

/**
 * LmtInfoOut: what a level adds to `info`: lines of text and members of JSON.
 */
typedef struct
{
  guint32 struct_size;
  guint32 reserved;
  GString *text;       /* appended to the block, lines with their newline */
  LmtJsonWriter *json; /* inside the file's object; write keys */
} LmtInfoOut;

/**
 * LmtInfoAct: what a record does to one key, as far as statistics of a trace care.
 */
typedef enum
{
  LMT_INFO_LOOKUP = 0, /* wants it: a reference */
  LMT_INFO_RESERVE,    /* begins to write it */
  LMT_INFO_FINISH,     /* has written it */
  LMT_INFO_ABORT,      /* gives the reservation back */
  LMT_INFO_ENTER,      /* begins to read it */
  LMT_INFO_EXIT,       /* ends to read it */
  LMT_INFO_RELEASE,    /* gives locks back */
} LmtInfoAct;

/**
 * LmtInfoVisitor: called by LmtLevelOps.info_visit for each key of a record, in the record's order.
 * @bytes: size of the object, 0: the record doesn't say
 */
typedef struct
{
  guint32 struct_size;
  guint32 reserved;
  void (*key) (gpointer user_data, guint32 act, const LmtKeyFields *key, guint64 bytes);
  gpointer user_data;
} LmtInfoVisitor;

/**
 * LmtSurveyEnd: what follows a level's pass over the records (LmtLevelOps.survey_end).
 */
typedef enum
{
  LMT_SURVEY_FAILED = 0, /* @error is set: nothing is replayed */
  LMT_SURVEY_REPLAY,     /* the replay follows */
  LMT_SURVEY_ONLY,       /* that was all that was asked for */
} LmtSurveyEnd;

/**
 * LmtLevelOps: a level of traces. One table per level; R = required, all others may be NULL and then do nothing.
 *
 * Order of replay: configure, start, for each record wait and the handler's call, finish, report and the figures, free. free is
 * called after every configure that returned a session, whatever came of start. Of info: info_new, info_record or info_visit per
 * record, info_finish, info_free.
 * Lifetime: what a callback is given is borrowed for the call, but for LmtReplayEnv, which lives as long as the session.
 * Errors: configure and start set @error (`what: expected X, found Y`; core puts the FILE in front where there are several), exit
 * 2; later trouble is the record's status or exit_code, and a warning. Threads: %LMT_THREADS_ONE, whatever @threads says: the
 * loop's thread makes every call. Per record: no allocation, lock or log call once warm. Times are ns of LmtReplayEnv.clock
 * unless a name says otherwise.
 *
 * Since: 0.1
 */
typedef struct
{
  guint32 struct_size;
  guint32 threads;
  const char *name; /* R: what Header.level says */
  const char *summary;
  const LmtOption *options; /* of `replay` for this level */
  guint32 config_size;
  guint32 reserved;
  const char *replay_command; /* the command to use where `replay` isn't offered (open is NULL) */

  /* info: all may be NULL: core's block alone */
  gpointer (*info_new) (const LmtHeader *header);
  void (*info_record) (gpointer info, const LmtRecord *record);
  void (*info_finish) (gpointer info, const LmtInfoOut *out);
  void (*info_free) (gpointer info);

  /* replay: configure checks everything that can be checked without touching anything; start acquires. */
  gpointer (*configure) (const LmtReplayEnv *env, GError **error);
  gboolean (*start) (gpointer session, GError **error);
  /* Called before each record until it is due, and with G_MAXINT64 never. NULL: core sleeps. @due_ns: host clock. FALSE:
   * interrupted. */
  gboolean (*wait) (gpointer session, gint64 due_ns, gint64 trace_ns);
  /* Does the record pass the key selection? NULL: always. Called only if one is given. */
  gboolean (*select) (gpointer session, const LmtRecord *record, const LmtSelect *select);
  /* After the last record: end what is open, drain. */
  void (*finish) (gpointer session, gboolean interrupted);
  /* More sections of the table. @report already holds Overall, Per-Op and Pacing. */
  void (*report) (gpointer session, LmtReport *report);
  /* The value of the row "Config digest", or NULL: no row. (transfer full) */
  char *(*digest_row) (gpointer session, guint file);
  /* 1: a threshold of the level was missed or its run failed; the reason goes to a warning. */
  int (*exit_code) (gpointer session);
  void (*free) (gpointer session);
  /* A figure for the progress line: "L2 depth 12". @out of 64 bytes. */
  void (*progress) (gpointer session, char *out);
  /* The clock the session ran by, for the row "Clock": "settled", "real time" … NULL: "real time". Static. */
  const char *(*clock_word) (gpointer session);
  /* Two runs of this trace give the same outcome: member "settled" of the report. NULL: no. */
  gboolean (*is_settled) (gpointer session);

  /* `info --stats` and selection by key; @info is what info_new made. NULL: the level has no keys to show. FALSE: the record's
   * arguments can't be used. */
  gboolean (*info_visit) (gpointer info, const LmtRecord *record, const LmtInfoVisitor *visitor);
  /* Does the record pass the level's kinds of selection in `info`? NULL: one of its keys must pass lmt_select_key(). */
  gboolean (*info_select) (gpointer info, const LmtRecord *record, const LmtSelect *select);

  /* The records that follow are those of tenant @number: 0: as recorded; others have keys that no other tenant has. Constant for
   * equal numbers. NULL: the level can't tell tenants apart (--key-offset is refused). */
  void (*set_tenant) (gpointer session, guint64 number);
  /* Ends what the records so far have opened and not closed; at the end of each round if --close-pairs asks for it. Returns how
   * many pairs. NULL: the level has none (--close-pairs is refused). */
  guint64 (*close_pairs) (gpointer session);
  /* A pass over the records the run will replay, before the first of them. Wanted? NULL: never. Needs LmtReplayEnv.can_rewind. */
  gboolean (*survey_wanted) (gpointer session);
  void (*survey_record) (gpointer session, const LmtRecord *record);
  /* The pass is over: LmtSurveyEnd. */
  guint32 (*survey_end) (gpointer session, GError **error);
  /* For --print-config: puts what @header would give into @options, with LMT_ORIGIN_HEADER, if they ask for it. NULL: the level
   * takes nothing from a header. */
  gboolean (*header_options) (const LmtHeader *header, LmtOptions *options, GError **error);
  /* Once started: a word that every output of the run bears, as its figures are none of a real device: "faults". NULL: none. */
  const char *(*mark) (gpointer session);
  /* Failures of the target that no record shows, as writes in the background fail: --max-errors counts them beside failed
   * records. NULL: none. */
  guint64 (*target_errors) (gpointer session);
  /* An LmtArgsWalk for `info`; @info is what info_new made. The args it took come to info_record or info_select next, unless the
   * record turned out to be none. NULL: core looks at them. */
  const guint8 *(*info_walk) (gpointer info, LmtSpan qualname, const guint8 *args, const guint8 *end);
} LmtLevelOps;

/**
 * LmtHandlerOps: one qualname of a level.
 * @level, @qualname: both required, UTF-8, compared byte for byte
 * @call: required; decodes record->args (one msgpack map, parameter name to value), acts. Never logs, never allocates once warm.
 *   @record and what it points to die when it returns; copy what must stay. Returns LmtStatus; fill @outcome->fault for
 * UNDECODABLE and @outcome->error for FAILED and MISMATCH. Threads: the loop's.
 *
 * Since: 0.1
 */
typedef struct
{
  guint32 struct_size;
  guint32 reserved;
  const char *level;
  const char *qualname;
  guint32 (*call) (gpointer session, const LmtRecord *record, LmtOutcome *outcome);
} LmtHandlerOps;

/**
 * LmtCodecOps: one `__t__` tag. @decode reads the payload (the value behind "v") into @value (value_size bytes, zeroed); spans in
 * it point into the record. @scratch: the session of the level. FALSE: @fault is filled.
 * A payload is whatever a file holds: check every type and count by the cursor's typed reads. Threads: the loop's; no allocation.
 * @encode: (nullable): writes `{"__t__": tag, "v": payload}` as a recorder of that trace_schema_version writes it: members in its
 * order, shortest forms, defaults filled in; @payload in any form @decode takes. FALSE: @fault is filled: no such tag in that
 * schema, or a value it can't hold. Threads: any.
 * Source: LMCache's trace/codecs.py.
 *
 * Since: 0.1
 */
typedef struct
{
  guint32 struct_size;
  guint32 value_size;
  const char *tag;
  const char *summary;
  gboolean (*decode) (LmtCursor *payload, gpointer value, gpointer scratch, LmtFault *fault);
  gboolean (*encode) (const char *tag, LmtCursor *payload, guint32 schema, LmtPack *out, LmtFault *fault);
} LmtCodecOps;

G_END_DECLS
