// SPDX-License-Identifier: Apache-2.0
/* Writing a checkpoint: the reference's file (events.md 11), with one section of our own. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* pipe2() */
#endif
#include "events-views-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <lmtrace/lmt-pack.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum
{
  BUFFER = 1 << 18,
};

typedef struct
{
  LmtPack pack; /* first: what grow() is handed is this */
  int fd;
  int problem; /* errno */
} Out;

static gboolean
flush (Out *out)
{
  for (gsize done = 0; done < out->pack.len && out->problem == 0;)
    {
      const gssize n = write (out->fd, out->pack.data + done, out->pack.len - done);
      if (n > 0)
        done += (gsize)n;
      else if (n < 0 && errno != EINTR)
        out->problem = errno;
    }
  out->pack.len = 0;
  return out->problem == 0;
}

/* Room by writing what is there; a string longer than the buffer makes it longer. */
static gboolean
make_room (LmtPack *pack, gsize need)
{
  Out *out = (Out *)pack;

  if (!flush (out))
    return FALSE;
  if (need > pack->max)
    {
      pack->data = g_realloc (pack->data, need);
      pack->max = need;
    }
  return TRUE;
}

static void
put_text (LmtPack *pack, LmtSpan text)
{
  lmt_pack_str (pack, (const char *)text.data, text.len);
}

static void
put_tier (LmtPack *pack, guint32 tier)
{
  lmt_pack_str (pack, events_tier_words[tier], 2);
}

static void
put_key (EventsViews *views, LmtPack *pack, guint32 number)
{
  EventsKey key;

  events_key_fill (views, number, &key);
  lmt_pack_array (pack, 5);
  lmt_pack_bin (pack, key.hash.data, key.hash.len);
  put_text (pack, key.model);
  lmt_pack_int (pack, key.kv_rank);
  lmt_pack_int (pack, key.group);
  put_text (pack, key.salt);
}

/* ---- sections ---- */

typedef struct
{
  LmtPack *pack;
  guint32 n;
  gboolean old;
} Streams;

static void
count_cursor (const EventsStream *stream, gpointer data)
{
  ((Streams *)data)->n += stream->known;
}

static void
put_cursor (const EventsStream *stream, gpointer data)
{
  const Streams *streams = data;

  if (!stream->known)
    return;
  put_text (streams->pack, stream->instance);
  lmt_pack_array (streams->pack, streams->old ? 3 : 4);
  lmt_pack_int (streams->pack, stream->incarnation);
  lmt_pack_int (streams->pack, stream->last_seq);
  lmt_pack_bool (streams->pack, stream->gap != 0);
  if (streams->old)
    return;
  if (stream->last_dropped >= 0)
    lmt_pack_int (streams->pack, stream->last_dropped);
  else
    lmt_pack_nil (streams->pack);
}

static void
put_cursors (EventsViews *views, LmtPack *pack)
{
  Streams streams = { .pack = pack, .old = views->config.compat == EVENTS_COMPAT_056 };

  events_gate_foreach (views->gate, count_cursor, &streams);
  LMT_PACK_LITERAL (pack, "stream_cursors");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "cursors");
  lmt_pack_map (pack, streams.n);
  events_gate_foreach (views->gate, put_cursor, &streams);
}

/* What the reference has no place for: departed streams, and losses. */
static void
put_stream (const EventsStream *stream, gpointer data)
{
  LmtPack *pack = ((const Streams *)data)->pack;

  lmt_pack_array (pack, 10);
  put_text (pack, stream->instance);
  lmt_pack_bool (pack, stream->known != 0);
  lmt_pack_int (pack, stream->incarnation);
  lmt_pack_int (pack, stream->last_seq);
  lmt_pack_bool (pack, stream->gap != 0);
  lmt_pack_bool (pack, stream->departed != 0);
  lmt_pack_int (pack, stream->departed_incarnation);
  lmt_pack_uint (pack, stream->missing);
  lmt_pack_uint (pack, stream->dropped);
  lmt_pack_int (pack, stream->last_dropped);
}

