// SPDX-License-Identifier: Apache-2.0
/* Command `coordinator`: start, loop, end. */
#include "coord.h"
#include "events-files.h"

#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

enum
{
  LOOK_EVERY_MS = 200, /* for signals that came between two waits */
  FINISH_MS = 10000,   /* requests under way may take so long after a signal */
};

static void
instance_free (gpointer data)
{
  coord_instance_free (data);
}

static void
figures_free (gpointer data)
{
  CoordRequestFigures *figures = data;
  g_free (figures->method);
  g_free (figures);
}

static void
offset_clear (gpointer data)
{
  g_free (((EventsKafkaOffset *)data)->topic);
}

static EventsCompat
compat_of (const char *word)
{
  if (strcmp (word, "strict") == 0)
    return EVENTS_COMPAT_STRICT;
  return strstr (word, "0.5.7") != NULL ? EVENTS_COMPAT_057 : EVENTS_COMPAT_056;
}

/* As in LMCache a fence takes shared L1 placements out of the directory and leaves them in usage (D11, C11). */
static void
on_fenced (LmtSpan instance, guint64 dropped, guint64 kept, gpointer data)
{
  Coord *coord = data;
  g_autofree char *shown = coord_span_show (instance);
  g_autofree char *text = NULL;

  g_info ("L1 of %s is void: %" G_GUINT64_FORMAT " placements", shown, dropped);
  if (kept == 0)
    return;
  text = g_strdup_printf ("%s: %" G_GUINT64_FORMAT
                          " shared L1 placements left the directory and stay in usage; --compat strict keeps both equal",
                          shown, kept);
  lmt_warnings_add (coord->warnings, "views-differ", text);
}

static void
on_gap (const EventsStream *stream, gint64 first, gint64 last, gboolean joined_midway, gpointer data)
{
  Coord *coord = data;
  g_autofree char *shown = coord_span_show (stream->instance);
  g_autofree char *text = NULL;

  if (joined_midway)
    {
      g_info ("Stream of %s begins at seq %" G_GINT64_FORMAT, shown, last + 1);
      return;
    }
  if (first == last)
    text = g_strdup_printf ("%s, incarnation %" G_GINT64_FORMAT ": batch %" G_GINT64_FORMAT " never came", shown,
                            stream->incarnation, first);
  else
    text = g_strdup_printf ("%s, incarnation %" G_GINT64_FORMAT ": batches %" G_GINT64_FORMAT "..%" G_GINT64_FORMAT " never came",
                            shown, stream->incarnation, first, last);
  lmt_warnings_add (coord->warnings, "gap", text);
}

Coord *
coord_new (const CoordConfig *config, LmtWarnings *warnings)
{
  Coord *coord = g_new0 (Coord, 1);
  EventsViewsConfig views = { 0 };

  coord->config = config;
  coord->compat = compat_of (config->compat_word);
  coord->limits.max_entries = (guint32)MIN (config->max_batch_entries, G_MAXUINT32);
  coord->limits.max_tokens = (guint32)MIN (config->max_entry_tokens, G_MAXUINT32);
  coord->limits.max_string = (guint32)MIN (config->max_string_bytes, G_MAXUINT32);
  coord->limits.max_depth = (guint32)config->max_nesting;
  coord->limits.no_dropped_events = coord->compat == EVENTS_COMPAT_056;
  views.compat = coord->compat;
  views.with_lru = config->eviction_check_interval_ns > 0;
  views.with_blend = config->enable_blend_lookup;
  views.max_keys = config->max_keys;
  views.max_instances = (guint32)MIN (config->max_instances, G_MAXUINT32);
  views.chunk_size = (guint32)config->chunk_size;
  views.probe_stride = (guint32)config->blend_probe_stride;
  coord->views = events_views_new (&views);
  coord->warnings = warnings;
  events_views_set_funcs (coord->views, on_fenced, on_gap, coord);
  coord->arena = events_arena_new (config->max_body_bytes * 8);
  coord->instances = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, NULL, instance_free);
  g_queue_init (&coord->order);
  coord->requests = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, figures_free);
  coord->offsets = g_array_new (FALSE, FALSE, sizeof (EventsKafkaOffset));
  g_array_set_clear_func (coord->offsets, offset_clear);
  coord->client = coord_client_new ();
  coord->start_ns = g_get_monotonic_time () * 1000;
  return coord;
}

