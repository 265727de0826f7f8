/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-log.h>

#include "work-source.h"

G_BEGIN_DECLS

typedef enum
{
  WORK_ROW_IDS = 0, /* hash_ids: numbers that name a block and all before it */
  WORK_ROW_CHATS,   /* the same, with chat_id, parent_chat_id, type, turn */
  WORK_ROW_HASHES,  /* chunk_hashes: the hashes themselves */
} WorkRowKind;

/**
 * WorkFormat: a public trace of requests, one JSON object a line. Source: kvcache-ai/Mooncake (FAST25-release),
 * alibaba-edu/qwen-bailian-usagetraces-anon, LMCache's lookup-hash log (--lookup-hash-log-dir).
 * @block_tokens: 0: the row says
 * @tick_ns: of the member `timestamp`
 */
typedef struct
{
  const char *name;
  guint64 block_tokens;
  gint64 tick_ns;
  WorkRowKind kind;
} WorkFormat;
/* NULL: no such format. */
const WorkFormat *work_format_find (const char *name);
const char *work_format_names (void); /* `mooncake, qwen-bailian, …` */

enum
{
  WORK_REASONS_MAX = 16,
};

/* Why rows were dropped. @reason: static */
typedef struct
{
  const char *reason;
  guint64 count;
  guint64 first_line;
} WorkDrop;

/**
 * WorkImportFigures: @in: rows read; @out: requests made; @backward: rows whose time lies before that of the row above: they come
 * at that one's; @short_ids: rows with fewer ids than their input has whole blocks, @surplus_ids: with more than it has blocks:
 * the smaller number counts
 */
typedef struct
{
  guint64 in;
  guint64 out;
  guint64 dropped;
  guint64 backward;
  guint64 short_ids;
  guint64 surplus_ids;
  guint n_drops;
  WorkDrop drops[WORK_REASONS_MAX];
} WorkImportFigures;

/* Opens the file: plain, gzip or zstd, or `-`. @chunk_tokens: of the model's shape; @most_chunks: of a request. */
WorkSource *work_import_new (const WorkFormat *format, const char *path, guint64 chunk_tokens, guint32 most_chunks,
                             LmtWarnings *warnings, GError **error);
/* Of bytes that stay the caller's and outlive it: tests. */
WorkSource *work_import_new_for_bytes (const WorkFormat *format, gconstpointer data, gsize len, guint64 chunk_tokens,
                                       guint32 most_chunks, LmtWarnings *warnings);
const WorkImportFigures *work_import_get_figures (WorkSource *source);
/* (nullable): the file could not be read to its end: `FILE: what: why` */
const char *work_import_get_error (WorkSource *source);

G_END_DECLS
