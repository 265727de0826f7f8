/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-pages.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_BYTES ((gsize)2 << 20)
#define SLOW_NS 800000 /* 512 small pages */

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

/* The one end of the process outside of main, as g_malloc() has it for small arrays: who grows a table (keys, their states) does
 * so in the middle of a record, has taken the record's other effects already, and has no way to go on without the entry. */
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

static gint64
thread_ns (void)
{
  struct timespec time = { 0, 0 };

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * G_GINT64_CONSTANT (1000000000) + time.tv_nsec;
}

/*
 * A huge page takes a fifth of the time of the small ones in its place, but in a virtual machine whose host must find the memory
 * first it takes a multiple: then small ones, which mostly lie ready, do for the rest of the process. The page that is touched
 * for this comes into use at once.
 */
static void
advise (guint8 *memory, gsize size, gsize first)
{
  static gint are_slow;
  gint64 start;

  if (g_atomic_int_get (&are_slow) || madvise (memory, size, MADV_HUGEPAGE) != 0)
    {
      madvise (memory, size, MADV_NOHUGEPAGE);
      return;
    }
  start = thread_ns ();
  *(volatile guint8 *)(memory + first) = 0;
  if (thread_ns () - start < SLOW_NS)
    return;
  g_atomic_int_set (&are_slow, TRUE);
  madvise (memory, size, MADV_NOHUGEPAGE);
}

static gpointer
map_new (gsize bytes)
{
  void *memory = reserve (rounded (bytes));

  advise (memory, rounded (bytes), 0);
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
  if (mremap (memory, old_size, size, 0) != memory)
    {
      target = reserve (size);
      if (mremap (memory, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED)
        no_memory (wanted);
      memory = target;
    }
  advise (memory, size, old_size);
  return memory;
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