void
coord_free (Coord *coord)
{
  coord_state_stop_timers (coord);
  coord_source_stop (coord);
  coord_server_free (coord->server);
  coord_client_free (coord->client);
  coord_instances_clear (coord);
  g_hash_table_unref (coord->instances);
  g_hash_table_unref (coord->requests);
  g_array_unref (coord->offsets);
  events_arena_free (coord->arena);
  events_views_free (coord->views);
  if (coord->token != NULL)
    explicit_bzero (coord->token, coord->token_len);
  g_free (coord->token);
  g_free (coord);
}

/* -------- start -------- */

static gboolean
read_token (Coord *coord, GError **error)
{
  const char *path = coord->config->token_file;
  if (path == NULL)
    return TRUE;
  coord->token = events_files_read_token (path, error);
  if (coord->token == NULL)
    {
      g_prefix_error (error, "--token-file: ");
      return FALSE;
    }
  coord->token_len = strlen (coord->token);
  return TRUE;
}

static gboolean
tell_ready (const LmtCommandContext *context, Coord *coord, GError **error)
{
  const char *url = coord_server_url (coord->server);
  g_autofree char *line = g_strdup_printf ("%s\n", url);
  g_autofree char *text = g_strdup_printf ("lmtrace coordinator: listening on %s\n", url);
  int fd = (int)coord->config->ready_fd;

  if (fd >= 0)
    {
      gboolean written = write (fd, line, strlen (line)) == (gssize)strlen (line);
      close (fd);
      if (!written)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                       "--ready-fd %d: expected a descriptor that can be written to, found none", fd);
          return FALSE;
        }
    }
  if (lmt_output_get_format (context->output) != LMT_FORMAT_TEXT || lmt_output_is_quiet (context->output))
    {
      g_message ("Listening on %s", url);
      return TRUE;
    }
  return lmt_output_stdout (text, -1, error);
}

static gboolean
start (const LmtCommandContext *context, Coord *coord, GError **error)
{
  const CoordConfig *config = coord->config;
  const char *const files[] = { config->checkpoint_path, config->metadata_path };

  if (!read_token (coord, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      struct stat info;
      if (files[i] == NULL || files[i][0] == '\0')
        continue;
      if (!lmt_output_check_path (files[i], error))
        return FALSE;
      /* They are renamed to their place: /dev/null would be a file afterwards. */
      if (stat (files[i], &info) == 0 && !S_ISREG (info.st_mode))
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a file, found a device or another kind", files[i]);
          return FALSE;
        }
    }
  coord_state_load (coord);
  coord->server = coord_server_new (coord, error);
  if (coord->server == NULL || !coord_source_start (coord, error))
    return FALSE;
  coord_state_start_timers (coord);
  if (coord->compat != EVENTS_COMPAT_STRICT)
    g_info (
        "As in LMCache, a fence removes shared L1 placements from the directory and not from usage; --compat strict keeps both");
  return tell_ready (context, coord, error);
}

/* -------- loop and end -------- */

static gboolean
wake (gpointer data)
{
  return G_SOURCE_CONTINUE;
}

static gboolean
idle_for_too_long (Coord *coord)
{
  gint64 limit = coord->config->exit_after_idle_ns;
  return limit > 0 && coord_server_n_busy (coord->server) == 0 && coord_client_n_open (coord->client) == 0
         && g_get_monotonic_time () * 1000 - coord_server_last_activity_ns (coord->server) > limit;
}

/* Requests under way are answered; a second signal doesn't wait for them. */
static void
finish_requests (const LmtCommandContext *context, Coord *coord)
{
  gint64 until_us = g_get_monotonic_time () + FINISH_MS * G_GINT64_CONSTANT (1000);

  coord_server_stop_listening (coord->server);
  while (coord_server_n_busy (coord->server) > 0 && g_get_monotonic_time () < until_us
         && g_atomic_int_get (context->interrupts) < 2)
    g_main_context_iteration (NULL, TRUE);
}

