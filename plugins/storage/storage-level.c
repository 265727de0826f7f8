// SPDX-License-Identifier: Apache-2.0
#include "storage-prepare.h"
#include "storage-session.h"

#include <string.h>

#include <lmtrace/lmt-output.h>

#define NS_PER_S G_GINT64_CONSTANT (1000000000)
#define STALL_NS (5 * NS_PER_S) /* cli.md 8.9 */

static void say (StorageSession *session, const char *kind, const char *format, ...) G_GNUC_PRINTF (3, 4);

static void
say (StorageSession *session, const char *kind, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (session->env->replay != NULL)
    lmt_replay_message (session->env->replay, kind, text);
  else if (session->env->warnings != NULL) /* no replay: a workload */
    lmt_warnings_add (session->env->warnings, kind, text);
}

/* ---------------- configure: nothing is touched ---------------- */

static gboolean
refuse (GError **error, const char *text)
{
  g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, text);
  return FALSE;
}

static gboolean
check_flags (const LmtReplayEnv *env, const StorageFlags *flags, GError **error)
{
  if (flags->settle && flags->no_settle)
    return refuse (error, "--settle: expected it alone, found --no-settle too");
  if ((flags->prepare || flags->prepare_only) && env->can_rewind == 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a file that can be read twice, found a pipe or --follow",
                   flags->prepare_only ? "--prepare-only" : "--prepare");
      return FALSE;
    }
  if (flags->trace_level != NULL && lmt_options_is_set (env->options, "key-offset"))
    return refuse (error, "--trace-level: expected calls as recorded, found --key-offset, which gives them other keys");
  if (flags->verify_data && g_strcmp0 (flags->payload, "zero") == 0)
    return refuse (error,
                   "--verify-data: expected --payload pattern, found zero: nothing tells one object's zeros from another's");
  if (flags->trace_level != NULL && flags->trace_output != NULL && env->n_sessions > 1)
    return refuse (error, "--trace-output: expected one FILE, found several");
  if (!lmt_output_check_inputs ("--trace-output", flags->trace_level != NULL ? flags->trace_output : NULL, env->files, error)
      || !lmt_output_check_inputs ("--state-out", flags->state_out, env->files, error))
    return FALSE;
  if (flags->state_out != NULL && (env->n_headers > 1 || env->n_sessions > 1))
    return refuse (error, "--state-out: expected one FILE, found several");
  return TRUE;
}

static SmDriveMode
choose_mode (const LmtReplayEnv *env, const StorageFlags *flags)
{
  if (flags->settle || (env->speed == 0.0 && !flags->no_settle))
    return SM_DRIVE_SETTLED;
  return env->speed == 1.0 ? SM_DRIVE_REAL : SM_DRIVE_ORDERED;
}

static void
storage_free (gpointer user_data)
{
  StorageSession *session = user_data;

  if (session == NULL)
    return;
  storage_watch_stop (session);
  if (session->l2 != NULL)
    for (guint i = 0; i < session->config->sm.n_l2; i++)
      if (session->l2[i] != NULL)
        {
          if (!session->finished)
            lmt_l2_close (session->l2[i], 0);
        }
  if (session->keys != NULL)
    lmt_key_table_retire (session->keys);
  sm_driver_free (session->driver);
  storage_contexts_free (session->contexts);
  storage_locks_free (session->locks);
  storage_prefetches_free (session->prefetches, session->keys);
  storage_state_free (session->state);
  storage_hashes_free (session->hashes, NULL);
  storage_record_free (session->record);
  g_clear_pointer (&session->sm, lmt_sm_free);
  if (session->l2 != NULL)
    for (guint i = 0; i < session->config->sm.n_l2; i++)
      if (session->l2[i] != NULL)
        lmt_l2_free (session->l2[i]);
  g_free (session->l2);
  storage_prepare_free (session->prepare);
  g_clear_pointer (&session->decoder, sm_decoder_free);
  g_clear_pointer (&session->keys, lmt_key_table_free);
  storage_pool_unmap (&session->pool);
  g_clear_pointer (&session->digest, storage_digest_free);
  g_clear_pointer (&session->config, storage_config_free);
  g_free (session->outcome_digest);
  g_free (session->readable);
  g_free (session->stalls);
  g_free (session);
}

