// SPDX-License-Identifier: Apache-2.0
/* Files: the checkpoint of views and streams, the metadata of pins and quotas; and the timers of all background work. */
#include "coord.h"

#include <errno.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <unistd.h>

enum
{
  BLOCKED_EVERY_MS = 500, /* how often the loop is asked whether it comes late */
};

/* What couldn't be read, or not all of it, is kept beside the file that is written next: it may be a later release's, or
 * somebody's who mistook the name. */
static void
keep_unread (const char *what, const char *path)
{
  g_autofree char *kept = g_strconcat (path, ".unread", NULL);
  GStatBuf info;

  if (g_stat (path, &info) != 0 || !S_ISREG (info.st_mode) || info.st_size == 0)
    return;
  g_unlink (kept);
  if (link (path, kept) == 0)
    g_warning ("%s %s: kept as %s", what, path, kept);
  else
    g_warning ("%s %s: cannot be kept as %s: %s", what, path, kept, g_strerror (errno));
}

static void
note_read (const char *what, const char *path, char *note, gboolean read)
{
  if (read)
    g_message ("%s %s: read", what, path);
  if (note != NULL)
    {
      g_warning ("%s %s: %s", what, path, note);
      keep_unread (what, path);
    }
  g_free (note);
}

/* A file that isn't there, or that can't be used, means a cold start, never a failure. */
void
coord_state_load (Coord *coord)
{
  const char *checkpoint = coord->config->checkpoint_path, *metadata = coord->config->metadata_path;
  char *note = NULL;

  if (checkpoint != NULL && checkpoint[0] != '\0' && g_file_test (checkpoint, G_FILE_TEST_EXISTS))
    {
      gboolean read = events_checkpoint_read (coord->views, coord->offsets, checkpoint, &note);
      note_read ("Checkpoint", checkpoint, g_steal_pointer (&note), read);
    }
  if (metadata != NULL && metadata[0] != '\0' && g_file_test (metadata, G_FILE_TEST_EXISTS))
    {
      gboolean read = events_metadata_read (coord->views, metadata, &note);
      note_read ("Metadata", metadata, g_steal_pointer (&note), read);
    }
}

static gboolean
note_checkpoint (Coord *coord, gboolean written)
{
  coord->checkpoint.passes++;
  if (written)
    coord->checkpoint.last_success = (double)g_get_real_time () / 1e6;
  else
    coord->checkpoint.failed++;
  return written;
}

void
coord_state_abandon (Coord *coord)
{
  g_clear_handle_id (&coord->checkpoint_watch, g_source_remove);
  g_clear_pointer (&coord->checkpoint_child, events_checkpoint_abandon);
}

/* In line: what is asked for or is the last one has to be there afterwards. */
gboolean
coord_state_checkpoint (Coord *coord, GError **error)
{
  coord_state_abandon (coord); /* it would be older */
  return note_checkpoint (coord, events_checkpoint_write (coord->views, coord->offsets, coord->config->checkpoint_path, error));
}

void
coord_state_save_metadata (Coord *coord)
{
  const char *path = coord->config->metadata_path;
  g_autoptr (GError) error = NULL;

  if (path != NULL && path[0] != '\0' && !events_metadata_write (coord->views, path, &error))
    g_warning ("Metadata could not be saved: %s", error->message);
}

/* -------- timers -------- */

static void
note_pass (CoordLoop *loop)
{
  loop->passes++;
  loop->last_success = (double)g_get_real_time () / 1e6;
}

