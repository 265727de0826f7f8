// SPDX-License-Identifier: Apache-2.0
/* storage-run [OPTIONS] FILE: replays and prints counts and the level's sections; for a look at the level alone. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

int
main (int argc, char **argv)
{
  Harness harness;
  g_autoptr (GError) error = NULL;
  g_autofree char *report = NULL;
  const LmtReplayTotals *totals;
  int code = 2;

  lmt_log_install ();
  if (!harness_open (&harness, (const char *const *)argv + 1, NULL, &error) || !harness_run (&harness, &error))
    fprintf (stderr, "storage-run: %s\n", error->message);
  else
    {
      totals = lmt_replay_get_totals (harness.replay);
      for (guint i = 0; i < LMT_N_STATUS; i++)
        printf ("%s %" G_GUINT64_FORMAT "\n", lmt_status_word (i), totals->status[i]);
      printf ("records %" G_GUINT64_FORMAT "\nseconds %.6f\ncpu %.6f\nrecords_per_cpu_s %.0f\n", totals->records,
              (double)totals->duration_ns / 1e9, (double)harness.cpu_ns / 1e9,
              (double)totals->records * 1e9 / (double)MAX (harness.cpu_ns, 1));
      report = harness_report (&harness, getenv ("STORAGE_RUN_JSON") != NULL);
      fputs (report, stdout);
      lmt_warnings_flush (harness.warnings);
      code = totals->status[LMT_STATUS_FAILED] + totals->status[LMT_STATUS_MISMATCH] > 0 ? 1 : 0;
      code = MAX (code, harness.level->exit_code (harness.session));
    }
  harness_close (&harness);
  return code;
}