static gboolean
is_word (const LmtOptions *options, const char *name, const char *value, const char *word)
{
  return !lmt_options_is_set (options, name) || g_strcmp0 (value, word) == 0;
}

/* What needs adapters; and --bypass-l1, which is two policies and no look at L1 (storage-handlers.c). */
static gboolean
check_l2 (StorageSession *session, GError **error)
{
  const StorageFlags *flags = session->flags;
  SmConfig *sm = &session->config->sm;

  if ((flags->prepare || flags->prepare_only) && sm->n_l2 == 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected an adapter to store into, found no --l2-adapter and no --l2",
                   flags->prepare_only ? "--prepare-only" : "--prepare");
      return FALSE;
    }
  if (flags->bypass_l1 == 0)
    return TRUE;
  if (sm->n_l2 == 0)
    return refuse (error, "--bypass-l1: expected an adapter to go to, found no --l2-adapter and no --l2");
  if (!is_word (session->env->options, "l2-store-policy", flags->l2_store_policy, "skip_l1"))
    return refuse (error, "--bypass-l1: expected --l2-store-policy skip_l1, found default");
  if (!is_word (session->env->options, "l2-prefetch-policy", flags->l2_prefetch_policy, "default"))
    return refuse (error, "--bypass-l1: expected --l2-prefetch-policy default, found retain");
  sm->store_policy = SM_STORE_SKIP_L1;
  sm->prefetch_policy = SM_PREFETCH_DEFAULT;
  return TRUE;
}

static gpointer
storage_configure (const LmtReplayEnv *env, GError **error)
{
  const StorageFlags *flags = env->config;
  const LmtHeader *header = env->n_headers > 0 ? env->headers[0] : NULL;
  StorageSession *session;

  if (!check_flags (env, flags, error))
    return NULL;
  session = g_new0 (StorageSession, 1);
  session->env = env;
  session->flags = flags;
  session->mode = choose_mode (env, flags);
  session->fill_pattern = g_strcmp0 (flags->payload, "zero") != 0;
  session->config = storage_config_new (flags, env->options, env->registry, header, env->warnings, error);
  if (session->config == NULL)
    {
      g_free (session);
      return NULL;
    }
  if (!check_l2 (session, error))
    {
      storage_config_free (session->config);
      g_free (session);
      return NULL;
    }
  session->config->sm.explain_misses = TRUE;
  session->config->sm.eviction_period_ns = NS_PER_S;
  session->config->sm.collapse_passes = session->mode != SM_DRIVE_SETTLED;
  session->keys = lmt_key_table_new ();
  session->decoder = sm_decoder_new (session->keys);
  session->contexts = storage_contexts_new (session->keys);
  if (flags->prepare || flags->prepare_only)
    session->prepare = storage_prepare_new (session->keys);
  return session;
}

/* ---------------- start: acquires ---------------- */

static void
on_l2_message (gpointer data, const char *kind, const char *text)
{
  StorageSession *session = data;

  if (g_str_has_prefix (kind, "info"))
    g_info ("%s", text);
  else
    say (session, kind, "%s", text);
}

static void
on_l2_more (gpointer data, const char *kind, guint64 n)
{
  StorageSession *session = data;

  lmt_warnings_add_count (session->env->warnings, kind, n);
}

/* What keeps objects but not their bytes would fail every comparison. */
static gboolean
check_verify (StorageSession *session, guint adapter, GError **error)
{
  const guint32 both = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA;

  if (!session->flags->verify_data || (lmt_l2_get_info (session->l2[adapter])->capabilities & both) != LMT_L2_CAP_KEEP)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
               "--verify-data: expected adapters that keep bytes, found L2 %u (%s), which keeps none", adapter,
               lmt_l2_get_type_name (session->l2[adapter]));
  return FALSE;
}

