/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Included once in a program (or in a library that is preloaded): counts what the whole process asks malloc() for. The sanitizers
 * bring a malloc of their own: LMT_COUNTS_MALLOCS is 0 then, and the count stays 0; so it does under valgrind.
 */
#include <stddef.h>
#include <stdlib.h>

#ifdef __has_feature
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#    define LMT_COUNTS_MALLOCS 0
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#  undef LMT_COUNTS_MALLOCS
#  define LMT_COUNTS_MALLOCS 0
#endif
#ifndef LMT_COUNTS_MALLOCS
#  define LMT_COUNTS_MALLOCS 1
#endif

static volatile unsigned long n_mallocs; /* by any thread; compilers think they know that malloc() changes nothing */

#if LMT_COUNTS_MALLOCS
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *block, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

void *malloc (size_t size);
void *calloc (size_t n, size_t size);
void *realloc (void *block, size_t size);
void *aligned_alloc (size_t alignment, size_t size);
int posix_memalign (void **block, size_t alignment, size_t size);

static inline void
count_malloc (void)
{
  __atomic_add_fetch (&n_mallocs, 1, __ATOMIC_RELAXED);
}

void *
malloc (size_t size)
{
  count_malloc ();
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  count_malloc ();
  return __libc_calloc (n, size);
}

void *
realloc (void *block, size_t size)
{
  count_malloc ();
  return __libc_realloc (block, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  count_malloc ();
  return __libc_memalign (alignment, size);
}

int
posix_memalign (void **block, size_t alignment, size_t size)
{
  *block = aligned_alloc (alignment, size);
  return *block != NULL ? 0 : 12; /* ENOMEM */
}
#endif

/* FALSE: malloc() is another's (a sanitizer's, valgrind's), and nothing is counted. */
static inline int
mallocs_are_counted (void)
{
  unsigned long before = n_mallocs;
  void *volatile block = malloc (1);
  free (block);
  return n_mallocs != before;
}