static void
put_own (EventsViews *views, LmtPack *pack)
{
  Streams streams = { .pack = pack };

  LMT_PACK_LITERAL (pack, "lmtrace");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "streams");
  lmt_pack_array (pack, events_gate_n_streams (views->gate));
  events_gate_foreach (views->gate, put_stream, &streams);
}

static void
put_placement (EventsViews *views, LmtPack *pack, const EventsItem *item)
{
  const EventsOrigin *origin = &views->origins.at[item->origin];

  lmt_pack_array (pack, 6);
  put_text (pack, events_names_get (&views->instance_names, origin->instance));
  lmt_pack_int (pack, origin->incarnation);
  put_tier (pack, origin->tier);
  put_text (pack, events_names_get (&views->backend_names, views->seats.at[origin->seat].backend));
  lmt_pack_int (pack, item->size_bytes);
  lmt_pack_bool (pack, origin->shared != 0);
}

static void
put_directory_keys (EventsViews *views, LmtPack *pack)
{
  LMT_PACK_LITERAL (pack, "keys");
  lmt_pack_array (pack, (guint32)views->num_keys);
  for (guint64 at = 1; at < views->order_n; at++)
    {
      const EventsKeyRecord *key = &views->keys.at[views->order[at]];
      guint32 n = 0;
      for (guint32 i = key->items; i != 0; i = views->items.at[i].next)
        n += (views->items.at[i].flags & EVENTS_ITEM_DIRECTORY) != 0;
      lmt_pack_array (pack, 4);
      put_key (views, pack, views->order[at]);
      lmt_pack_double (pack, key->last_access);
      lmt_pack_int (pack, key->accesses);
      lmt_pack_array (pack, n);
      for (guint32 i = key->items; i != 0; i = views->items.at[i].next)
        if (views->items.at[i].flags & EVENTS_ITEM_DIRECTORY)
          put_placement (views, pack, &views->items.at[i]);
    }
}

static void
put_tokens (LmtPack *pack, const EventsContent *content)
{
  const gsize bytes = (gsize)content->n * sizeof (guint32);

  if (bytes <= G_MAXUINT8)
    lmt_pack_head (pack, 0xc4, bytes, 1);
  else
    lmt_pack_head (pack, bytes <= G_MAXUINT16 ? 0xc5 : 0xc6, bytes, bytes <= G_MAXUINT16 ? 2 : 4);
  for (guint32 i = 0; i < content->n; i++)
    {
      const guint32 token = GUINT32_TO_LE (content->tokens[i]);
      lmt_pack_raw (pack, &token, sizeof token);
    }
}

static void
put_bindings (EventsViews *views, LmtPack *pack)
{
  LMT_PACK_LITERAL (pack, "bindings");
  lmt_pack_array (pack, (guint32)views->num_bindings);
  for (guint32 i = 1; i < views->chunks.n; i++)
    {
      const EventsChunk *chunk = &views->chunks.at[i];
      const EventsContent *content = &views->contents.at[chunk->content];
      const LmtSpan hash = events_chunk_hash (chunk);
      if (chunk->n_listed == 0)
        continue;
      lmt_pack_array (pack, 3);
      lmt_pack_bin (pack, hash.data, hash.len);
      lmt_pack_int (pack, chunk->content != 0 ? content->offset : -1);
      put_tokens (pack, content);
    }
}

/* The first of a key's items that stand in the same index speaks for it. */
static gboolean
speaks (const EventsViews *views, guint32 instance, guint32 item)
{
  const guint32 key = views->items.at[item].key;

  return views->keys.at[key].order != 0 && events_views_index_item_of (views, key, instance, 0) == item;
}

static void
count_instance (LmtSpan id, guint64 keys, gpointer data)
{
  (void)id;
  (void)keys;
  ++*(guint32 *)data;
}