static gboolean
open_adapters (StorageSession *session, GError **error)
{
  const StorageConfig *config = session->config;
  guint n = config->sm.n_l2;

  session->l2 = g_new0 (LmtL2 *, MAX (n, 1));
  for (guint i = 0; i < n; i++)
    {
      LmtL2Params params = { .struct_size = sizeof params };

      params.adapter = i;
      params.clock = session->env->clock;
      params.keys = session->keys;
      params.memory = session->pool.base;
      params.memory_bytes = session->pool.mapped_bytes;
      params.data_wanted = TRUE;
      params.yes_destroy = session->env->yes_destroy;
      params.message = on_l2_message;
      params.more = on_l2_more;
      params.message_data = session;
      session->l2[i] = lmt_l2_open (config->l2[i], &params, error);
      if (session->l2[i] == NULL)
        return FALSE;
      if (!check_verify (session, i, error))
        return FALSE;
      if ((lmt_l2_get_info (session->l2[i])->capabilities & LMT_L2_CAP_DATA) != 0)
        session->fill = TRUE;
    }
  return TRUE;
}

/* The pool is mapped before the adapters are opened, since they register it, but nothing of it is touched unless one moves data.
 */
static gboolean
prepare_pool (StorageSession *session, GError **error)
{
  if (session->config->sm.n_l2 == 0 && !session->config->use_hugepages)
    return TRUE;
  return storage_pool_map (&session->pool, session->config, error);
}

static gboolean
is_locked_in_l2 (guint32 adapter, const LmtKey *key, gpointer data)
{
  StorageSession *session = data;

  return lmt_l2_get_locks (session->l2[adapter], key) > 0;
}

static gboolean
set_quotas (StorageSession *session, GError **error)
{
  for (guint i = 0; i < session->config->quotas->len; i++)
    {
      const StorageQuota *quota = &g_array_index (session->config->quotas, StorageQuota, i);
      guint32 salt = lmt_key_table_intern_salt (session->keys, quota->salt, strlen (quota->salt));

      if (quota->bytes > G_MAXINT64 || !lmt_sm_set_quota (session->sm, salt, (gint64)quota->bytes))
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l2-quota: %s: expected at most %" G_GINT64_FORMAT " bytes",
                       quota->salt, G_MAXINT64);
          return FALSE;
        }
    }
  return TRUE;
}

static void
on_victim (gint adapter, LmtKey *key, gpointer data)
{
  StorageSession *session = data;

  storage_state_add_victim (session->state, adapter, key);
}

/* While something is waited for. */
static void
on_tick (gpointer data)
{
  StorageSession *session = data;

  storage_watch_look (session);
  if (session->env->replay != NULL)
    lmt_replay_tick (session->env->replay);
}

static void
make_driver (StorageSession *session)
{
  SmDriverParams params = { 0 };

  params.mode = session->mode;
  params.speed = session->env->speed;
  params.clock = session->env->clock;
  params.memory = session->fill ? session->pool.base : NULL;
  params.drain_timeout_ns = session->env->drain_timeout_ns;
  params.verify = session->flags->verify_data;
  params.interrupts = session->env->interrupts;
  params.tick = on_tick;
  params.tick_data = session;
  session->driver = sm_driver_new (session->sm, session->l2, session->config->sm.n_l2, &params);
  sm_driver_set_funcs (session->driver, storage_prefetch_result, on_victim, session);
}

/* cli.md 3.2, 4: once, and only where misses may be this side's doing. */
static void
tell_what_misses_mean (StorageSession *session)
{
  StorageDigest *digest;

  if (session->env->quiet)
    return;
  digest = storage_digest_new (session->config, session->env->headers[0], session->env->compat);
  if (digest->mismatch || session->config->sm.n_l2 > 0)
    g_message ("the replay runs with the configuration given here, on this machine, and L2 works beside the calls: a miss tells "
               "about this setup before it tells about the trace");
  storage_digest_free (digest);
}

