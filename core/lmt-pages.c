/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-pages.h"

#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES ((gsize)2 << 20)

/* Bounds and leaks are watched in malloc's memory only. */
#if defined(__SANITIZE_ADDRESS__)
#  define WATCHED 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WATCHED 1
#  endif
#endif
#ifndef WATCHED
#  define WATCHED 0
#endif

static inline gboolean
is_mapped (gsize bytes)
{
  return !WATCHED && bytes >= HUGE_BYTES;
}

static inline gsize
rounded (gsize bytes)
{
  return (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

static void G_GNUC_NORETURN
no_memory (gsize bytes)
{
  g_error ("no memory for an array of %" G_GSIZE_FORMAT " bytes", bytes);
}

/* Address space on a border of huge pages. */
static void *
reserve (gsize size)
{
  guint8 *base = MAP_FAILED, *start, *end;

  if (size <= G_MAXSIZE - HUGE_BYTES)
    base = mmap (NULL, size + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    no_memory (size);
  start = (guint8 *)rounded ((gsize)base);
  end = base + size + HUGE_BYTES;
  if (start > base)
    munmap (base, (gsize)(start - base));
  if (end > start + size)
    munmap (start + size, (gsize)(end - (start + size)));
  return start;
}

static gpointer
map_new (gsize bytes)
{
  void *memory = reserve (rounded (bytes));

  madvise (memory, rounded (bytes), MADV_HUGEPAGE); /* a kernel without them gives small ones */
  return memory;
}

static gpointer
remap (gpointer memory, gsize bytes, gsize wanted)
{
  gsize old_size = rounded (bytes), size = rounded (wanted);
  void *target;

  if (wanted < bytes) /* the rest must read as 0 when it comes back */
    memset ((guint8 *)memory + wanted, 0, MIN (bytes, size) - wanted);
  if (size <= old_size)
    {
      if (size < old_size)
        munmap ((guint8 *)memory + size, old_size - size);
      return memory;
    }
  if (mremap (memory, old_size, size, 0) == memory)
    return memory;
  target = reserve (size);
  if (mremap (memory, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED)
    no_memory (wanted);
  return target;
}

gpointer
lmt_pages_resize (gpointer memory, gsize bytes, gsize wanted)
{
  gboolean mapped = is_mapped (bytes), to_map = is_mapped (wanted);
  gpointer moved;

  if (memory == NULL)
    bytes = 0;
  if (memory == NULL || mapped != to_map)
    {
      moved = to_map ? map_new (wanted) : g_malloc0 (wanted);
      if (memory != NULL && MIN (bytes, wanted) > 0)
        memcpy (moved, memory, MIN (bytes, wanted));
      lmt_pages_free (memory, bytes);
      return moved;
    }
  if (to_map)
    return remap (memory, bytes, wanted);
  moved = g_realloc (memory, wanted);
  if (wanted > bytes)
    memset ((guint8 *)moved + bytes, 0, wanted - bytes);
  return moved;
}

void
lmt_pages_free (gpointer memory, gsize bytes)
{
  if (memory == NULL)
    return;
  if (is_mapped (bytes))
    munmap (memory, rounded (bytes));
  else
    g_free (memory);
}
