/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include <glib.h>

#ifdef __SSE2__
#  include <emmintrin.h>
#endif

/*
 * Into the arena. Large objects go past the caches: an ordinary store first reads the line it is going to overwrite, which costs
 * a third of the memory's bandwidth, and what is that large mostly leaves the cache before it is loaded. The wider registers of
 * newer processors were no faster here, so what each x86-64 has is enough; others have memcpy(). Loads are memcpy() everywhere:
 * the buffer is about to be read.
 */
enum
{
  DRAM_COPY_PAST_CACHE = 256 << 10
};

/* @to: on a step of the arena, 64 bytes. */
static inline void
dram_copy_in (void *to, const void *from, gsize bytes)
{
#ifdef __SSE2__
  if (bytes > DRAM_COPY_PAST_CACHE)
    {
      const gsize front = bytes & ~(gsize)63;
      for (gsize i = 0; i < front; i += 64)
        {
          const __m128i *in = (const __m128i *)((const char *)from + i);
          __m128i *out = (__m128i *)((char *)to + i);
          const __m128i a = _mm_loadu_si128 (in), b = _mm_loadu_si128 (in + 1), c = _mm_loadu_si128 (in + 2),
                        d = _mm_loadu_si128 (in + 3);
          _mm_stream_si128 (out, a);
          _mm_stream_si128 (out + 1, b);
          _mm_stream_si128 (out + 2, c);
          _mm_stream_si128 (out + 3, d);
        }
      _mm_sfence (); /* before anybody is told that it is there */
      memcpy ((char *)to + front, (const char *)from + front, bytes - front);
      return;
    }
#endif
  memcpy (to, from, bytes);
}
