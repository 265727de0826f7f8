/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-option.h>

#include "work-shape.h"

G_BEGIN_DECLS

enum
{
  WORK_CLASSES_MAX = 256,
  WORK_THREADS_MAX = 1024,
  WORK_USERS_MAX = 1000000,
};
#define WORK_TOKENS_MAX 0x1p26 /* of one distribution */

typedef enum
{
  WORK_POISSON = 0,
  WORK_BURST,
  WORK_DIURNAL,
} WorkArrivalKind;

/**
 * WorkArrivals: when sessions begin. @rate: of sessions, a second, in the mean over time
 * @size: BURST: how many begin at once; @peak, @period_ns: DIURNAL: the rate goes from 2 rate - peak, at the start, to peak, half
 * a period later, and back, as a cosine does
 */
typedef struct
{
  guint32 kind;
  double rate;
  double peak;
  gint64 period_ns;
  WorkDist size;
  double mean_size;
} WorkArrivals;

/**
 * WorkClass: a kind of sessions. @weight: share of arrivals; @users: sessions at a time, at most
 * @has_prefix: a session begins with one of prefixes.n prefixes, drawn by its rank; each has a length of its own
 * @has_documents: a turn holds document_count of documents.n documents in front of the user's input
 */
typedef struct
{
  char *name;
  char *salt;
  double weight;
  guint64 users;
  WorkDist turns;
  WorkDist think_s;
  gboolean has_prefix;
  WorkZipf prefixes;
  WorkDist prefix_tokens;
  gboolean has_documents;
  WorkZipf documents;
  WorkDist document_tokens;
  WorkDist document_count;
  WorkDist input_tokens;
  WorkDist output_tokens;
} WorkClass;

/**
 * WorkSpec: a workload file, `lmtrace/workload/1` (trace-format.md 10), checked.
 * @duration_ns, @requests: 0: no such end; one of them there is
 * @manager: (nullable): lives as long as @json
 */
typedef struct
{
  char *shown;
  LmtJson *json;
  guint64 seed;
  gint64 duration_ns;
  guint64 requests;
  gboolean real_clock;
  guint64 threads;
  WorkShape shape;
  WorkArrivals arrivals;
  guint n_classes;
  WorkClass *classes;
  double *class_sums; /* running sums of weights */
  const LmtJson *manager;
} WorkSpec;

/* @name_or_file: a file, or a name of data/workloads */
WorkSpec *work_spec_load (const char *name_or_file, GError **error);
/* @shown: for messages. @json becomes the spec's (transfer full) */
WorkSpec *work_spec_new (const char *shown, LmtJson *json, GError **error);
void work_spec_free (WorkSpec *spec);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WorkSpec, work_spec_free)

/**
 * work_spec_set_options: members of `manager` become values of @options, where @line says nothing: names are those of the flags,
 * `l2-adapter` and `l1-manager` may be objects or arrays of them.
 */
gboolean work_spec_set_options (const WorkSpec *spec, const LmtOptions *line, LmtOptions *options, GError **error);

G_END_DECLS