static gboolean
start_hashes (StorageSession *session, GError **error)
{
  const StorageFlags *flags = session->flags;
  StorageHashesParams params;

  if (flags->lookup_hash_log_dir == NULL || flags->lookup_hash_log_dir[0] == '\0' || flags->disable_observability
      || flags->disable_logging)
    return TRUE;
  params = (StorageHashesParams){ flags->lookup_hash_log_dir, flags->lookup_hash_log_rotation_interval,
                                  flags->lookup_hash_log_rotation_max_size, flags->lookup_hash_log_max_files };
  session->hashes = storage_hashes_new (&params, error);
  return session->hashes != NULL;
}

/* Virtual times: a call's is the recorded one, an event's the manager's. */
static gint64
call_time (gpointer data)
{
  return ((StorageSession *)data)->trace_ns;
}

static gint64
manager_time (gpointer data)
{
  StorageSession *session = data;

  return session->driver != NULL ? sm_driver_now (session->driver) : 0;
}

static gboolean
start_record (StorageSession *session, GError **error)
{
  gboolean is_events = g_strcmp0 (session->flags->trace_level, "events") == 0;
  StorageRecordParams params = { .flags = session->flags, .config = session->config };
  g_autofree guint64 *capacities = g_new0 (guint64, session->config->sm.n_l2 + 1);

  if (session->flags->trace_level == NULL)
    return TRUE;
  session->trace_clock = (LmtClock){ sizeof (LmtClock), 0, session, is_events ? manager_time : call_time, NULL };
  if (session->mode == SM_DRIVE_SETTLED)
    params.clock = &session->trace_clock;
  params.header = session->env->n_headers > 0 ? session->env->headers[0] : NULL;
  params.manager_ns = manager_time;
  params.manager_data = session;
  params.inputs = session->env->files;
  session->record = storage_record_new (&params, error);
  if (session->record == NULL)
    return FALSE;
  for (guint i = 0; i < session->config->sm.n_l2; i++)
    capacities[i] = lmt_l2_get_capacity (session->l2[i]);
  storage_record_watch (session->record, session->sm, capacities);
  return TRUE;
}

static gboolean
storage_start (gpointer user_data, GError **error)
{
  StorageSession *session = user_data;
  const StorageConfig *config = session->config;
  const char *denied = NULL;

  if (session->env->dry_run)
    return TRUE;
  session->state = storage_state_new (session->flags->state_out, config->sm.n_l2, error);
  if (session->state == NULL)
    return FALSE;
  session->sm = lmt_sm_new (&config->sm, session->keys, error);
  if (session->sm == NULL || !set_quotas (session, error) || !prepare_pool (session, error) || !open_adapters (session, error))
    return FALSE;
  for (guint i = 0; i < config->sm.n_l2; i++)
    lmt_sm_set_l2_capacity (session->sm, i, lmt_l2_get_capacity (session->l2[i]));
  lmt_sm_set_l2_locked (session->sm, is_locked_in_l2, session);
  if (session->fill)
    storage_pool_touch (&session->pool, config, &denied);
  if (denied != NULL)
    say (session, "mlock", "--l1-mlock: the pool stays pageable: %s", denied);
  session->locks = storage_locks_new (session->keys, (gint64)config->sm.read_ttl_s * NS_PER_S);
  session->prefetches = storage_prefetches_new ();
  /* Before the driver: it hands the manager what the adapters hold already. */
  if (!start_record (session, error))
    return FALSE;
  make_driver (session);
  if (session->env->replay != NULL)
    {
      const LmtReplayTotals *totals = lmt_replay_get_totals (session->env->replay);

      memcpy (session->base, totals->status, sizeof session->base);
      session->base_malformed = totals->malformed;
    }
  if (!start_hashes (session, error) || !storage_watch_start (session, error))
    return FALSE;
  tell_what_misses_mean (session);
  session->started = TRUE;
  return TRUE;
}

/* ---------------- the run ---------------- */

