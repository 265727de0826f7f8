/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "work-drive.h"

G_BEGIN_DECLS

typedef enum
{
  WORK_IDLE = 0,
  WORK_PREFETCH,
  WORK_WAIT, /* for the prefetch's result */
  WORK_ENTER,
  WORK_EXIT,
  WORK_FINISH_READ,
  WORK_RESERVE,
  WORK_FINISH_WRITE,
  WORK_DONE,
} WorkStep;

/**
 * WorkCaller: one thread of a server, as far as the cache sees it: one request at a time, its calls in this order: prefetch of
 * the prompt; per rank: enter, exit and finish of what was hit; per rank and group: reserve and finish of the whole chunks behind
 * the hit ones.
 * @next_ns: when its next call is due
 * @keys: row by row (group, then rank), request.n_all each; held
 * @hit: per cell of the prompt; @n_hit: chunks
 */
typedef struct
{
  WorkRequest request;
  WorkStep step;
  gint64 next_ns;
  guint64 prefetch; /* number of the request in the manager */
  guint32 rank;
  guint32 group;
  guint32 n_hit;
  guint32 n_keys;
  guint32 n_list;
  guint32 n_good;
  gboolean enter_good;
  guint cap_keys;
  LmtKey **keys;
  LmtKey **list;
  LmtKey **good; /* of the list, if the enter was no success */
  guint8 *hit;
  LmtKeyFields *fields;
  SmRow *rows;
} WorkCaller;

/* What callers share. */
typedef struct
{
  StorageSession *session;
  const WorkShape *shape;
  WorkFigures *figures;
} WorkStage;

void work_caller_begin (WorkCaller *caller, const WorkStage *stage, const WorkRequest *request, gint64 now_ns);
/* Makes the call that is due, at @now_ns of the manager's clock, and says what comes next: step WORK_DONE: nothing. */
void work_caller_step (WorkCaller *caller, const WorkStage *stage, gint64 now_ns);
/* The result of its prefetch. */
void work_caller_result (WorkCaller *caller, const WorkStage *stage, const SmPrefetchResult *result);
void work_caller_end (WorkCaller *caller, const WorkStage *stage);
void work_caller_clear (WorkCaller *caller);

G_END_DECLS
