// SPDX-License-Identifier: Apache-2.0
#include "kit-rig.h"

#include "kit-child.h"

#include <stdarg.h>

/* Whoever watches is to hear of a check that waits. */
#define LOOK_EVERY_NS G_GINT64_CONSTANT (200000000)

void
kit_rig_fail (KitRig *rig, const char *format, ...)
{
  va_list args;
  if (rig->why != NULL)
    return;
  va_start (args, format);
  rig->why = g_strdup_vprintf (format, args);
  va_end (args);
}

static void
on_message (gpointer data, const char *kind, const char *text)
{
  KitRig *rig = data;
  g_debug ("%s", text);
  if (strcmp (kind, "protocol") == 0 && rig->protocol == NULL)
    rig->protocol = g_strdup (text);
}

gboolean
kit_rig_open (KitRig *rig, KitCheck *check)
{
  g_autoptr (GError) error = NULL;
  memset (rig, 0, sizeof *rig);
  rig->check = check;
  kit_progress (check, "open");
  rig->keys = lmt_key_table_new ();
  rig->config = lmt_l2_config_parse (check->registry, check->json, 1, &error);
  LmtL2Params params = { .struct_size = sizeof params,
                         .clock = lmt_clock_real (),
                         .keys = rig->keys,
                         .data_wanted = TRUE,
                         .message = on_message,
                         .message_data = rig };
  if (rig->config != NULL)
    rig->l2 = lmt_l2_open (rig->config, &params, &error);
  if (rig->l2 == NULL)
    kit_rig_fail (rig, "open: expected an adapter, found: %s", error->message);
  return rig->l2 != NULL;
}

static void
job_free (KitRig *rig, KitJob *job)
{
  for (guint i = 0; i < job->task.n; i++)
    {
      kit_scenario_buffer_clear (&job->buffers[i]);
      lmt_key_unref (rig->keys, job->keys[i]);
    }
  g_free (job);
}

void
kit_rig_close (KitRig *rig)
{
  if (rig->l2 != NULL)
    {
      gint64 start = g_get_monotonic_time (), limit = rig->why != NULL ? POLL_MS : CLOSE_MS;
      kit_progress (rig->check, "close");
      kit_beat (rig->check, limit);
      guint lost = lmt_l2_close (rig->l2, limit * 1000000);
      gint64 ms = (g_get_monotonic_time () - start) / 1000;
      for (LmtL2Task *task; (task = lmt_l2_reap (rig->l2)) != NULL;)
        job_free (rig, task->user_data);
      guint64 n = lmt_l2_get_figures (rig->l2)->protocol_errors;
      if (n > 0)
        kit_rig_fail (rig, "expected each io back once and with a result, found %" G_GUINT64_FORMAT " that were not: %s", n,
                      rig->protocol != NULL ? rig->protocol : "no message");
      if (lost > 0)
        kit_rig_fail (rig, "close: expected every operation to end, found %u given up", lost);
      if (ms > CLOSE_MS)
        kit_rig_fail (rig, "close: expected at most %d ms, found %" G_GINT64_FORMAT, CLOSE_MS, ms);
    }
  g_clear_pointer (&rig->l2, lmt_l2_free);
  g_clear_pointer (&rig->config, lmt_l2_config_free);
  g_clear_pointer (&rig->keys, lmt_key_table_free);
  g_clear_pointer (&rig->protocol, g_free);
}

/* -------- objects -------- */

/* One byte, sizes around a page and around what devices like, and anything up to 256 KiB. */
guint64
kit_object_bytes (guint64 number)
{
  static const guint64 odd[] = { 1, 13, 511, 512, 4095, 4096, 4097, 12288, 65536, 100000, 131072, 262144 };
  guint64 drawn = lmt_mix64 (number + 77);
  return drawn % 3 == 0 ? 1 + (drawn >> 8) % 262144 : odd[(drawn >> 8) % G_N_ELEMENTS (odd)];
}

LmtKey *
kit_object_key (KitRig *rig, guint64 number)
{
  static const char *const salts[] = { "", "tenant-1", "tenant-2" };
  guint64 hash[4] = { GUINT64_TO_LE (lmt_mix64 (number + 1)), GUINT64_TO_LE (number), 0, 1 };
  const char *salt = salts[number % 7 < 3 ? number % 7 : 0];
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .rank = 0x01000100,
                          .hash = (const guint8 *)hash,
                          .hash_len = sizeof hash,
                          .model = "lmtrace/check",
                          .model_len = (guint32)strlen ("lmtrace/check"),
                          .salt = salt,
                          .salt_len = (guint32)strlen (salt) };
  return lmt_key_table_intern (rig->keys, &fields);
}

gboolean
kit_job_is_whole (KitRig *rig, const KitJob *job)
{
  for (guint i = 0; i < job->task.n; i++)
    {
      const Buffer *buffer = &job->buffers[i];
      if (buffer->at == NULL)
        continue;
      if (!kit_scenario_buffer_is_kept (buffer))
        {
          kit_rig_fail (rig, "%s of object %" G_GUINT64_FORMAT ": expected nothing past the buffer's end, found it written",
                        lmt_l2_kind_name (job->task.kind), job->numbers[i]);
          return FALSE;
        }
      gboolean filled = job->codes[i] == LMT_L2_OK && (rig->check->info.capabilities & LMT_L2_CAP_DATA) != 0;
      gint64 at = job->task.kind == LMT_L2_STORE || filled ? lmt_fill_check (job->numbers[i], buffer->at, buffer->bytes) : -1;
      if (at >= 0)
        {
          kit_rig_fail (rig,
                        "%s of object %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT
                        " bytes): expected its bytes, found others from byte %" G_GINT64_FORMAT,
                        lmt_l2_kind_name (job->task.kind), job->numbers[i], buffer->bytes, at);
          return FALSE;
        }
    }
  return TRUE;
}