typedef struct
{
  EventsViews *views;
  LmtPack *pack;
} Index;

static void
put_index_of (LmtSpan id, guint64 held, gpointer data)
{
  EventsViews *views = ((const Index *)data)->views;
  LmtPack *pack = ((const Index *)data)->pack;
  guint32 number, keys = 0;
  const EventsInstance *instance = events_instance_find (views, id, &number);

  (void)held; /* some of them may be gone from the directory */
  for (guint32 item = instance->first_item; item != 0; item = views->items.at[item].index_next)
    keys += speaks (views, number, item);
  put_text (pack, id);
  lmt_pack_array (pack, keys);
  for (guint32 item = instance->first_item; item != 0; item = views->items.at[item].index_next)
    if (speaks (views, number, item))
      lmt_pack_uint (pack, views->keys.at[views->items.at[item].key].order - 1);
}

static void
put_index (EventsViews *views, LmtPack *pack)
{
  Index index = { views, pack };
  guint32 n = 0;

  events_views_l1_keys (views, count_instance, &n);
  LMT_PACK_LITERAL (pack, "l1_keys_by_instance");
  lmt_pack_map (pack, n);
  events_views_l1_keys (views, put_index_of, &index);
}

static void
put_usage (EventsViews *views, LmtPack *pack)
{
  guint32 n = 0;

  for (guint32 i = 1; i < views->items.n; i++)
    n += (views->items.at[i].flags & EVENTS_ITEM_USAGE) != 0;
  LMT_PACK_LITERAL (pack, "cache_usage");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "placements");
  lmt_pack_array (pack, n);
  for (guint32 i = 1; i < views->items.n; i++)
    {
      const EventsItem *item = &views->items.at[i];
      const EventsOrigin *origin = &views->origins.at[item->origin];
      if (!(item->flags & EVENTS_ITEM_USAGE))
        continue;
      lmt_pack_array (pack, 5);
      put_tier (pack, origin->tier);
      put_key (views, pack, item->key);
      put_text (pack, origin->shared ? (LmtSpan){ NULL, 0 } : events_names_get (&views->instance_names, origin->instance));
      put_text (pack, events_names_get (&views->backend_names, views->seats.at[origin->seat].backend));
      lmt_pack_int (pack, item->size_bytes);
    }
}

static void
put_declarations (EventsViews *views, LmtPack *pack)
{
  guint32 n = 0;

  for (guint32 i = 1; i < views->instances.allocated; i++)
    n += views->instances.at[i].declared != NULL;
  LMT_PACK_LITERAL (pack, "server_config");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "declarations");
  lmt_pack_array (pack, n);
  for (guint32 i = 1; i < views->instances.allocated; i++)
    {
      const EventsInstance *instance = &views->instances.at[i];
      if (instance->declared == NULL)
        continue;
      lmt_pack_array (pack, 4);
      put_text (pack, events_names_get (&views->instance_names, i));
      lmt_pack_int (pack, instance->stamp_incarnation);
      lmt_pack_int (pack, instance->stamp_revision);
      lmt_pack_array (pack, instance->declared->len);
      for (guint d = 0; d < instance->declared->len; d++)
        {
          const EventsDeclared *each = &g_array_index (instance->declared, EventsDeclared, d);
          lmt_pack_array (pack, 4);
          put_tier (pack, each->tier);
          put_text (pack, events_names_get (&views->backend_names, each->backend));
          lmt_pack_int (pack, each->capacity_bytes);
          lmt_pack_bool (pack, each->shared != 0);
        }
    }
}

static void
put_lru (EventsViews *views, LmtPack *pack)
{
  guint32 n = 0;

  for (guint32 i = 1; i < views->salts.allocated; i++)
    n += views->salts.at[i].lru_n > 0;
  LMT_PACK_LITERAL (pack, "lru_order");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "buckets");
  lmt_pack_map (pack, n);
  for (guint32 i = 1; i < views->salts.allocated; i++)
    {
      const EventsSalt *salt = &views->salts.at[i];
      if (salt->lru_n == 0)
        continue;
      put_text (pack, events_names_get (&views->salt_names, i));
      lmt_pack_array (pack, (guint32)salt->lru_n);
      for (guint32 key = salt->lru_first; key != 0; key = views->links[key].next)
        put_key (views, pack, key);
    }
}