static gboolean
storage_wait (gpointer user_data, gint64 due_ns, gint64 trace_ns)
{
  StorageSession *session = user_data;

  session->trace_ns = MAX (session->trace_ns, trace_ns);
  if (!session->started)
    return session->env->interrupts == NULL || g_atomic_int_get ((volatile gint *)session->env->interrupts) == 0;
  if (!session->with_origin)
    {
      double speed = session->env->speed;

      session->with_origin = TRUE;
      sm_driver_set_origin (session->driver, speed > 0.0 ? due_ns - (gint64)((double)trace_ns / speed) : due_ns);
    }
  storage_watch_look (session);
  return sm_driver_wait (session->driver, due_ns);
}

static gboolean
storage_select (gpointer user_data, const LmtRecord *record, const LmtSelect *select)
{
  StorageSession *session = user_data;

  return sm_decoder_select (session->decoder, record, select);
}

static void
storage_set_tenant (gpointer user_data, guint64 number)
{
  StorageSession *session = user_data;

  sm_decoder_set_tenant (session->decoder, number);
  if (session->prepare != NULL && !session->surveyed)
    storage_prepare_set_tenant (session->prepare, number);
}

static gboolean
storage_survey_wanted (gpointer user_data)
{
  return ((StorageSession *)user_data)->prepare != NULL;
}

static void
storage_survey_record (gpointer user_data, const LmtRecord *record)
{
  storage_prepare_record (((StorageSession *)user_data)->prepare, record);
}

static guint32
storage_survey_end (gpointer user_data, GError **error)
{
  StorageSession *session = user_data;

  session->surveyed = TRUE;
  if (!storage_prepare_finish (session, error))
    {
      session->failed = TRUE;
      return LMT_SURVEY_FAILED;
    }
  return session->flags->prepare_only ? LMT_SURVEY_ONLY : LMT_SURVEY_REPLAY;
}

/* ---------------- the end: storage-manager.md 18.6 ---------------- */

static void
exit_open_contexts (StorageSession *session)
{
  const StorageContext *context;

  while ((context = storage_contexts_pop_oldest (session->contexts)) != NULL)
    {
      LmtOutcome outcome = { .struct_size = sizeof outcome };

      storage_count_anomaly (session, STORAGE_ANOMALY_CONTEXT_LEFT_OPEN, 1, context->record);
      if (session->started)
        storage_exit_context (session, context, context->record, &outcome);
    }
}

static void
take_state (StorageSession *session)
{
  StorageStateEnd end = { 0 };
  StorageStateAnomaly anomalies[STORAGE_N_ANOMALIES];
  g_autoptr (GError) error = NULL;
  guint64 status[LMT_N_STATUS] = { 0 };

  if (session->env->replay != NULL)
    {
      const LmtReplayTotals *totals = lmt_replay_get_totals (session->env->replay);

      for (guint i = 0; i < LMT_N_STATUS; i++)
        status[i] = totals->status[i] - session->base[i];
      end.malformed = totals->malformed - session->base_malformed;
    }
  for (guint i = 0; i < STORAGE_N_ANOMALIES; i++)
    anomalies[i] = (StorageStateAnomaly){ storage_anomaly_name (i), session->anomalies[i] };
  /* The loop counts what has no completion when this is over. */
  end.ok = status[LMT_STATUS_OK] + session->prefetches_left;
  end.skipped = status[LMT_STATUS_SKIPPED];
  end.undecodable = status[LMT_STATUS_UNDECODABLE];
  end.failed = status[LMT_STATUS_FAILED];
  end.mismatch = status[LMT_STATUS_MISMATCH];
  end.settled = session->settled;
  end.sm = session->sm;
  end.now_ns = sm_driver_now (session->driver);
  end.l2 = session->l2;
  end.anomalies = anomalies;
  end.n_anomalies = STORAGE_N_ANOMALIES;
  if (!storage_state_finish (session->state, &end, &session->outcome_digest, &error))
    {
      say (session, "state-out", "%s", error->message);
      session->failed = TRUE;
    }
}

