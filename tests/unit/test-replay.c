/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-plugin.h>
#include <lmtrace/lmt-reader.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../count-mallocs.h"

#define SEC G_GINT64_CONSTANT (1000000000)

/* -------- a level for the tests -------- */

typedef struct
{
  LmtReplay *replay;
  const LmtClock *clock;
  guint64 calls;
  guint64 numbers[64]; /* as the handler got them */
  guint64 mallocs_at_10;
  guint64 mallocs_at_end;
  guint64 pending[8]; /* calls that go on, oldest first */
  guint n_pending;
  gint64 advance_ns; /* each call takes this long on the virtual clock */
  volatile gint interrupts;
  guint64 interrupt_at;
  gboolean finished;
  gboolean finished_interrupted;
  guint64 malformed_at_finish;
  gint64 waits[64];
  gint64 trace[64];
  guint n_waits;
  gint64 wait_span_ns; /* what wait() adds to the deadline */
} Session;

static void
take_time (Session *session, LmtOutcome *outcome)
{
  outcome->start_ns = lmt_clock_now (session->clock);
  if (session->advance_ns > 0)
    session->clock->sleep_until_ns (session->clock->data, outcome->start_ns + session->advance_ns, NULL, 0);
  outcome->end_ns = lmt_clock_now (session->clock);
}

static guint32
do_ok (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  Session *session = data;

  if (session->calls < G_N_ELEMENTS (session->numbers))
    session->numbers[session->calls] = record->number;
  session->calls++;
  if (session->calls == 10)
    session->mallocs_at_10 = n_mallocs;
  session->mallocs_at_end = n_mallocs;
  if (session->interrupt_at != 0 && session->calls >= session->interrupt_at)
    session->interrupts = 1;
  take_time (session, outcome);
  outcome->bytes = 100;
  return LMT_STATUS_OK;
}

static guint32
do_fail (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  take_time (data, outcome);
  outcome->error = "no room";
  return LMT_STATUS_FAILED;
}

static guint32
do_mismatch (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  take_time (data, outcome);
  outcome->error = "another answer";
  return LMT_STATUS_MISMATCH;
}

static guint32
do_undecodable (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  outcome->fault.reason = "wrong-type";
  outcome->fault.where = "args.keys";
  outcome->missing_argument = 1;
  return LMT_STATUS_UNDECODABLE;
}

static guint32
do_nonsense (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  return 77;
}

/* Goes on until the fourth such call, which ends the oldest; what is left ends never. */
static guint32
do_pending (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  Session *session = data;

  take_time (session, outcome);
  outcome->pending = 1;
  outcome->bytes = 1;
  if (session->n_pending == 3)
    {
      lmt_replay_complete (session->replay, session->pending[0], outcome->end_ns, LMT_STATUS_OK, 1000, NULL);
      memmove (session->pending, session->pending + 1, sizeof session->pending[0] * 2);
      session->n_pending = 2;
    }
  session->pending[session->n_pending++] = record->number;
  return LMT_STATUS_OK;
}

/* Completes inside its own call, as a settled run does. */
static guint32
do_settled (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  Session *session = data;

  outcome->start_ns = lmt_clock_now (session->clock);
  outcome->end_ns = outcome->start_ns + 10;
  outcome->pending = 1;
  lmt_replay_complete (session->replay, record->number, outcome->start_ns + 500,
                       record->t_mono < 1.0 ? LMT_STATUS_OK : LMT_STATUS_MISMATCH, 7, record->t_mono < 1.0 ? NULL : "wrong byte");
  return LMT_STATUS_OK;
}

static gboolean
do_wait (gpointer data, gint64 due_ns, gint64 trace_ns)
{
  Session *session = data;

  if (session->n_waits < G_N_ELEMENTS (session->waits))
    {
      session->waits[session->n_waits] = due_ns;
      session->trace[session->n_waits] = trace_ns;
    }
  session->n_waits++;
  session->clock->sleep_until_ns (session->clock->data, due_ns + session->wait_span_ns, NULL, 0);
  return session->interrupts == 0;
}

static void
do_finish (gpointer data, gboolean interrupted)
{
  Session *session = data;

  session->finished = TRUE;
  session->finished_interrupted = interrupted;
  session->malformed_at_finish = lmt_replay_get_totals (session->replay)->malformed;
  /* The drain brings one more. */
  if (session->n_pending > 0)
    lmt_replay_complete (session->replay, session->pending[0], lmt_clock_now (session->clock), LMT_STATUS_FAILED, 0, "lost");
}