static gboolean
on_sweep (gpointer data)
{
  Coord *coord = data;
  coord_instances_sweep (coord);
  note_pass (&coord->sweep);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_evict (gpointer data)
{
  Coord *coord = data;
  coord_evict_pass (coord);
  note_pass (&coord->evict);
  return G_SOURCE_CONTINUE;
}

/* A request for a checkpoint, until it is written. */
typedef struct
{
  Coord *coord;
  CoordRequest *request;
} CheckpointWait;

static void answer_waits (Coord *coord, const GError *error);

static gboolean
on_checkpoint_done (gint fd, GIOCondition condition, gpointer data)
{
  Coord *coord = data;
  g_autoptr (GError) error = NULL;

  (void)fd;
  (void)condition;
  coord->checkpoint_watch = 0;
  if (!note_checkpoint (coord, events_checkpoint_finish (g_steal_pointer (&coord->checkpoint_child), &error)))
    g_warning ("The checkpoint could not be written: %s", error->message);
  answer_waits (coord, error);
  return G_SOURCE_REMOVE;
}

static gboolean
start_child (Coord *coord)
{
  coord->checkpoint_child = events_checkpoint_start (coord->views, coord->offsets, coord->config->checkpoint_path);
  if (coord->checkpoint_child == NULL)
    return FALSE;
  coord->checkpoint_watch
      = g_unix_fd_add (events_checkpoint_child_fd (coord->checkpoint_child), G_IO_IN | G_IO_HUP, on_checkpoint_done, coord);
  return TRUE;
}

/* Nobody waits any more. */
static void
forget_wait (gpointer job)
{
  CheckpointWait *wait = job;

  for (guint i = 0; i < 2; i++)
    g_queue_remove (&wait->coord->checkpoint_waits[i], wait);
  g_free (wait);
}

static void
answer (Coord *coord, GQueue *waits, const GError *error)
{
  GQueue now = *waits;
  CheckpointWait *wait;

  g_queue_init (waits);
  while ((wait = g_queue_pop_head (&now)) != NULL)
    {
      CoordRequest *request = wait->request;
      request->job = NULL;
      g_free (wait);
      coord_api_checkpoint_done (coord, request, error);
    }
}

/* Whoever waited for the one that is done. Those that came meanwhile want what they had sent before in it, too: the next one. */
static void
answer_waits (Coord *coord, const GError *error)
{
  g_autoptr (GError) inline_error = NULL;

  answer (coord, &coord->checkpoint_waits[0], error);
  coord->checkpoint_waits[0] = coord->checkpoint_waits[1];
  g_queue_init (&coord->checkpoint_waits[1]);
  if (coord->checkpoint_waits[0].length == 0 || start_child (coord))
    return;
  coord_state_checkpoint (coord, &inline_error);
  answer (coord, &coord->checkpoint_waits[0], inline_error);
}

gboolean
coord_state_checkpoint_for (Coord *coord, CoordRequest *request)
{
  const guint which = coord->checkpoint_child != NULL;

  if (coord->checkpoint_child == NULL && !start_child (coord))
    return FALSE;
  CheckpointWait *wait = g_new0 (CheckpointWait, 1);
  *wait = (CheckpointWait){ coord, request };
  g_queue_push_tail (&coord->checkpoint_waits[which], wait);
  request->deferred = 1;
  request->job = wait;
  request->cancel = forget_wait;
  return TRUE;
}

/* A process of its own writes it, so that nobody waits for the disk; one that still writes is left to it. */
static gboolean
on_checkpoint (gpointer data)
{
  Coord *coord = data;
  g_autoptr (GError) error = NULL;

  if (coord->checkpoint_child != NULL)
    return G_SOURCE_CONTINUE;
  if (!start_child (coord) && !coord_state_checkpoint (coord, &error))
    g_warning ("The checkpoint could not be written: %s", error->message);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_blocked (gpointer data)
{
  Coord *coord = data;
  gint64 now_ns = g_get_monotonic_time () * 1000;

  if (coord->blocked_due_ns != 0 && now_ns > coord->blocked_due_ns)
    coord->blocked_ns += now_ns - coord->blocked_due_ns;
  coord->blocked_due_ns = now_ns + BLOCKED_EVERY_MS * G_GINT64_CONSTANT (1000000);
  return G_SOURCE_CONTINUE;
}

static guint
every (gint64 interval_ns, GSourceFunc func, Coord *coord)
{
  if (interval_ns <= 0)
    return 0;
  return g_timeout_add ((guint)CLAMP (interval_ns / 1000000, 1, (gint64)G_MAXUINT), func, coord);
}

void
coord_state_start_timers (Coord *coord)
{
  const CoordConfig *config = coord->config;

  coord->sweep_timer = every (config->health_check_interval_ns, on_sweep, coord);
  coord->evict_timer = every (config->eviction_check_interval_ns, on_evict, coord);
  if (config->checkpoint_path != NULL && config->checkpoint_path[0] != '\0')
    coord->checkpoint_timer = every (config->checkpoint_interval_ns, on_checkpoint, coord);
  coord->blocked_timer = g_timeout_add (BLOCKED_EVERY_MS, on_blocked, coord);
}

void
coord_state_stop_timers (Coord *coord)
{
  guint *timers[] = { &coord->sweep_timer, &coord->evict_timer, &coord->checkpoint_timer, &coord->blocked_timer };
  for (guint i = 0; i < G_N_ELEMENTS (timers); i++)
    g_clear_handle_id (timers[i], g_source_remove);
  coord_state_abandon (coord);
}
