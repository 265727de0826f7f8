/* SPDX-License-Identifier: Apache-2.0 */
#include "l2-rig.h"

#include "../../plugins/kit/kit-key.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

LmtRegistry *
rig_registry (void)
{
  static LmtRegistry *registry; /* for the whole program */
  if (registry == NULL)
    registry = lmt_registry_new ();
  return registry;
}

void
rig_on_message (gpointer data, const char *kind, const char *text)
{
  Rig *rig = data;
  g_string_append_printf (rig->messages, "%s\n", text);
}

gboolean
rig_said (Rig *rig, const char *text)
{
  gboolean said = strstr (rig->messages->str, text) != NULL;
  if (!said)
    g_test_message ("said: %s", rig->messages->str);
  return said;
}

gboolean
rig_has_uring (void)
{
  static int have = -1;
  if (have >= 0)
    return have;
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"engine\":\"io_uring\"}", dir);
  g_autoptr (GError) error = NULL;
  Rig rig;
  have = 0; /* no other look from within */
  have = rig_try_open (&rig, json, NULL, NULL, &error);
  if (have)
    rig_close (&rig);
  else
    {
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, "fs: engine: expected auto, threads or sync, found io_uring: "));
    }
  remove_tree (dir);
  return have;
}

/* (nullable) */
static const char *
rig_engine (void)
{
  const char *engine = g_getenv ("LMT_TEST_FS_ENGINE");
  return g_strcmp0 (engine, "io_uring") == 0 && !rig_has_uring () ? NULL : engine;
}

gboolean
rig_try_open (Rig *rig, const char *json, const char *yes_destroy, const LmtClock *clock, GError **error)
{
  memset (rig, 0, sizeof *rig);
  rig->messages = g_string_new (NULL);
  rig->keys = lmt_key_table_new ();
  rig->clock = clock != NULL ? clock : lmt_clock_real ();
  /* Test programs of the fs adapter run once for each engine. */
  const char *engine = rig_engine ();
  g_autofree char *with_engine = NULL;
  if (engine != NULL && strstr (json, "\"fs") != NULL && strstr (json, "\"engine\"") == NULL)
    with_engine = g_strdup_printf ("%.*s,\"engine\":\"%s\"}", (int)strlen (json) - 1, json, engine);
  rig->config = lmt_l2_config_parse (rig_registry (), with_engine != NULL ? with_engine : json, 1, error);
  const char *const destroy[] = { yes_destroy, NULL };
  LmtL2Params params = { .struct_size = sizeof params,
                         .clock = rig->clock,
                         .keys = rig->keys,
                         .data_wanted = TRUE,
                         .yes_destroy = destroy,
                         .message = rig_on_message,
                         .message_data = rig };
  if (rig->config != NULL)
    rig->l2 = lmt_l2_open (rig->config, &params, error);
  if (rig->l2 != NULL)
    return TRUE;
  rig_close (rig);
  return FALSE;
}

void
rig_open (Rig *rig, const char *json_format, ...)
{
  g_autoptr (GError) error = NULL;
  va_list args;
  va_start (args, json_format);
  g_autofree char *json = g_strdup_vprintf (json_format, args);
  va_end (args);
  rig_try_open (rig, json, NULL, NULL, &error);
  g_assert_no_error (error);
}

void
rig_close (Rig *rig)
{
  if (rig->l2 != NULL)
    g_assert_cmpuint (lmt_l2_close (rig->l2, -1), ==, 0);
  lmt_l2_free (rig->l2);
  lmt_l2_config_free (rig->config);
  lmt_key_table_free (rig->keys);
  g_string_free (rig->messages, TRUE);
  rig->l2 = NULL;
}

/* The table's entry; the reference goes with the table. */
LmtKey *
rig_key (Rig *rig, const char *model, guint number, const char *salt)
{
  guint8 hash[32] = { (guint8)number, (guint8)(number >> 8), 0x77 };
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .rank = 0x01000100,
                          .hash = hash,
                          .hash_len = sizeof hash,
                          .model = model,
                          .model_len = (guint32)strlen (model),
                          .salt = salt,
                          .salt_len = (guint32)strlen (salt) };
  return lmt_key_table_intern (rig->keys, &fields);
}

LmtKey *
rig_key_of_json (Rig *rig, const LmtJson *key)
{
  return kit_key_from_json (rig->keys, key);
}