static void
put_offsets (const GArray *offsets, LmtPack *pack)
{
  LMT_PACK_LITERAL (pack, "kafka_stream_position");
  lmt_pack_map (pack, 1);
  LMT_PACK_LITERAL (pack, "offsets");
  lmt_pack_array (pack, offsets->len);
  for (guint i = 0; i < offsets->len; i++)
    {
      const EventsKafkaOffset *each = &g_array_index (offsets, EventsKafkaOffset, i);
      lmt_pack_array (pack, 3);
      lmt_pack_str (pack, each->topic, strlen (each->topic));
      lmt_pack_int (pack, each->partition);
      lmt_pack_int (pack, each->offset);
    }
}

static void
put_all (EventsViews *views, const GArray *offsets, LmtPack *pack)
{
  static const guint8 head[12] = { 'L', 'M', 'C', 'K', 'P', 'T', 0, 0, 1, 0, 0, 0 };
  const gboolean kafka = offsets != NULL && offsets->len > 0;

  lmt_pack_raw (pack, head, sizeof head);
  lmt_pack_map (pack, 5u + (views->links != NULL) + (kafka ? 1 : 0));
  put_cursors (views, pack);
  LMT_PACK_LITERAL (pack, "key_directory");
  lmt_pack_map (pack, 3);
  events_views_squeeze (views);
  put_directory_keys (views, pack);
  put_bindings (views, pack);
  put_index (views, pack);
  put_usage (views, pack);
  put_declarations (views, pack);
  if (views->links != NULL)
    put_lru (views, pack);
  if (kafka)
    put_offsets (offsets, pack);
  put_own (views, pack);
}

/* ---- the file ---- */

typedef struct
{
  gint32 problem; /* errno; 0: written */
  gint32 replacing;
} Outcome;

/* No lock, no GObject, and memory only where a string is longer than @buffer: what a forked process of a program with threads may
 * do. */
static Outcome
write_file (EventsViews *views, const GArray *offsets, const char *temporary, const char *path, guint8 *buffer)
{
  Out out = { .fd = open (temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) };

  if (out.fd < 0)
    {
      g_free (buffer);
      return (Outcome){ errno, FALSE };
    }
  lmt_pack_init_fixed (&out.pack, buffer, BUFFER);
  out.pack.grow = make_room;
  put_all (views, offsets, &out.pack);
  flush (&out);
  if (out.problem == 0 && fsync (out.fd) < 0)
    out.problem = errno;
  if (close (out.fd) < 0 && out.problem == 0)
    out.problem = errno;
  g_free (out.pack.data);
  if (out.problem == 0 && rename (temporary, path) == 0)
    return (Outcome){ 0, FALSE };
  const Outcome outcome = { out.problem != 0 ? out.problem : errno, out.problem == 0 };
  (void)unlink (temporary);
  return outcome;
}

static gboolean
tell (Outcome outcome, const char *path, GError **error)
{
  if (outcome.problem == 0)
    return TRUE;
  g_set_error (error, G_FILE_ERROR, (gint)g_file_error_from_errno (outcome.problem), "%s%s: cannot %s: %s", path,
               outcome.replacing ? "" : ".tmp", outcome.replacing ? "replace" : "write", g_strerror (outcome.problem));
  return FALSE;
}

static char *
prepare (const char *path)
{
  g_autofree char *folder = g_path_get_dirname (path);

  (void)g_mkdir_with_parents (folder, 0777); /* open() says what is wrong */
  return g_strconcat (path, ".tmp", NULL);
}