static void
do_free (gpointer data)
{
}

static guint32 do_storm (gpointer data, const LmtRecord *record, LmtOutcome *outcome);

static LmtLevelOps level = { .struct_size = sizeof (LmtLevelOps), .name = "test", .finish = do_finish, .free = do_free };
static LmtLevelOps waiting
    = { .struct_size = sizeof (LmtLevelOps), .name = "waiting", .finish = do_finish, .free = do_free, .wait = do_wait };

static gboolean
load (LmtRegistrar *reg, GError **error)
{
  static const LmtHandlerOps handlers[] = {
    { sizeof (LmtHandlerOps), 0, "test", "T.ok", do_ok },
    { sizeof (LmtHandlerOps), 0, "test", "T.fail", do_fail },
    { sizeof (LmtHandlerOps), 0, "test", "T.mismatch", do_mismatch },
    { sizeof (LmtHandlerOps), 0, "test", "T.undecodable", do_undecodable },
    { sizeof (LmtHandlerOps), 0, "test", "T.nonsense", do_nonsense },
    { sizeof (LmtHandlerOps), 0, "test", "T.pending", do_pending },
    { sizeof (LmtHandlerOps), 0, "test", "T.settled", do_settled },
    { sizeof (LmtHandlerOps), 0, "test", "T.storm", do_storm },
    { sizeof (LmtHandlerOps), 0, "waiting", "T.ok", do_ok },
  };

  for (guint i = 0; i < G_N_ELEMENTS (handlers); i++)
    if (!lmt_registrar_add_handler (reg, &handlers[i], error))
      return FALSE;
  return lmt_registrar_add_level (reg, &level, error) && lmt_registrar_add_level (reg, &waiting, error);
}

/* -------- a run -------- */

typedef struct
{
  LmtRegistry *registry;
  LmtClock *clock;
  GByteArray *bytes;
  LmtReader *reader;
  LmtReplay *replay;
  Session session;
  LmtReplayPlan plan;
  GString *lines;
  GString *faults;
  guint n_lines;
  guint n_progress;
} Fixture;

static void
add_record (Fixture *f, double t, const char *qualname)
{
  static const guint8 empty_map[] = { 0x80 };

  lmt_record_encode (t, 1000.0 + t, (LmtSpan){ (const guint8 *)qualname, strlen (qualname) }, (LmtSpan){ empty_map, 1 },
                     f->bytes);
}

static Fixture *
fixture_new (void)
{
  Fixture *f = g_new0 (Fixture, 1);
  LmtHeaderFields fields = { .level = "test", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };

  f->registry = lmt_registry_new ();
  lmt_registry_set_default_dirs (f->registry, FALSE);
  g_assert_true (lmt_registry_load_builtin (f->registry, "test", load, NULL));
  f->clock = lmt_clock_virtual_new (SEC);
  f->bytes = g_byte_array_new ();
  lmt_header_encode (&fields, f->bytes);
  f->lines = g_string_new (NULL);
  f->faults = g_string_new (NULL);
  f->plan.clock = f->clock;
  f->plan.interrupts = &f->session.interrupts;
  f->session.clock = f->clock;
  return f;
}

static void
on_line (const LmtReplayLine *line, gpointer data)
{
  Fixture *f = data;

  f->n_lines++;
  g_string_append_printf (f->lines, "%" G_GUINT64_FORMAT " %.*s %s %" G_GINT64_FORMAT " %" G_GUINT64_FORMAT "%s%s\n",
                          line->number, LMT_SPAN_STR (line->qualname), lmt_status_word (line->status), line->done_ns, line->bytes,
                          line->error != NULL ? " " : "", line->error != NULL ? line->error : "");
}

static void
on_fault (guint32 status, const LmtFault *fault, const char *error, gpointer data)
{
  Fixture *f = data;

  g_string_append_printf (f->faults, "%s %" G_GUINT64_FORMAT " %s%s%s\n", lmt_status_word (status), fault->number,
                          fault->reason != NULL ? fault->reason : "-", fault->detail[0] != '\0' ? " " : "",
                          fault->detail[0] != '\0' ? fault->detail
                          : error != NULL          ? error
                                                   : "");
}

static void
on_progress (LmtReplay *replay, LmtReader *reader, guint64 done, gint64 lag_ns, gpointer data)
{
  ((Fixture *)data)->n_progress++;
}

