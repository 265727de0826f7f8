/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

enum
{
  MUTATED_MAX = 16 * 1024, /* larger inputs are run as they are */
};

static guint64 state = 1;
static guint mutations = 200;

static guint32
next_random (guint32 below)
{
  state = state * G_GUINT64_CONSTANT (6364136223846793005) + G_GUINT64_CONSTANT (1442695040888963407);
  return (guint32)((state >> 33) % below);
}

/* In a block of its own size, so that an address sanitizer sees every byte too far. */
static void
run_exact (const guint8 *data, gsize len)
{
  guint8 *copy = g_memdup2 (data, MAX (len, 1));

  LLVMFuzzerTestOneInput (copy, len);
  g_free (copy);
}

static void
run_mutated (const guint8 *data, gsize len)
{
  static const guint8 heads[] = { 0x00, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0xa0, 0xbf, 0xc0, 0xc1, 0xc4, 0xc6, 0xc7,
                                  0xc9, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd8, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff };
  guint8 *copy = g_memdup2 (data, len);
  guint changes = 1 + next_random (4);
  gsize cut = len;

  for (guint i = 0; i < changes; i++)
    {
      gsize at = next_random ((guint32)len);
      gsize from;

      switch (next_random (4))
        {
        case 0:
          copy[at] = heads[next_random (sizeof heads)];
          break;
        case 1:
          copy[at] ^= (guint8)(1u << next_random (8));
          break;
        case 2:
          from = next_random ((guint32)len);
          memmove (copy + at, copy + from, MIN (len - MAX (at, from), 4));
          break;
        default:
          cut = 1 + next_random ((guint32)len);
          break;
        }
    }
  run_exact (copy, cut);
  g_free (copy);
}

static guint
run_file (const char *path)
{
  g_autofree char *data = NULL;
  gsize len;

  if (!g_file_get_contents (path, &data, &len, NULL))
    return 0;
  run_exact ((const guint8 *)data, len);
  for (guint i = 0; i < mutations && len > 0 && len <= MUTATED_MAX; i++)
    run_mutated ((const guint8 *)data, len);
  return 1;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static guint
run_path (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;
  guint n = 0;

  if (dir == NULL)
    return run_file (path);
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_build_filename (path, name, NULL));
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    n += run_path (names->pdata[i]);
  return n;
}

int
main (int argc, char **argv)
{
  guint n = 0;

  for (int i = 1; i < argc; i++)
    if (g_str_has_prefix (argv[i], "--mutations="))
      mutations = (guint)g_ascii_strtoull (strchr (argv[i], '=') + 1, NULL, 10);
    else
      n += run_path (argv[i]);
  printf ("%u inputs, each with up to %u mutations\n", n, mutations);
  return n > 0 ? 0 : 1;
}
