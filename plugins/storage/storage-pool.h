/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "storage-config.h"

G_BEGIN_DECLS

/**
 * StoragePool: the memory behind L1: one mapping, so that an adapter can register it once. Nothing is touched before
 * storage_pool_touch(): a pool no adapter moves data of costs address space only.
 */
typedef struct
{
  guint8 *base; /* NULL: accounting only */
  guint64 bytes;
  guint64 mapped_bytes;
} StoragePool;

gboolean storage_pool_map (StoragePool *pool, const StorageConfig *config, GError **error);
/* What the flags want touched before the run (--no-l1-use-lazy, --l1-init-size-gb), and --l1-mlock. @denied: (out): why not
 * locked, or NULL */
void storage_pool_touch (StoragePool *pool, const StorageConfig *config, const char **denied);
void storage_pool_unmap (StoragePool *pool);

G_END_DECLS