static void
open_reader (Fixture *f)
{
  GError *error = NULL;

  f->reader = lmt_reader_new_for_bytes (f->bytes->data, f->bytes->len, "test.lct");
  g_assert_true (lmt_reader_read_header (f->reader, &error));
  g_assert_no_error (error);
}

static const LmtReplayTotals *
run (Fixture *f, const char *level_name)
{
  GError *error = NULL;

  open_reader (f);
  if (f->replay == NULL)
    f->replay = lmt_replay_new (f->registry, lmt_registry_get_level (f->registry, level_name, NULL));
  f->session.replay = f->replay;
  lmt_replay_set_fault_func (f->replay, on_fault, f);
  g_assert_true (lmt_replay_run (f->replay, f->reader, &f->session, &f->plan, &error));
  g_assert_no_error (error);
  g_assert_true (f->session.finished);
  return lmt_replay_get_totals (f->replay);
}

static void
fixture_free (Fixture *f)
{
  g_clear_object (&f->replay);
  g_object_unref (f->registry);
  lmt_reader_free (f->reader);
  lmt_clock_virtual_free (f->clock);
  g_byte_array_unref (f->bytes);
  g_string_free (f->lines, TRUE);
  g_string_free (f->faults, TRUE);
  g_free (f);
}

static LmtOpStats *
op_named (Fixture *f, const char *qualname)
{
  for (guint i = 0; i < lmt_replay_get_n_ops (f->replay); i++)
    if (strcmp (lmt_replay_get_op (f->replay, i)->qualname, qualname) == 0)
      return lmt_replay_get_op (f->replay, i);
  return NULL;
}

/* -------- tests -------- */

static void
test_statuses (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;
  static const char *const names[]
      = { "T.ok", "T.fail", "T.mismatch", "T.undecodable", "T.unknown", "T.unknown", "T.nonsense", "T.ok", "T.other" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    add_record (f, i, names[i]);
  f->session.advance_ns = 250;
  f->replay = lmt_replay_new (f->registry, &level);
  lmt_replay_set_sink (f->replay, on_line, f);
  totals = run (f, "test");
  g_assert_cmpuint (totals->records, ==, 9);
  g_assert_cmpuint (totals->status[LMT_STATUS_OK], ==, 2);
  g_assert_cmpuint (totals->status[LMT_STATUS_SKIPPED], ==, 3);
  g_assert_cmpuint (totals->status[LMT_STATUS_UNDECODABLE], ==, 1);
  g_assert_cmpuint (totals->status[LMT_STATUS_FAILED], ==, 2);
  g_assert_cmpuint (totals->status[LMT_STATUS_MISMATCH], ==, 1);
  g_assert_cmpuint (totals->missing_argument, ==, 1);
  g_assert_cmpuint (lmt_replay_get_n_ops (f->replay), ==, 7);
  g_assert_cmpstr (lmt_replay_get_op (f->replay, 0)->qualname, ==, "T.ok");
  g_assert_cmpuint (lmt_stats_count (op_named (f, "T.ok")->call), ==, 2);
  g_assert_cmpint (lmt_stats_max (op_named (f, "T.ok")->call), ==, 250);
  g_assert_cmpuint (lmt_stats_count (op_named (f, "T.fail")->call), ==, 0);
  g_assert_cmpuint (op_named (f, "T.ok")->bytes, ==, 200);
  g_assert_cmpint (op_named (f, "T.unknown")->handler, ==, -1);
  /* skipped: told once per name */
  g_assert_cmpstr (f->faults->str, ==,
                   "failed 2 -no room\nmismatch 3 -another answer\nundecodable 4 wrong-type\nskipped 5 no handler T.unknown\n"
                   "failed 7 -the handler returned a status that does not exist\nskipped 9 no handler T.other\n");
  g_assert_cmpstr (
      f->lines->str, ==,
      "1 T.ok ok -1 100\n2 T.fail failed -1 0 no room\n3 T.mismatch mismatch -1 0 another answer\n"
      "4 T.undecodable undecodable -1 0\n5 T.unknown skipped -1 0\n6 T.unknown skipped -1 0\n"
      "7 T.nonsense failed -1 0 the handler returned a status that does not exist\n8 T.ok ok -1 100\n9 T.other skipped -1 0\n");
  fixture_free (f);
}

static void
test_pending (gconstpointer data)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.in_order = data != NULL;
  f->session.advance_ns = 10;
  for (guint i = 0; i < 5; i++)
    add_record (f, 0, "T.pending");
  add_record (f, 0, "T.ok");
  f->replay = lmt_replay_new (f->registry, &level);
  lmt_replay_set_sink (f->replay, on_line, f);
  totals = run (f, "test");
  /* Two ended inside the run, one failed in the drain, two never ended. */
  g_assert_cmpuint (totals->status[LMT_STATUS_OK], ==, 5);
  g_assert_cmpuint (totals->status[LMT_STATUS_FAILED], ==, 1);
  g_assert_cmpuint (lmt_stats_count (op_named (f, "T.pending")->done), ==, 2);
  g_assert_cmpint (lmt_stats_min (op_named (f, "T.pending")->done), ==, 40);
  g_assert_cmpuint (op_named (f, "T.pending")->bytes, ==, 2005);
  g_assert_cmpstr (f->faults->str, ==, "failed 3 -lost\n");
  if (f->plan.in_order)
    g_assert_cmpstr (f->lines->str, ==,
                     "1 T.pending ok -1 1\n2 T.pending ok -1 1\n3 T.pending ok -1 1\n4 T.pending ok -1 1\n5 T.pending ok -1 1\n"
                     "6 T.ok ok -1 100\n");
  else
    g_assert_cmpstr (f->lines->str, ==,
                     "1 T.pending ok 40 1001\n2 T.pending ok 40 1001\n6 T.ok ok -1 100\n3 T.pending failed 40 1 lost\n"
                     "4 T.pending ok -1 1\n5 T.pending ok -1 1\n");
  fixture_free (f);
}