/* -------- tasks -------- */

gboolean
kit_rig_submit (KitRig *rig, guint32 kind, const guint64 *numbers, guint n, KitJobDone done, gpointer data)
{
  KitJob *job = g_new0 (KitJob, 1);
  LmtL2Code refused = LMT_L2_OK;
  gboolean moves = kind == LMT_L2_STORE || kind == LMT_L2_LOAD;
  for (guint i = 0; i < n; i++)
    {
      job->numbers[i] = numbers[i];
      job->keys[i] = kit_object_key (rig, numbers[i]);
      job->sizes[i] = kit_object_bytes (numbers[i]);
      if (moves)
        kit_scenario_buffer_init (&job->buffers[i], job->sizes[i]);
      if (kind == LMT_L2_STORE)
        lmt_fill (numbers[i], job->buffers[i].at, job->sizes[i]);
      job->addresses[i] = job->buffers[i].at;
    }
  job->done = done;
  job->data = data;
  kit_progress (rig->check, "%s of object %" G_GUINT64_FORMAT "%s", lmt_l2_kind_name (kind), numbers[0],
                n > 1 ? " and others" : "");
  job->task = (LmtL2Task){ .kind = kind,
                           .n = n,
                           .keys = job->keys,
                           .buffers = moves ? job->addresses : NULL,
                           .sizes = kind == LMT_L2_DELETE ? NULL : job->sizes,
                           .codes = job->codes,
                           .user_data = job };
  if (!lmt_l2_submit (rig->l2, &job->task, &refused))
    {
      kit_rig_fail (rig, "%s: expected the task to be taken, found it refused: %s", lmt_l2_kind_name (kind),
                    lmt_l2_code_name (refused));
      job_free (rig, job);
      return FALSE;
    }
  rig->n_in_flight++;
  return TRUE;
}

static void
hand_out (KitRig *rig, LmtL2Task *task)
{
  KitJob *job = task->user_data;
  rig->n_in_flight--;
  if (task->kind == LMT_L2_LOOKUP)
    lmt_l2_unlock (rig->l2, job->keys, task->n);
  kit_job_is_whole (rig, job);
  if (job->done != NULL)
    job->done (rig, job, job->data);
  job_free (rig, job);
}

gboolean
kit_rig_collect (KitRig *rig, guint leave)
{
  const LmtClock *clock = lmt_clock_real ();
  gint64 last = lmt_clock_now (clock), patience = kit_wait_ms (rig->check) * 1000000;
  lmt_l2_flush (rig->l2);
  while (rig->n_in_flight > leave)
    {
      gboolean any = FALSE;
      for (LmtL2Task *task; (task = lmt_l2_reap (rig->l2)) != NULL; any = TRUE)
        hand_out (rig, task);
      gint64 now = lmt_clock_now (clock), due = lmt_l2_next_due_ns (rig->l2);
      kit_beat (rig->check, 0);
      if (any || rig->n_in_flight <= leave)
        {
          last = now;
          continue;
        }
      if (now - last > patience)
        {
          rig->check->n_timeouts++;
          kit_rig_fail (rig, "expected every task back, found %u missing after %.0f s", rig->n_in_flight, (double)patience / 1e9);
          return FALSE;
        }
      int fd = lmt_l2_get_fd (rig->l2);
      gint64 until = fd >= 0 ? MIN (last + patience + 1, now + LOOK_EVERY_NS) : now + 200000;
      clock->sleep_until_ns (clock->data, due >= 0 ? MIN (due, until) : until, &fd, fd >= 0 ? 1 : 0);
    }
  return TRUE;
}

/* -------- wipe -------- */

static void
collect_key (LmtKey *key, guint64 bytes, guint locks, gpointer data)
{
  g_ptr_array_add (data, key);
}

void
kit_rig_wipe (KitRig *rig)
{
  if (rig->l2 == NULL || (rig->check->info.capabilities & LMT_L2_CAP_DELETE) == 0)
    return;
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();
  lmt_l2_foreach (rig->l2, collect_key, keys);
  for (guint i = 0; i < keys->len; i += KIT_JOB_KEYS)
    {
      KitJob *job = g_new0 (KitJob, 1);
      guint n = MIN (keys->len - i, KIT_JOB_KEYS);
      for (guint k = 0; k < n; k++)
        job->keys[k] = lmt_key_ref (keys->pdata[i + k]);
      job->task = (LmtL2Task){ .kind = LMT_L2_DELETE, .n = n, .keys = job->keys, .codes = job->codes, .user_data = job };
      if (!lmt_l2_submit (rig->l2, &job->task, NULL))
        {
          job_free (rig, job);
          return;
        }
      rig->n_in_flight++;
      if (!kit_rig_collect (rig, 8))
        return;
    }
  kit_rig_collect (rig, 0);
}

static KitVerdict
wipe_here (KitCheck *check, gpointer data, char **why)
{
  KitRig rig;
  if (kit_rig_open (&rig, check))
    kit_rig_wipe (&rig);
  kit_rig_close (&rig);
  g_free (rig.why);
  return KIT_PASSED;
}

void
kit_check_wipe (KitCheck *check)
{
  g_autofree char *why = NULL;
  kit_child_run (check, wipe_here, NULL, &why);
  if (why != NULL)
    g_debug ("wipe: %s", why);
}
