/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that records calls of its own: `cc record.c $(pkg-config --cflags --libs lmtrace-1) -o record && ./record out.lct`,
 * then `lmtrace info out.lct`. The same file is C++.
 */
#include <stdio.h>
#include <string.h>

#include <lmtrace/lmtrace.h>

enum
{
  CALL_PUT = 0,
  CALL_GET,
  CALL_MOVE,
  N_CALLS
};

/* CALL_PUT: the caller copies a struct, the drain thread makes msgpack of it later. */
typedef struct
{
  guint64 size_bytes;
  guint32 key_len;
  guint32 reserved;
  /* the key's bytes follow */
} PutCopy;

static gboolean
encode_put (gconstpointer copy, gsize len, guint32 schema, LmtPack *out)
{
  PutCopy put;

  (void)len;
  (void)schema;
  memcpy (&put, copy, sizeof put);
  lmt_pack_map (out, 2);
  LMT_PACK_LITERAL (out, "key");
  lmt_pack_bin (out, (const guint8 *)copy + sizeof put, put.key_len);
  LMT_PACK_LITERAL (out, "size_bytes");
  lmt_pack_uint (out, put.size_bytes);
  return TRUE;
}

/* CALL_GET and CALL_MOVE: values by name, ready when they are published. */
static const char *const get_arguments[] = { "key", "wait_s", NULL };
static const char *const move_arguments[] = { "from", "to", "tries", NULL };

static const LmtTraceCall calls[N_CALLS] = {
  { "demo.store.put", NULL, encode_put, { NULL, NULL, NULL } },
  { "demo.store.get", get_arguments, NULL, { NULL, NULL, NULL } },
  { "demo.store.move", move_arguments, NULL, { NULL, NULL, NULL } },
};

static LmtTraceLevel demo_level = LMT_TRACE_LEVEL_INIT ("demo", calls, N_CALLS);

/* ---- the program's own functions: each begins with a look at the gate, one load while nobody records ---- */

static void
store_put (const void *key, guint32 key_len, guint64 size_bytes)
{
  if (lmt_trace_is_on (&demo_level))
    {
      gsize bytes = sizeof (PutCopy) + key_len;
      guint8 *room = (guint8 *)lmt_recorder_begin (&demo_level, CALL_PUT, bytes);

      if (room != NULL)
        {
          PutCopy put = { size_bytes, key_len, 0 };

          memcpy (room, &put, sizeof put);
          memcpy (room + sizeof put, key, key_len);
          lmt_recorder_commit (&demo_level, bytes);
        }
    }
  /* … what a put does */
}

static void
store_get (const void *key, gsize key_len, double wait_s)
{
  if (lmt_trace_is_on (&demo_level))
    {
      LmtTraceValue values[2];

      memset (values, 0, sizeof values);
      values[0].kind = LMT_TRACE_BIN;
      values[0].v.data = key;
      values[0].len = key_len;
      values[1].kind = LMT_TRACE_DOUBLE;
      values[1].v.d = wait_s;
      lmt_recorder_publish_values (&demo_level, CALL_GET, values, 2);
    }
  /* … what a get does */
}

static void
store_move (const char *from, const char *to, gint64 tries)
{
  if (lmt_trace_is_on (&demo_level))
    {
      LmtTraceValue values[3];

      memset (values, 0, sizeof values);
      values[0].kind = values[1].kind = LMT_TRACE_STR;
      values[0].v.data = from;
      values[0].len = strlen (from);
      values[1].v.data = to;
      values[1].len = strlen (to);
      values[2].kind = LMT_TRACE_INT;
      values[2].v.i = tries;
      lmt_recorder_publish_values (&demo_level, CALL_MOVE, values, 3);
    }
}

int
main (int argc, char **argv)
{
  LmtRecorderParams params;
  LmtRecorder *recorder;
  GError *error = NULL;
  char *line;
  int status;

  if (argc != 2)
    {
      fprintf (stderr, "usage: %s OUT.lct\n", argv[0]);
      return 2;
    }
  store_put ("early", 5, 1); /* nobody records yet */

  memset (&params, 0, sizeof params);
  params.struct_size = sizeof params;
  params.path = argv[1];
  recorder = lmt_recorder_new (&demo_level, &params, &error);
  if (recorder == NULL || !lmt_recorder_attach (recorder, "{\"store\": \"demo\"}", NULL, &error))
    {
      fprintf (stderr, "%s\n", error->message);
      g_error_free (error);
      lmt_recorder_free (recorder);
      return 1;
    }
  for (guint64 i = 0; i < 1000; i++)
    store_put (&i, sizeof i, 4096 * i);
  store_get ("abc", 3, 0.5);
  store_move ("here", "there", -1);

  status = lmt_recorder_close (recorder, &error) ? 0 : 1;
  if (error != NULL)
    fprintf (stderr, "%s\n", error->message);
  g_clear_error (&error);
  line = lmt_recorder_describe (recorder);
  printf ("%s\n", line);
  g_free (line);
  lmt_recorder_free (recorder);
  store_put ("late", 4, 1); /* and nobody any more */
  return status;
}