static void
end_logs (StorageSession *session)
{
  g_autoptr (GError) error = NULL;

  if (!storage_hashes_free (g_steal_pointer (&session->hashes), &error))
    {
      say (session, "lookup-hash-log", "%s", error->message);
      session->failed = TRUE;
      g_clear_error (&error);
    }
  if (!storage_record_close (session->record, &error))
    {
      say (session, "trace-output", "%s", error->message);
      session->failed = TRUE;
    }
}

static void
close_all (StorageSession *session, gboolean drained)
{
  /* What the drain waited for in vain isn't waited for again. */
  gint64 timeout = drained ? session->env->drain_timeout_ns : 0;

  lmt_sm_close (session->sm, sm_driver_now (session->driver));
  for (guint i = 0; i < session->config->sm.n_l2; i++)
    session->ios_abandoned += lmt_l2_close (session->l2[i], timeout);
  lmt_sm_abandon (session->sm);
}

static void
tell_anomalies (StorageSession *session)
{
  for (guint i = 0; i < STORAGE_N_ANOMALIES; i++)
    if (session->anomalies[i] > 0)
      say (session, storage_anomaly_name (i), "%s: %" G_GUINT64_FORMAT " times, first at record %" G_GUINT64_FORMAT,
           storage_anomaly_name (i), session->anomalies[i], session->anomaly_records[i]);
}

static void
storage_finish (gpointer user_data, gboolean interrupted)
{
  StorageSession *session = user_data;
  gboolean drained;

  if (session->finished)
    return;
  session->finished = TRUE;
  storage_record_stop_calls (session->record); /* what ends the session is no call of the trace */
  exit_open_contexts (session);
  if (!session->started)
    return;
  if (!session->with_origin) /* not one record: no time went by */
    sm_driver_set_origin (session->driver, lmt_clock_now (session->env->clock));
  drained = sm_driver_drain (session->driver);
  session->settled = session->mode == SM_DRIVE_SETTLED && sm_driver_get_figures (session->driver)->unsettled == 0;
  session->ios_left = sm_driver_get_outstanding (session->driver);
  session->stores_left = lmt_sm_stores_outstanding (session->sm, G_MAXUINT32);
  session->prefetches_left = storage_prefetches_flush (session);
  take_state (session);
  end_logs (session);
  storage_locks_get_figures (session->locks, sm_driver_now (session->driver), &session->lock_figures);
  lmt_sm_release_leaks (session->sm, sm_driver_now (session->driver), &session->leaked_read_locks, &session->leaked_reservations);
  close_all (session, drained);
  tell_anomalies (session);
  if (lmt_options_is_set (session->env->options, "min-hit-rate") && storage_hit_rate (session) < session->flags->min_hit_rate)
    {
      session->hit_rate_missed = TRUE;
      say (session, "min-hit-rate", "--min-hit-rate: expected at least %.4f, found %.4f", session->flags->min_hit_rate,
           storage_hit_rate (session));
    }
}

static void
storage_level_report (gpointer user_data, LmtReport *report)
{
  storage_report (user_data, report);
}

static char *
storage_digest_row (gpointer user_data, guint file)
{
  StorageSession *session = user_data;
  const GPtrArray *diff;

  if (file >= session->env->n_headers)
    return NULL;
  g_clear_pointer (&session->digest, storage_digest_free);
  session->digest = storage_digest_new (session->config, session->env->headers[file], session->env->compat);
  if (session->digest == NULL)
    return NULL;
  diff = session->digest->diff;
  for (guint i = 0; diff != NULL && i < diff->len; i++)
    {
      const StorageDiff *one = diff->pdata[i];

      g_info ("Configuration differs: field=%s, recorded=%s, replay=%s", one->path,
              one->recorded != NULL ? one->recorded : "absent", one->replay != NULL ? one->replay : "absent");
    }
  return g_strdup (session->digest->row);
}

/* A tier that fails must not look healthy. Faults asked for are no failure of anything. */
static guint64
storage_target_errors (gpointer user_data)
{
  const StorageSession *session = user_data;
  guint64 errors = 0;

  for (guint i = 0; session->l2 != NULL && i < session->config->sm.n_l2; i++)
    if (session->l2[i] != NULL && (lmt_l2_get_info (session->l2[i])->flags & LMT_L2_INFO_FAULTS) == 0)
      errors += lmt_l2_get_figures (session->l2[i])->failures;
  return errors;
}

