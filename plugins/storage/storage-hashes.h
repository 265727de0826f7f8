/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "storage-call.h"

G_BEGIN_DECLS

/**
 * StorageHashes: --lookup-hash-log-dir: one JSON line per prefetch with the hashes of its chunks, in files that rotate: what
 * LMCache's cache simulator reads (lookup_hashes_YYYYMMDD_HHMMSS_NNNNNN.jsonl; fields of its lookup hash logger in 0.5.6).
 *
 * A storage trace doesn't say how many tokens a chunk has: `chunk_size` is 1 and `seq_len` the number of chunks, so tokens are
 * chunks there; `shapes` and `dtypes` describe the bytes of one chunk over all rows of the request.
 */
typedef struct _StorageHashes StorageHashes;

typedef struct
{
  const char *dir;
  gint64 rotation_interval_s;
  gint64 rotation_max_bytes;
  gint64 max_files; /* older ones are deleted, also those of earlier runs */
} StorageHashesParams;

/* Makes @dir. */
StorageHashes *storage_hashes_new (const StorageHashesParams *params, GError **error);
/* FALSE: an error of writing, the first of them in @error; later calls do nothing. */
gboolean storage_hashes_free (StorageHashes *hashes, GError **error);
/* @t_wall: of the record; decides rotation too */
void storage_hashes_add (StorageHashes *hashes, double t_wall, LmtSpan request_id, const SmCall *call);

G_END_DECLS