static int
report (const LmtCommandContext *context, Coord *coord, int code, GError **error)
{
  g_autoptr (LmtReport) text = lmt_report_new ("Coordinator", LMT_REPORT_WIDTH);
  LmtSection *section = lmt_report_add_section (text, NULL, NULL, TRUE);
  EventsStats stats;

  events_views_stats (coord->views, &stats);
  lmt_section_add_string (section, "address", "Address", coord_server_url (coord->server));
  lmt_section_add_int (section, "requests", "Requests", (gint64)coord->n_requests);
  lmt_section_add_int (section, "applied", "Batches applied", (gint64)coord->counts.applied);
  lmt_section_add_int (section, "duplicates", "Batches duplicate", (gint64)coord->counts.duplicates);
  lmt_section_add_int (section, "stale", "Batches stale", (gint64)coord->counts.stale);
  lmt_section_add_int (section, "keys", "Keys", (gint64)stats.num_keys);
  lmt_section_add_int (section, "placements", "Placements", (gint64)stats.num_placements);
  lmt_section_add_int (section, "instances", "Registered servers", (gint64)g_hash_table_size (coord->instances));
  lmt_section_add_double (section, "duration_s", "Duration (s)",
                          (double)(g_get_monotonic_time () * 1000 - coord->start_ns) / 1e9);
  if (!lmt_output_report (context->output, text, NULL, FALSE, code, error))
    return 1;
  return code;
}

static int
coordinator_run (const LmtCommandContext *context, GError **error)
{
  CoordConfig config = *(const CoordConfig *)context->config;
  Coord *coord;
  guint timer;
  int code = 2;

  if (config.unix_path != NULL && !lmt_options_is_set (context->options, "host")
      && !lmt_options_is_set (context->options, "port"))
    config.host = NULL;
  lmt_options_warn_no_effect (context->options, context->warnings);
  coord = coord_new (&config, context->warnings);
  timer = g_timeout_add (LOOK_EVERY_MS, wake, NULL);
  if (start (context, coord, error))
    {
      g_autoptr (GError) why = NULL;
      while (g_atomic_int_get (context->interrupts) == 0 && !idle_for_too_long (coord))
        coord_server_turn (coord->server);
      finish_requests (context, coord);
      coord_source_stop (coord);
      code = 0;
      if (config.checkpoint_path != NULL && config.checkpoint_path[0] != '\0' && !coord_state_checkpoint (coord, &why))
        {
          g_warning ("The checkpoint could not be written: %s", why->message);
          code = 1;
        }
      code = report (context, coord, code, error);
    }
  g_source_remove (timer);
  coord_free (coord);
  return code;
}

static const char *const examples[] = {
  "lmtrace coordinator &",
  "lmtrace coordinator --port 0 --checkpoint-path views.ckpt",
  "lmtrace coordinator --host :: --tls-cert c.pem --tls-key k.pem",
  NULL,
};

static const LmtCommandOps coordinator_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (CoordConfig),
  .name = "coordinator",
  .summary = "Take cache events of a fleet and answer where keys are, as LMCache's coordinator does",
  .synopsis = "[OPTIONS]",
  .examples = examples,
  .options = coord_options,
  .run = coordinator_run,
  .more_text
  = "Servers of LMCache and `lmtrace replay-events` register, send batches of cache events and ask by HTTP; endpoints, status "
    "codes and\n"
    "bodies are those of the release that --compat names. GET /openapi.json lists them, /docs shows them.\n"
    "\n"
    "Beside them: GET /lmtrace/streams (how far each server's stream has come), POST /lmtrace/checkpoint (write it now), POST\n"
    "/lmtrace/reset (forget streams, views and registered servers; pins and quotas stay), GET /lmtrace/dump (all views in "
    "canonical\n"
    "order). GET /metrics has LMCache's names and lmtrace_coordinator_*. One pass over a batch serves all views: its time is "
    "shown in\n"
    "equal shares where LMCache's metric has one of each consumer.\n"
    "\n"
    "As at LMCache's coordinator, DELETE /instances/ID forgets the stream of any ID, registered or not; a salt called config "
    "can't be\n"
    "asked about; _default is the empty salt. Ids with a slash don't fit into a path.\n"
    "\n"
    "While a single client sends its next request within 0.2 ms of a reply, the coordinator waits for it without giving up the "
    "processor.\n"
    "\n"
    "A checkpoint or metadata file that can't be read, or not all of it, means a start without; it is kept as PATH.unread.\n\n"
    "SIGTERM and SIGINT end it: requests under way are answered, the checkpoint is written, exit 0.",
};

static gboolean
coordinator_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_command (registrar, &coordinator_ops, error);
}

LMT_PLUGIN_DEFINE ("cmd-coordinator", LMT_VERSION, "Apache-2.0", "A coordinator for cache events", coordinator_load, NULL)