static int
storage_exit_code (gpointer user_data)
{
  StorageSession *session = user_data;

  return session->hit_rate_missed || session->failed ? 1 : 0;
}

/* For how long nothing came back from an adapter that has I/O; 0: it works, or has nothing to do. */
static gint64
stalled_ns (StorageSession *session, guint adapter, gint64 now_ns)
{
  const LmtL2Figures *figures = lmt_l2_get_figures (session->l2[adapter]);
  guint64 completed = 0;

  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    completed += figures->ops[kind];
  if (lmt_l2_in_flight (session->l2[adapter]) == 0)
    session->stalls[adapter].since_ns = 0;
  else if (session->stalls[adapter].since_ns == 0 || session->stalls[adapter].completed != completed)
    session->stalls[adapter].since_ns = now_ns;
  session->stalls[adapter].completed = completed;
  return session->stalls[adapter].since_ns != 0 ? now_ns - session->stalls[adapter].since_ns : 0;
}

static void
storage_progress (gpointer user_data, char *out)
{
  StorageSession *session = user_data;
  guint n = session->config->sm.n_l2;
  gint64 now_ns;
  guint depth = 0;

  out[0] = '\0';
  if (!session->started || n == 0)
    return;
  if (session->stalls == NULL)
    session->stalls = g_malloc0_n (n, sizeof *session->stalls);
  now_ns = lmt_clock_now (session->env->clock);
  for (guint i = 0; i < n; i++)
    {
      gint64 stall_ns = stalled_ns (session, i, now_ns);

      depth += lmt_l2_in_flight (session->l2[i]);
      if (stall_ns >= STALL_NS && out[0] == '\0')
        g_snprintf (out, 64, "stalled %us on l2#%u (%s)", (guint)(stall_ns / NS_PER_S), i, lmt_l2_get_type_name (session->l2[i]));
    }
  if (out[0] == '\0')
    g_snprintf (out, 64, "L2 depth %u", depth);
}

static const char *
storage_clock_word (gpointer user_data)
{
  static const char *const words[] = { "settled", "real time", "real time, ordered" };
  const StorageSession *session = user_data;

  return words[session->mode];
}

static const char *
storage_mark (gpointer user_data)
{
  const StorageSession *session = user_data;

  for (guint i = 0; session->l2 != NULL && i < session->config->sm.n_l2; i++)
    if (session->l2[i] != NULL && (lmt_l2_get_info (session->l2[i])->flags & LMT_L2_INFO_FAULTS) != 0)
      return "faults";
  return NULL;
}

static gboolean
storage_is_settled (gpointer user_data)
{
  const StorageSession *session = user_data;

  return session->settled;
}

const LmtLevelOps storage_level = {
  .struct_size = sizeof (LmtLevelOps),
  .threads = LMT_THREADS_ONE,
  .name = "storage",
  .summary = "Calls of a StorageManager",
  .options = storage_options,
  .config_size = sizeof (StorageFlags),
  .configure = storage_configure,
  .start = storage_start,
  .wait = storage_wait,
  .select = storage_select,
  .finish = storage_finish,
  .report = storage_level_report,
  .digest_row = storage_digest_row,
  .exit_code = storage_exit_code,
  .target_errors = storage_target_errors,
  .free = storage_free,
  .progress = storage_progress,
  .clock_word = storage_clock_word,
  .is_settled = storage_is_settled,
  .mark = storage_mark,
  .set_tenant = storage_set_tenant,
  .close_pairs = storage_close_pairs,
  .survey_wanted = storage_survey_wanted,
  .survey_record = storage_survey_record,
  .survey_end = storage_survey_end,
  .header_options = storage_config_header_options,
  .info_new = storage_info_new,
  .info_finish = storage_info_finish,
  .info_free = storage_info_free,
  .info_visit = storage_info_visit,
  .info_select = storage_info_select,
};
