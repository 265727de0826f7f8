/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: zeroed arrays that may grow large. Below 2 MiB they come from malloc; from there on each is a mapping of its own, in
 * huge pages where the kernel gives them: first use costs a fault in 2 MiB instead of one in 4 KiB, and growing moves page
 * tables, not bytes. What was never touched takes no memory. No memory left ends the process, as g_malloc() does. Any thread.
 *
 * Since: 0.1
 */

/* @bytes of @memory become @wanted; what is new is 0, what is given up at the end is gone. NULL and 0: a new array. */
gpointer lmt_pages_resize (gpointer memory, gsize bytes, gsize wanted);
void lmt_pages_free (gpointer memory, gsize bytes); /* NULL: nothing */

/* An array of @Type: n elements become wanted. */
#define lmt_pages_renew(Type, memory, n, wanted)                                                                                 \
  ((Type *)lmt_pages_resize ((memory), (gsize)(n) * sizeof (Type), (gsize)(wanted) * sizeof (Type)))

G_END_DECLS
