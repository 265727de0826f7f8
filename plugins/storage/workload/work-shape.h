/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "work-json.h"
#include "../storage-trace.h"

G_BEGIN_DECLS

enum
{
  WORK_GROUPS_MAX = 64,
  WORK_RANKS_MAX = 255,
  /* Keys of one request: its prefetch names all of them. */
  WORK_CELLS_MAX = 65536,
};

/**
 * WorkGroup: layers of a model that are kept together: one object per chunk and rank.
 * @window_chunks: -1: full attention
 * @layout: the tagged MemoryLayoutDesc in msgpack: [2, layers, chunk_tokens, heads x head_dim]
 */
typedef struct
{
  guint32 layers;
  gint64 window_tokens;
  gint64 window_chunks;
  guint64 object_bytes;
  LmtPack layout;
} WorkGroup;

/**
 * WorkShape: what of a model decides over its objects (trace-format.md 10, `model`).
 * @chunk_tokens: 0 until work_shape_finish(): not given
 */
typedef struct
{
  char *name;
  guint32 layers;
  guint32 kv_heads;
  guint32 head_dim;
  guint32 world;
  guint64 chunk_tokens;
  char dtype[40]; /* `torch.bfloat16` */
  guint32 dtype_bytes;
  guint32 n_groups;
  WorkGroup groups[WORK_GROUPS_MAX];
} WorkShape;

/* @place: an object as described, or the name of a file of data/models. */
gboolean work_shape_read (WorkShape *shape, const WorkPlace *place, GError **error);
/* @name_or_file: of --model-shape: a file, or the name of one in data/models */
gboolean work_shape_load (WorkShape *shape, const char *name_or_file, GError **error);
/* Sizes and layouts. @chunk_tokens: what a shape that gives none has; one that gives another is refused if @must. */
gboolean work_shape_finish (WorkShape *shape, guint64 chunk_tokens, gboolean must, GError **error);
void work_shape_clear (WorkShape *shape);
guint64 work_shape_rank (const WorkShape *shape, guint32 rank); /* kv_rank */

/* @below: "workloads" or "models". The file @name.json of the installed data, or NULL. (transfer full) */
char *work_data_file (const char *below, const char *name);
/* Names in that folder, sorted, as `a, b, c`. (transfer full) */
char *work_data_names (const char *below);
/* The name of an installed file, or a file, of at most 16 MiB. @what: for the message. @shown: (out) (transfer full): its name
 * for messages */
LmtJson *work_load_json (const char *name_or_file, const char *below, const char *what, char **shown, GError **error);

G_END_DECLS
