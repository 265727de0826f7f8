// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "replay.h"

G_BEGIN_DECLS

/**
 * SECTION: calls as jobs. The main thread makes them in the order of the stream and settles what came of them; a lane (a thread
 * with its own connection) makes the calls of one job after another. With one connection there is no lane: the main thread calls
 * itself.
 */
typedef enum
{
  JOB_POST,     /* POST /events */
  JOB_REGISTER, /* a start mark: POST /instances, unless there is nothing to register */
  JOB_STOP,     /* a stop mark: DELETE /instances/ID, if it is registered */
} JobKind;

/* A record in a job. */
typedef struct
{
  guint64 n;
  guint64 number;
  guint64 offset;
  guint32 file;
  guint32 verdict;          /* EventsVerdict, as predicted */
  ReplayInstance *instance; /* (nullable) */
  gint64 incarnation;
  gint64 seq;
  gboolean last; /* of its instance, and no stop mark: its stream ends here */
} ReplaySent;

/**
 * ReplayJob: @body: what is posted. @path: of the instance, as a segment; NULL: none can be made
 * @made: a call was made at all. @ok: all went as it should. @dropped: not begun, the run was broken off before
 * @clear: the counts of a POST make sense
 * @failure: (nullable): `POST /events: expected …, found …`
 */
typedef struct _ReplayJob
{
  JobKind kind;
  GString *body;
  GArray *sents; /* ReplaySent */
  ReplayInstance *instance;
  char *path;
  guint64 predicted[3];
  /* what came of it */
  ReplayReply reply;
  gboolean kafka; /* a batch for Kafka */
  gboolean made, ok, dropped, clear, unaddressable;
  gboolean away; /* an attempt before the one that went well found nobody, or lost him */
  gint64 counts[3];
  guint64 calls;
  guint64 retried;
  char *failure;
  char *warning;
  GList link; /* among those not settled */
} ReplayJob;

/* What all callers share. @stop: no job is begun any more. */
typedef struct
{
  const ReplayConfig *config;
  const volatile gint *interrupts;
  ReplayTarget *target;
  ReplayBeat *beat;
  gint stop;   /* atomic */
  gint posted; /* atomic: an /events was answered with success */
} ReplayCaller;

ReplayJob *replay_job_new (void);
void replay_job_free (ReplayJob *job);
void replay_job_reset (ReplayJob *job, JobKind kind);

/* Of one thread. */
typedef struct
{
  ReplayConn *conn;
  EventsArena *arena;
} ReplayWorker;

/* Makes the calls of @job, with repeats as --on-error says. */
void replay_job_execute (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job);

typedef struct _ReplayLanes ReplayLanes;
/* Fewer than @n where threads can't be had; NULL: not one. */
ReplayLanes *replay_lanes_new (ReplayCaller *caller, guint n);
/* Waits until the threads have done, or dropped, what they were given, and ends them. Then replay_lanes_take_done() gives the
 * rest. */
void replay_lanes_finish (ReplayLanes *lanes);
void replay_lanes_free (ReplayLanes *lanes);
gboolean replay_lanes_has_room (ReplayLanes *lanes, guint lane);
void replay_lanes_submit (ReplayLanes *lanes, guint lane, ReplayJob *job);
/* A job that is through, or NULL if there is none within @timeout_ns. */
ReplayJob *replay_lanes_take_done (ReplayLanes *lanes, gint64 timeout_ns);

G_END_DECLS
