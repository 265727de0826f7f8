// SPDX-License-Identifier: Apache-2.0
/* Per record nothing is allocated once the working set is warm: the last round of a replay is counted, whole process, every
 * library. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "../count-mallocs.h"
#include "harness.h"

static guint64 at_last_round;
static guint64 at_end;
static guint64 first_of_last;
static guint64 last_of_last;

static void
on_line (const LmtReplayLine *line, gpointer data)
{
  if (line->number == first_of_last)
    at_last_round = n_mallocs;
  if (line->number == last_of_last)
    at_end = n_mallocs;
}

/* What the last of @rounds allocated between its first and its last record. */
static void
count_last_round (const char *trace, guint rounds, const char *const *flags)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", trace, NULL);
  g_autoptr (GError) error = NULL;
  const LmtReplayTotals *totals;
  g_autofree char *text = g_strdup_printf ("%u", rounds);
  Harness harness;

  if (!mallocs_are_counted ())
    {
      g_test_skip ("malloc is a sanitizer's or valgrind's");
      return;
    }
  g_ptr_array_add (words, path);
  for (guint i = 0; flags[i] != NULL; i++)
    g_ptr_array_add (words, (gpointer)flags[i]);
  g_ptr_array_add (words, (gpointer) "--loop");
  g_ptr_array_add (words, text);
  g_ptr_array_add (words, (gpointer) "--speed");
  g_ptr_array_add (words, (gpointer) "0");
  g_ptr_array_add (words, NULL);
  g_assert_true (harness_open (&harness, (const char *const *)words->pdata, NULL, &error));
  {
    LmtRecord record;
    guint64 n = 0;

    while (lmt_reader_next (harness.reader, &record) == LMT_READ_RECORD)
      n++;
    g_assert_true (lmt_reader_rewind (harness.reader, &error));
    first_of_last = (rounds - 1) * n + 1;
    last_of_last = rounds * n;
  }
  harness.plan.in_order = TRUE;
  lmt_replay_set_sink (harness.replay, on_line, NULL);
  g_assert_true (harness_run (&harness, &error));
  totals = lmt_replay_get_totals (harness.replay);
  g_assert_cmpuint (totals->records, ==, last_of_last);
  g_assert_cmpuint (totals->status[LMT_STATUS_OK], ==, last_of_last);
  g_test_message ("%s: %" G_GUINT64_FORMAT " allocations before, %" G_GUINT64_FORMAT " in the last round", trace, at_last_round,
                  at_end - at_last_round);
  g_assert_cmpuint (at_last_round, >, 0);
  g_assert_cmpuint (at_end - at_last_round, ==, 0);
  harness_close (&harness);
}

static void
test_l1 (void)
{
  static const char *const flags[] = { "--l1-size-gb", "0.0625", "--eviction-policy", "LRU", NULL };

  count_last_round ("0.5.6/large.lct", 2, flags);
}

static void
test_dram (void)
{
  static const char *const flags[]
      = { "--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--l2-adapter", "{\"type\":\"dram\",\"data\":false}", NULL };

  count_last_round ("0.5.6/large.lct", 2, flags);
}

static void
test_evicting (void)
{
  static const char *const flags[] = { "--l1-size-gb",
                                       "0.00390625",
                                       "--eviction-policy",
                                       "ARC",
                                       "--l2-store-policy",
                                       "skip_l1",
                                       "--l2-adapter",
                                       "{\"type\":\"dram\",\"data\":false}",
                                       "--l1-read-ttl-seconds",
                                       "1",
                                       NULL };

  /* More is under way at once while it settles down. Locks nobody gives back expire, or they would be kept in ever larger tables.
   */
  count_last_round ("0.5.6/large.lct", 4, flags);
}

int
main (int argc, char **argv)
{
  setlocale (LC_ALL, "");
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mallocs/l1", test_l1);
  g_test_add_func ("/mallocs/dram", test_dram);
  g_test_add_func ("/mallocs/evicting", test_evicting);
  return g_test_run ();
}