static LmtL2Code
operate (Rig *rig, guint32 kind, LmtKey *key, void *buffer, guint64 bytes)
{
  guint8 code = 0;
  LmtL2Task task = { .kind = kind, .n = 1, .keys = &key, .buffers = &buffer, .sizes = &bytes, .codes = &code };
  LmtL2Code refused = LMT_L2_OK;
  g_assert_true (lmt_l2_submit (rig->l2, &task, &refused));
  lmt_l2_flush (rig->l2);
  while (!lmt_l2_take (rig->l2, &task))
    {
      int fd = lmt_l2_get_fd (rig->l2);
      gint64 due = lmt_l2_next_due_ns (rig->l2);
      gint64 until = due >= 0 ? due : lmt_clock_now (rig->clock) + 100000000;
      rig->clock->sleep_until_ns (rig->clock->data, until, &fd, fd >= 0 ? 1 : 0);
    }
  return code;
}

LmtL2Code
rig_store (Rig *rig, LmtKey *key, const void *data, guint64 bytes)
{
  return operate (rig, LMT_L2_STORE, key, (void *)data, bytes);
}

LmtL2Code
rig_load (Rig *rig, LmtKey *key, void *data, guint64 bytes)
{
  return operate (rig, LMT_L2_LOAD, key, data, bytes);
}

LmtL2Code
rig_lookup (Rig *rig, LmtKey *key, guint64 expected)
{
  LmtL2Code code = operate (rig, LMT_L2_LOOKUP, key, NULL, expected);
  lmt_l2_unlock (rig->l2, &key, 1);
  return code;
}

LmtL2Code
rig_delete (Rig *rig, LmtKey *key)
{
  return operate (rig, LMT_L2_DELETE, key, NULL, 0);
}

LmtL2Code
rig_store_fill (Rig *rig, LmtKey *key, guint64 seed, guint64 bytes)
{
  g_autofree guint8 *data = g_malloc (bytes + 1);
  lmt_fill (seed, data, bytes);
  return rig_store (rig, key, data, bytes);
}

LmtL2Code
rig_load_fill (Rig *rig, LmtKey *key, guint64 seed, guint64 bytes)
{
  g_autofree guint8 *data = g_malloc (bytes + 16);
  memset (data, 0xa5, bytes + 16);
  LmtL2Code code = rig_load (rig, key, data, bytes);
  if (code == LMT_L2_OK)
    g_assert_cmpint (lmt_fill_check (seed, data, bytes), ==, -1);
  for (guint i = 0; i < 16; i++)
    g_assert_cmpuint (data[bytes + i], ==, 0xa5);
  return code;
}

typedef struct
{
  const char *name;
  char *value;
} Wanted;

static void
on_status (gpointer data, const char *name, const char *value)
{
  Wanted *wanted = data;
  if (strcmp (wanted->name, name) == 0)
    {
      g_free (wanted->value);
      wanted->value = g_strdup (value);
    }
}

char *
rig_status (Rig *rig, const char *name)
{
  Wanted wanted = { name, NULL };
  lmt_l2_get_ops (rig->l2)->status (lmt_l2_get_handle (rig->l2), on_status, &wanted);
  return wanted.value;
}

char *
make_temp_dir (void)
{
  g_autoptr (GError) error = NULL;
  char *path = g_dir_make_tmp ("lmt-l2-XXXXXX", &error);
  g_assert_no_error (error);
  return path;
}

static int
remove_one (const char *path, const struct stat *st, int flag, struct FTW *where)
{
  return remove (path);
}

void
remove_tree (const char *path)
{
  nftw (path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

guint
count_files (const char *path)
{
  guint n = 0;
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  while (dir != NULL && g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

LmtJson *
read_json (const char *first, ...)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  va_list args;
  va_start (args, first);
  g_autofree char *below = g_build_filename_valist (first, &args);
  va_end (args);
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), below, NULL);
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  LmtJson *json = lmt_json_parse (text, -1, &error);
  g_assert_no_error (error);
  return json;
}

const char *
get_text (const LmtJson *json, const char *name)
{
  const LmtJson *member = lmt_json_get_member (json, name);
  return member != NULL && lmt_json_get_type (member) == LMT_JSON_STRING ? lmt_json_get_string (member) : NULL;
}

guint64
get_number (const LmtJson *json, const char *name)
{
  const LmtJson *member = lmt_json_get_member (json, name);
  return member != NULL ? (guint64)lmt_json_get_int (member) : 0;
}