static void
test_settled (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.in_order = TRUE;
  add_record (f, 0.5, "T.settled");
  add_record (f, 1.5, "T.settled");
  f->replay = lmt_replay_new (f->registry, &level);
  lmt_replay_set_sink (f->replay, on_line, f);
  totals = run (f, "test");
  g_assert_cmpuint (totals->status[LMT_STATUS_OK], ==, 1);
  g_assert_cmpuint (totals->status[LMT_STATUS_MISMATCH], ==, 1);
  g_assert_cmpstr (f->lines->str, ==, "1 T.settled ok 500 7\n2 T.settled mismatch 500 7 wrong byte\n");
  g_assert_cmpint (lmt_stats_max (op_named (f, "T.settled")->call), ==, 10);
  fixture_free (f);
}

/* Many calls open at once, ended in an order that crosses the table's growth. */
static void
complete_all (Fixture *f, guint n)
{
  guint64 number = 1;

  for (guint i = 0; i < n; i++)
    {
      lmt_replay_complete (f->replay, number, SEC + 5, LMT_STATUS_OK, 0, NULL);
      lmt_replay_complete (f->replay, number, SEC + 5, LMT_STATUS_OK, 0, NULL); /* twice: the second finds nothing */
      number = (number + 1711) % n;
      if (number == 0)
        number = n;
    }
}

static Fixture *storm;

/* Calls that go on, until one at 2 s ends them all. */
static guint32
do_storm (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  outcome->start_ns = outcome->end_ns = SEC;
  if (record->t_mono > 1.0)
    complete_all (storm, 5000);
  else
    outcome->pending = 1;
  return LMT_STATUS_OK;
}

static void
test_many_pending (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  storm = f;
  for (guint i = 0; i < 5000; i++)
    add_record (f, 0, "T.storm");
  add_record (f, 2, "T.storm");
  totals = run (f, "test");
  g_assert_cmpuint (totals->status[LMT_STATUS_OK], ==, 5001);
  g_assert_cmpuint (lmt_stats_count (op_named (f, "T.storm")->done), ==, 5000);
  g_assert_cmpint (lmt_stats_max (op_named (f, "T.storm")->done), ==, 5);
  fixture_free (f);
}

static void
test_loops (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 0.5;
  f->plan.loops = 3;
  for (guint i = 0; i <= 4; i++)
    add_record (f, i * 0.25, "T.ok");
  totals = run (f, "test");
  g_assert_cmpuint (totals->records, ==, 15);
  /* 3 rounds of 1 s at half the speed */
  g_assert_cmpint (totals->duration_ns, ==, 6 * SEC);
  g_assert_cmpuint (lmt_stats_count (totals->lag), ==, 15);
  g_assert_cmpint (lmt_stats_max (totals->lag), ==, 0);
  for (guint i = 0; i < 15; i++)
    g_assert_cmpuint (f->session.numbers[i], ==, i + 1);
  fixture_free (f);
}

