// SPDX-License-Identifier: Apache-2.0
/* new-plugin: a folder to begin with. Templates are files, so that they can be read, built and tested as they are. */
#include <errno.h>
#include <fcntl.h>
#include <lmtrace/lmt-source.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit.h"

enum
{
  NAME_MAX_BYTES = 40,
  TEMPLATE_MAX_BYTES = 1 << 20,
};

typedef struct
{
  char *name;  /* as given */
  char *ident; /* for C: `-` as `_` */
  char *camel; /* MyDisk */
} Names;

static void
names_clear (Names *names)
{
  g_free (names->name);
  g_free (names->ident);
  g_free (names->camel);
}

static gboolean
names_init (Names *names, const char *name, GError **error)
{
  gboolean good = g_ascii_islower (name[0]) && strlen (name) <= NAME_MAX_BYTES;
  for (const char *p = name; good && *p != '\0'; p++)
    good = g_ascii_islower (*p) || g_ascii_isdigit (*p) || *p == '_' || *p == '-';
  if (!good)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "NAME: expected a small letter, then at most %d small letters, digits, - or _, found \"%s\"",
                   NAME_MAX_BYTES - 1, name);
      return FALSE;
    }
  g_autoptr (GString) camel = g_string_new (NULL);
  gboolean upper = TRUE;
  for (const char *p = name; *p != '\0'; p++)
    {
      gboolean letter = g_ascii_isalnum (*p);
      if (letter)
        g_string_append_c (camel, upper ? g_ascii_toupper (*p) : *p);
      upper = !letter;
    }
  names->name = g_strdup (name);
  names->ident = g_strdelimit (g_strdup (name), "-", '_');
  names->camel = g_strdup (camel->str);
  return TRUE;
}

static char *
replaced (const char *text, const char *what, const char *with)
{
  g_auto (GStrv) parts = g_strsplit (text, what, -1);
  return g_strjoinv (with, parts);
}

static char *
filled (const char *text, const Names *names)
{
  g_autofree char *a = replaced (text, "@NAME@", names->name);
  g_autofree char *b = replaced (a, "@name@", names->ident);
  return replaced (b, "@Name@", names->camel);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Files of the template, sorted. */
static GPtrArray *
list_template (const char *path, GError **error)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) dir = g_dir_open (path, 0, error);
  if (dir == NULL)
    {
      g_prefix_error (error, "templates: ");
      return NULL;
    }
  for (const char *name; (name = g_dir_read_name (dir)) != NULL;)
    g_ptr_array_add (files, g_strdup (name));
  g_ptr_array_sort (files, compare_names);
  return g_steal_pointer (&files);
}

/* The file must not be there: O_EXCL, so nothing is ever overwritten. */
static gboolean
write_new (const char *path, const char *text, GError **error)
{
  int fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  gsize len = strlen (text);
  gboolean good = fd >= 0;
  for (gsize done = 0; good && done < len;)
    {
      ssize_t n = write (fd, text + done, len - done);
      if (n < 0 && errno != EINTR)
        good = FALSE;
      else if (n > 0)
        done += (gsize)n;
    }
  if (good && close (fd) == 0)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot write: %s", path, g_strerror (errno));
  if (fd >= 0)
    unlink (path);
  return FALSE;
}

static gboolean
copy_template (const char *from, const char *to, const Names *names, GString *list, GError **error)
{
  g_autoptr (GPtrArray) files = list_template (from, error);
  if (files == NULL)
    return FALSE;
  for (guint i = 0; i < files->len; i++)
    {
      g_autofree char *source = g_build_filename (from, files->pdata[i], NULL);
      g_autofree char *name = replaced (files->pdata[i], "NAME", names->name);
      g_autofree char *target = g_build_filename (to, name, NULL);
      g_autofree char *raw = lmt_source_read_whole (source, TEMPLATE_MAX_BYTES, NULL, error);
      if (raw == NULL)
        return FALSE;
      g_autofree char *text = filled (raw, names);
      if (!write_new (target, text, error))
        return FALSE;
      g_string_append_printf (list, "%s\n", target);
    }
  return TRUE;
}

static char *
metrics_of (const char *kind, const Names *names, const char *dir, const GString *list)
{
  g_auto (GStrv) files = g_strsplit (list->str, "\n", -1);
  GString *text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
  const char *const pairs[][2] = { { "kind", kind }, { "name", names->name }, { "dir", dir } };
  lmt_json_writer_begin_object (json);
  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      lmt_json_writer_key (json, pairs[i][0]);
      lmt_json_writer_string (json, pairs[i][1]);
    }
  lmt_json_writer_key (json, "files");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; files[i] != NULL && files[i][0] != '\0'; i++)
    lmt_json_writer_string (json, files[i]);
  lmt_json_writer_end_array (json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  return g_string_free (text, FALSE);
}

static int
new_run (const LmtCommandContext *context, GError **error)
{
  static const char *const kinds[] = { "l2", "level", "command", NULL };
  const char *kind = context->operands[0], *name = context->operands[1];
  if (!g_strv_contains (kinds, kind))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "KIND: expected l2, level or command, found \"%s\"", kind);
      return 2;
    }
  Names names = { NULL, NULL, NULL };
  if (!names_init (&names, name, error))
    return 2;
  g_autoptr (GString) list = g_string_new (NULL);
  g_autofree char *from = kit_data_dir ("templates");
  g_autofree char *template = g_build_filename (from, kind, NULL);
  const char *dir = context->operands[2] != NULL ? context->operands[2] : name;
  int code = 2;
  if (mkdir (dir, 0777) != 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot make the folder: %s%s", dir, g_strerror (errno),
                 errno == EEXIST ? ": nothing is overwritten" : "");
  else if (copy_template (template, dir, &names, list, error))
    {
      g_autofree char *metrics = metrics_of (kind, &names, dir, list);
      code = lmt_output_raw (context->output, "New plugin", list->str, metrics, NULL, FALSE, 0, error) ? 0 : 1;
    }
  names_clear (&names);
  return code;
}

static const char *const new_examples[] = {
  "lmtrace new-plugin l2 mydisk",
  "lmtrace new-plugin level requests ~/src/requests",
  "cd mydisk && make && make check",
  NULL,
};

static const LmtOption new_options[] = { LMT_OPTION_END };

const LmtCommandOps kit_new_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .name = "new-plugin",
  .summary = "Write a folder to begin a plugin with",
  .synopsis = "[OPTIONS] KIND NAME [DIR]",
  .examples = new_examples,
  .options = new_options,
  .run = new_run,
  .min_operands = 2,
  .max_operands = 3,
  .more_text
  = "KIND is l2, level or command; NAME what it will be called: small letters, digits, - and _. The folder DIR (default: NAME) "
    "must "
    "not be there: nothing is overwritten. It holds a plugin that works, a Makefile and a meson.build that need pkg-config's "
    "lmtrace-1 and nothing else, and a README. `make check` tries it out.",
};
