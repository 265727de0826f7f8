// SPDX-License-Identifier: Apache-2.0
#include "storage-pool.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES (G_GUINT64_CONSTANT (2) << 20)
#define PAGE_BYTES 4096

gboolean
storage_pool_map (StoragePool *pool, const StorageConfig *config, GError **error)
{
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  guint64 bytes = config->sm.size_bytes;
  void *base;

  if (bytes == 0)
    return TRUE;
  if (config->use_hugepages)
    {
      flags |= MAP_HUGETLB;
      bytes = bytes <= G_MAXUINT64 - HUGE_PAGE_BYTES ? (bytes + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1) : bytes;
    }
  base = bytes > G_MAXSIZE ? MAP_FAILED : mmap (NULL, (gsize)bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (base == MAP_FAILED)
    {
      g_autofree char *size = lmt_format_size (config->sm.size_bytes);

      if (config->use_hugepages)
        g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-use-hugepages: expected %s in free huge pages of 2 MiB: %s", size,
                     g_strerror (errno));
      else
        g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-size-gb: cannot map %s: %s", size, g_strerror (errno));
      return FALSE;
    }
  /* What lies in one piece goes to a device in one piece. Only a wish: what was never touched takes no memory either way. */
  if (!config->use_hugepages)
    madvise (base, (gsize)bytes, MADV_HUGEPAGE);
  pool->base = base;
  pool->bytes = config->sm.size_bytes;
  pool->mapped_bytes = bytes;
  return TRUE;
}

void
storage_pool_touch (StoragePool *pool, const StorageConfig *config, const char **denied)
{
  guint64 bytes = config->use_lazy ? MIN (config->init_size_bytes, pool->bytes) : pool->bytes;

  *denied = NULL;
  if (pool->base == NULL)
    return;
  if (madvise (pool->base, (gsize)bytes, MADV_POPULATE_WRITE) != 0)
    for (guint64 at = 0; at < bytes; at += PAGE_BYTES)
      ((volatile guint8 *)pool->base)[at] = 0;
  if (config->mlock && mlock (pool->base, (gsize)pool->mapped_bytes) != 0)
    *denied = g_strerror (errno);
}

void
storage_pool_unmap (StoragePool *pool)
{
  if (pool->base != NULL)
    munmap (pool->base, (gsize)pool->mapped_bytes);
  pool->base = NULL;
}