gboolean
events_checkpoint_write (EventsViews *views, GArray *offsets, const char *path, GError **error)
{
  g_autofree char *temporary = prepare (path);

  return tell (write_file (views, offsets, temporary, path, g_malloc (BUFFER)), path, error);
}

/* ---- the same, written by a process of its own ---- */

struct _EventsCheckpointChild
{
  pid_t pid;
  int fd; /* what it says comes here */
  char *path;
};

/* Sockets of the parent: it may end before its child and be started again. */
static void
close_others (int keep)
{
#ifdef SYS_close_range
  if (syscall (SYS_close_range, 3u, (guint)keep - 1, 0u) == 0 || keep == 3)
    if (syscall (SYS_close_range, (guint)keep + 1, G_MAXUINT, 0u) == 0)
      return;
#endif
  const glong most = sysconf (_SC_OPEN_MAX);
  for (int fd = 3; fd < CLAMP (most, 1024, 1 << 16); fd++)
    if (fd != keep)
      (void)close (fd);
}

void
events_child_begin (int keep, pid_t parent)
{
  /* A coordinator that was started again writes the same file. */
  (void)prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (getppid () != parent)
    _exit (1);
  close_others (keep);
}

static void G_GNUC_NORETURN
be_child (EventsViews *views, const GArray *offsets, const char *temporary, const char *path, guint8 *buffer, int fd,
          pid_t parent)
{
  events_child_begin (fd, parent);
  const Outcome outcome = write_file (views, offsets, temporary, path, buffer);
  _exit (write (fd, &outcome, sizeof outcome) == sizeof outcome && outcome.problem == 0 ? 0 : 1);
}

EventsCheckpointChild *
events_checkpoint_start (EventsViews *views, GArray *offsets, const char *path)
{
  g_autofree char *temporary = prepare (path);
  guint8 *buffer = g_malloc (BUFFER);
  const pid_t parent = getpid ();
  sigset_t all, before;
  int pipe_fds[2];
  pid_t pid = -1;

  if (pipe2 (pipe_fds, O_CLOEXEC) == 0)
    {
      sigfillset (&all); /* signals to the group are the parent's affair */
      pthread_sigmask (SIG_SETMASK, &all, &before);
      pid = fork ();
      if (pid == 0)
        be_child (views, offsets, temporary, path, buffer, pipe_fds[1], parent);
      pthread_sigmask (SIG_SETMASK, &before, NULL);
      close (pipe_fds[1]);
      if (pid < 0)
        close (pipe_fds[0]);
    }
  g_free (buffer);
  if (pid < 0)
    return NULL;
  EventsCheckpointChild *child = g_new0 (EventsCheckpointChild, 1);
  *child = (EventsCheckpointChild){ .pid = pid, .fd = pipe_fds[0], .path = g_strdup (path) };
  return child;
}

int
events_checkpoint_child_fd (const EventsCheckpointChild *child)
{
  return child->fd;
}

static void
free_child (EventsCheckpointChild *child)
{
  while (waitpid (child->pid, NULL, 0) < 0 && errno == EINTR)
    continue;
  close (child->fd);
  g_free (child->path);
  g_free (child);
}

gboolean
events_checkpoint_finish (EventsCheckpointChild *child, GError **error)
{
  Outcome outcome;
  gssize n;
  gboolean written;

  while ((n = read (child->fd, &outcome, sizeof outcome)) < 0 && errno == EINTR)
    continue;
  written = n == sizeof outcome && tell (outcome, child->path, error);
  if (n != sizeof outcome)
    g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: the process that was writing it ended before it was done",
                 child->path);
  free_child (child);
  return written;
}

void
events_checkpoint_abandon (EventsCheckpointChild *child)
{
  if (child == NULL)
    return;
  g_autofree char *temporary = g_strconcat (child->path, ".tmp", NULL);
  (void)kill (child->pid, SIGKILL);
  free_child (child);
  (void)g_unlink (temporary);
}