static void
test_speeds (void)
{
  static const struct
  {
    double speed;
    gint64 duration_ns;
  } rows[] = { { 1.0, SEC }, { 0.5, 2 * SEC }, { 0.1, 10 * SEC }, { 10, SEC / 10 }, { 0, 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      Fixture *f = fixture_new ();

      f->plan.speed = rows[i].speed;
      add_record (f, 0.2, "T.ok");
      add_record (f, 1.0, "T.ok");
      g_assert_cmpint (run (f, "test")->duration_ns, ==, rows[i].duration_ns);
      fixture_free (f);
    }
}

static void
test_two_files (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 1.0;
  add_record (f, 1.0, "T.ok");
  run (f, "test");
  lmt_reader_free (f->reader);
  totals = run (f, "test");
  /* The second has an origin of its own. */
  g_assert_cmpint (totals->duration_ns, ==, 2 * SEC);
  g_assert_cmpuint (totals->records, ==, 2);
  g_assert_cmpint (lmt_stats_max (totals->lag), ==, 0);
  g_assert_cmpfloat (totals->recorded_span_s, ==, 2.0);
  fixture_free (f);
}

static void
test_lag (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 1.0;
  f->session.advance_ns = SEC / 2;
  for (guint i = 0; i < 3; i++)
    add_record (f, i * 0.1, "T.ok");
  add_record (f, NAN, "T.ok");
  totals = run (f, "test");
  /* Each call takes 0.5 s: due 0, 0.1, 0.2, called 0, 0.5, 1.0. No time known: no lag known. */
  g_assert_cmpuint (lmt_stats_count (totals->lag), ==, 3);
  g_assert_cmpint (lmt_stats_max (totals->lag), ==, SEC * 8 / 10);
  g_assert_cmpuint (totals->late, ==, 2);
  g_assert_cmpuint (lmt_stats_count (op_named (f, "T.ok")->lag), ==, 3);
  fixture_free (f);
}

static void
test_limit (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.limit = 4;
  f->plan.loops = 3;
  for (guint i = 0; i < 3; i++)
    add_record (f, i, "T.ok");
  totals = run (f, "test");
  g_assert_cmpuint (totals->records, ==, 4);
  g_assert_true (totals->hit_limit);
  g_assert_false (totals->interrupted);
  fixture_free (f);
}

static void
test_interrupt (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 1.0;
  f->session.interrupt_at = 3;
  for (guint i = 0; i < 10; i++)
    add_record (f, i, "T.ok");
  totals = run (f, "test");
  g_assert_cmpuint (totals->records, ==, 3);
  g_assert_true (totals->interrupted);
  g_assert_true (f->session.finished_interrupted);
  g_assert_cmpuint (totals->not_reached, ==, 7);
  fixture_free (f);
}

static void
test_level_waits (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 2.0;
  f->plan.max_gap_ns = 2 * SEC;
  f->session.wait_span_ns = 5;
  add_record (f, 1.0, "T.ok");
  add_record (f, 10.0, "T.ok");
  add_record (f, 9.0, "T.skip");
  totals = run (f, "waiting");
  g_assert_cmpuint (f->session.n_waits, ==, 3);
  g_assert_cmpint (f->session.waits[0], ==, SEC + SEC / 2);
  g_assert_cmpint (f->session.trace[0], ==, SEC);
  g_assert_cmpint (f->session.waits[1], ==, SEC + 3 * SEC / 2);
  g_assert_cmpint (f->session.trace[1], ==, 3 * SEC);
  g_assert_cmpint (f->session.trace[2], ==, 3 * SEC);
  g_assert_cmpint (lmt_stats_max (totals->lag), ==, 5);
  fixture_free (f);
}

/* Speed 0: the level still hears the recorded time of each record. */
static void
test_level_waits_asap (void)
{
  Fixture *f = fixture_new ();

  add_record (f, 1.0, "T.ok");
  add_record (f, 4.0, "T.ok");
  run (f, "waiting");
  g_assert_cmpint (f->session.waits[1], ==, SEC);
  g_assert_cmpint (f->session.trace[1], ==, 4 * SEC);
  fixture_free (f);
}

static void
test_long_wait (void)
{
  Fixture *f = fixture_new ();
  LmtWarnings *warnings = lmt_warnings_new ();
  const LmtReplayTotals *totals;

  f->plan.speed = 1.0;
  for (guint i = 1; i <= 3; i++)
    add_record (f, i * 5000.0, "T.ok");
  f->replay = lmt_replay_new (f->registry, &level);
  lmt_replay_set_warnings (f->replay, warnings);
  lmt_replay_set_progress (f->replay, on_progress, f);
  totals = run (f, "test");
  g_assert_cmpuint (totals->long_waits, ==, 3);
  g_assert_cmpuint (lmt_warnings_count (warnings, "long-wait"), ==, 1);
  /* Ten times a second while it sleeps, on the virtual clock. */
  g_assert_cmpuint (f->n_progress, >=, 149990);
  g_assert_cmpuint (f->n_progress, <=, 150010);
  fixture_free (f);
  lmt_warnings_free (warnings);
}

static void
test_empty (void)
{
  Fixture *f = fixture_new ();
  const LmtReplayTotals *totals;

  f->plan.loops = 1000000;
  totals = run (f, "test");
  g_assert_cmpuint (totals->records, ==, 0);
  g_assert_false (totals->interrupted);
  fixture_free (f);
}

static void
test_malformed (void)
{
  Fixture *f = fixture_new ();
  static const guint8 bad[] = { 0, 0, 0, 1, 0xc1 };

  add_record (f, 0, "T.ok");
  g_byte_array_append (f->bytes, bad, sizeof bad);
  add_record (f, 0, "T.ok");
  f->plan.loops = 2;
  run (f, "test");
  g_assert_cmpuint (lmt_replay_get_totals (f->replay)->records, ==, 4);
  g_assert_cmpuint (lmt_replay_get_totals (f->replay)->malformed, ==, 1);
  g_assert_cmpuint (f->session.malformed_at_finish, ==, 1);
  fixture_free (f);
}

/* A file that names a new call in every record must not make the figures grow with it. */
static void
test_many_names (void)
{
  Fixture *f = fixture_new ();

  for (guint i = 0; i < 3000; i++)
    {
      g_autofree char *name = g_strdup_printf ("X.call%u", i);

      add_record (f, 0, name);
    }
  run (f, "test");
  g_assert_cmpuint (lmt_replay_get_totals (f->replay)->status[LMT_STATUS_SKIPPED], ==, 3000);
  g_assert_cmpuint (lmt_replay_get_n_ops (f->replay), ==, 1025);
  g_assert_cmpuint (op_named (f, "(other names)")->status[LMT_STATUS_SKIPPED], ==, 1976);
  fixture_free (f);
}

static void
test_no_malloc (void)
{
  if (!mallocs_are_counted ())
    {
      g_test_skip ("malloc is a sanitizer's or valgrind's");
      return;
    }
  Fixture *f = fixture_new ();

  for (guint i = 0; i < 10000; i++)
    add_record (f, i * 0.001, "T.ok");
  f->plan.speed = 1.0;
  run (f, "test");
  g_assert_cmpuint (f->session.calls, ==, 10000);
  g_assert_cmpuint (f->session.mallocs_at_10, >, 0);
  g_assert_cmpuint (f->session.mallocs_at_end - f->session.mallocs_at_10, ==, 0);
  fixture_free (f);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/replay/statuses", test_statuses);
  g_test_add_data_func ("/replay/pending/as-it-ends", NULL, test_pending);
  g_test_add_data_func ("/replay/pending/in-order", "in order", test_pending);
  g_test_add_func ("/replay/pending/settled", test_settled);
  g_test_add_func ("/replay/pending/many", test_many_pending);
  g_test_add_func ("/replay/loops", test_loops);
  g_test_add_func ("/replay/speeds", test_speeds);
  g_test_add_func ("/replay/two-files", test_two_files);
  g_test_add_func ("/replay/lag", test_lag);
  g_test_add_func ("/replay/limit", test_limit);
  g_test_add_func ("/replay/interrupt", test_interrupt);
  g_test_add_func ("/replay/level-waits", test_level_waits);
  g_test_add_func ("/replay/level-waits/asap", test_level_waits_asap);
  g_test_add_func ("/replay/long-wait", test_long_wait);
  g_test_add_func ("/replay/empty", test_empty);
  g_test_add_func ("/replay/malformed", test_malformed);
  g_test_add_func ("/replay/many-names", test_many_names);
  g_test_add_func ("/replay/no-malloc", test_no_malloc);
  return g_test_run ();
}
