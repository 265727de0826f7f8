/* SPDX-License-Identifier: Apache-2.0 */

/* The gate: no member of a border struct may move, and no struct without a size of its own may grow. Rows:
 * tests/abi/RELEASE/offsets.h. */
#include <lmtrace/lmtrace.h>

#include <stddef.h>

typedef struct
{
  const char *what;
  gsize expected;
  gsize found;
  gboolean may_grow;
} Row;

#define SIZE(Struct, size) { #Struct, size, sizeof (Struct), FALSE },
#define SIZE_AT_LEAST(Struct, size) { #Struct, size, sizeof (Struct), TRUE },
#define OFFSET(Struct, member, at) { #Struct "." #member, at, offsetof (Struct, member), FALSE },

static const Row rows[] = {
#include LMT_OFFSETS
};

static void
test_rows (void)
{
#if GLIB_SIZEOF_VOID_P == 8
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].may_grow ? rows[i].found < rows[i].expected : rows[i].found != rows[i].expected)
      {
        g_test_message ("%s: expected %" G_GSIZE_FORMAT ", found %" G_GSIZE_FORMAT, rows[i].what, rows[i].expected,
                        rows[i].found);
        g_test_fail ();
      }
  g_assert_cmpuint (G_N_ELEMENTS (rows), >, 200);
#else
  g_test_skip ("the frozen figures are those of 64 bit");
#endif
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/abi/offsets", test_rows);
  return g_test_run ();
}
