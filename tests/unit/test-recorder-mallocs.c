/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that has its ring asks for no memory, takes no lock it could wait for, and loses nothing while the drain keeps up. */
#include "../count-mallocs.h"

#include <lmtrace/lmtrace.h>

#include <glib/gstdio.h>
#include <unistd.h>

static gboolean
encode (gconstpointer copy, gsize len, guint32 schema, LmtPack *out)
{
  lmt_pack_map (out, 1);
  LMT_PACK_LITERAL (out, "bytes");
  lmt_pack_bin (out, copy, len);
  return TRUE;
}

static const char *const names[] = { "number", NULL };
static const LmtTraceCall calls[] = { { "test.put", NULL, encode, { NULL } }, { "test.value", names, NULL, { NULL } } };
static LmtTraceLevel level = LMT_TRACE_LEVEL_INIT ("demo", calls, G_N_ELEMENTS (calls));

static void
publish (guint n)
{
  static const guint8 bytes[200];

  for (guint i = 0; i < n; i++)
    {
      LmtTraceValue value = { .kind = LMT_TRACE_UINT, .v.u = i };
      gpointer room = lmt_recorder_begin (&level, 0, sizeof bytes);

      if (room != NULL)
        {
          memcpy (room, bytes, sizeof bytes);
          lmt_recorder_commit (&level, i % sizeof bytes);
        }
      lmt_recorder_publish (&level, 0, bytes, i % sizeof bytes);
      lmt_recorder_publish_values (&level, 1, &value, 1);
    }
}

/* The drain of its own: in its steady state it asks for none either, so the whole process is counted. */
static void
test_mallocs (void)
{
  g_autofree char *path = NULL;
  LmtRecorderParams params = { .struct_size = sizeof params, .flags = LMT_RECORDER_BLOCK };
  int fd = g_file_open_tmp ("lmt-recorder-XXXXXX.lct", &path, NULL);
  LmtRecorder *recorder;
  unsigned long before;

  if (!mallocs_are_counted ())
    {
      g_close (fd, NULL);
      g_unlink (path);
      g_test_skip ("malloc is a sanitizer's or valgrind's");
      return;
    }
  g_close (fd, NULL);
  params.path = path;
  recorder = lmt_recorder_new (&level, &params, NULL);
  g_assert_nonnull (recorder);
  publish (5000); /* more than a ring */
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  before = n_mallocs;
  publish (2000);
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  g_assert_cmpuint (n_mallocs - before, ==, 0);
  lmt_recorder_free (recorder);
  before = n_mallocs;
  publish (2000); /* off */
  g_assert_cmpuint (n_mallocs - before, ==, 0);
  g_unlink (path);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recorder/mallocs", test_mallocs);
  return g_test_run ();
}
