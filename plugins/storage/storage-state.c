// SPDX-License-Identifier: Apache-2.0
#include "storage-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

/* So many bytes of lines are summed at a time. */
enum
{
  SUM_BYTES = 16 * 1024
};

struct _StorageState
{
  char *path; /* NULL: digest only */
  char *temporary;
  FILE *file;
  FILE **victims; /* L1, then the adapters; made at the first victim */
  guint n_victims;
  GChecksum *prefetch_sum;
  GChecksum *victim_sum;
  GString *text; /* scratch */
  GString *wire; /* scratch: texts of keys are made, not kept, as there may be millions */
  guint64 n_prefetches;
  int error;
};

static void
state_failed (GError **error, const char *path, int number)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--state-out: %s: cannot write: %s", path, g_strerror (number));
}

/* A device or a pipe is written to; only a file is replaced. */
static gboolean
is_special (const char *path)
{
  struct stat st;

  return stat (path, &st) == 0 && !S_ISREG (st.st_mode) && !S_ISDIR (st.st_mode);
}

StorageState *
storage_state_new (const char *path, guint n_l2, GError **error)
{
  StorageState *state = g_new0 (StorageState, 1);

  state->prefetch_sum = g_checksum_new (G_CHECKSUM_SHA256);
  state->victim_sum = g_checksum_new (G_CHECKSUM_SHA256);
  state->text = g_string_sized_new (512);
  state->wire = g_string_sized_new (512);
  state->n_victims = n_l2 + 1;
  state->victims = g_new0 (FILE *, state->n_victims);
  if (path == NULL)
    return state;

  state->path = g_strdup (path);
  if (strcmp (path, "-") == 0 || is_special (path))
    state->file = tmpfile ();
  else
    {
      int fd;

      state->temporary = g_strconcat (path, ".XXXXXX", NULL);
      fd = g_mkstemp_full (state->temporary, O_RDWR | O_CLOEXEC, 0666);
      state->file = fd >= 0 ? fdopen (fd, "w+") : NULL;
      if (fd < 0)
        g_clear_pointer (&state->temporary, g_free);
    }
  if (state->file == NULL)
    {
      state_failed (error, path, errno);
      storage_state_free (state);
      return NULL;
    }
  fputs ("{\n  \"schema\": \"lmtrace/state/1\",\n  \"prefetch\": [", state->file);
  return state;
}

void
storage_state_free (StorageState *state)
{
  if (state == NULL)
    return;
  if (state->file != NULL)
    fclose (state->file);
  if (state->temporary != NULL)
    g_unlink (state->temporary);
  for (guint i = 0; i < state->n_victims; i++)
    if (state->victims[i] != NULL)
      fclose (state->victims[i]);
  g_checksum_free (state->prefetch_sum);
  g_checksum_free (state->victim_sum);
  g_string_free (state->text, TRUE);
  g_string_free (state->wire, TRUE);
  g_free (state->victims);
  g_free (state->temporary);
  g_free (state->path);
  g_free (state);
}

gboolean
storage_state_wants_flat (const StorageState *state)
{
  return state->path != NULL;
}

static void
append_bits (GString *text, const guint8 *bits, guint n)
{
  gsize at = text->len;

  g_string_set_size (text, at + n);
  if (bits == NULL)
    memset (text->str + at, '0', n);
  else
    for (guint i = 0; i < n; i++)
      text->str[at + i] = (char)('0' + bits[i]);
}

static void
append_rows_line (GString *text, const guint8 *bits, const StorageStatePrefetch *prefetch)
{
  g_string_append_c (text, ' ');
  if (prefetch->n_rows == 0)
    g_string_append_c (text, '-');
  for (guint r = 0; r < prefetch->n_rows; r++)
    {
      if (r > 0)
        g_string_append_c (text, ',');
      if (prefetch->n_columns == 0)
        g_string_append_c (text, '-');
      else
        append_bits (text, bits != NULL ? bits + (gsize)r * prefetch->n_columns : NULL, prefetch->n_columns);
    }
}

static void
append_rows_json (GString *text, const char *name, const guint8 *bits, const StorageStatePrefetch *prefetch)
{
  g_string_append_printf (text, ", \"%s\": [", name);
  for (guint r = 0; r < prefetch->n_rows; r++)
    {
      g_string_append (text, r > 0 ? ", \"" : "\"");
      append_bits (text, bits != NULL ? bits + (gsize)r * prefetch->n_columns : NULL, prefetch->n_columns);
      g_string_append_c (text, '"');
    }
  g_string_append_c (text, ']');
}

static void
append_flat_json (GString *text, const StorageStatePrefetch *prefetch)
{
  guint64 n_cells = (guint64)prefetch->n_rows * prefetch->n_columns;

  g_string_append (text, ", \"flat\": \"");
  for (guint i = 0; i < prefetch->n_flat; i++)
    {
      guint32 cell = prefetch->flat[i];

      g_string_append_c (text, prefetch->hit != NULL && cell < n_cells && prefetch->hit[cell] ? '1' : '0');
    }
  g_string_append_c (text, '"');
}

/* g_string_append_printf would allocate. */
static void
append_uint (GString *text, guint64 value)
{
  char digits[24];
  guint at = sizeof digits;

  do
    digits[--at] = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  g_string_append_len (text, digits + at, (gssize)(sizeof digits - at));
}

void
storage_state_add_prefetch (StorageState *state, const StorageStatePrefetch *prefetch)
{
  GString *text = state->text;
  guint64 requested = (guint64)prefetch->n_rows * prefetch->n_columns;

  g_string_truncate (text, 0);
  append_uint (text, requested);
  g_string_append_c (text, ' ');
  g_string_append (text, prefetch->state);
  append_rows_line (text, prefetch->hit, prefetch);
  append_rows_line (text, prefetch->l1_hit, prefetch);
  append_rows_line (text, prefetch->l2_hit, prefetch);
  g_string_append_c (text, '\n');
  g_checksum_update (state->prefetch_sum, (const guchar *)text->str, (gssize)text->len);
  state->n_prefetches++;
  if (state->file == NULL)
    return;

  g_string_truncate (text, 0);
  g_string_append (text, state->n_prefetches > 1 ? ",\n    {" : "\n    {");
  g_string_append_printf (text, "\"kind\": \"rows\", \"requested\": %" G_GUINT64_FORMAT ", \"state\": \"%s\"", requested,
                          prefetch->state);
  append_rows_json (text, "hit", prefetch->hit, prefetch);
  append_rows_json (text, "l1_hit", prefetch->l1_hit, prefetch);
  append_rows_json (text, "l2_hit", prefetch->l2_hit, prefetch);
  if (prefetch->has_flat)
    append_flat_json (text, prefetch);
  g_string_append_c (text, '}');
  fwrite (text->str, 1, text->len, state->file);
}

/* [model, kv_rank, group, hash in hex(, salt)] */
static void
append_key_json (GString *text, const LmtKey *key)
{
  const LmtKeyFields *fields = &key->fields;

  g_string_append (text, "[\"");
  lmt_json_append_escaped (text, fields->model, fields->model_len);
  g_string_append_printf (text, "\", %" G_GUINT64_FORMAT ", %u, \"", fields->rank, fields->group);
  for (guint i = 0; i < fields->hash_len; i++)
    g_string_append_printf (text, "%02x", fields->hash[i]);
  g_string_append_c (text, '"');
  if (fields->salt_len > 0)
    {
      g_string_append (text, ", \"");
      lmt_json_append_escaped (text, fields->salt, fields->salt_len);
      g_string_append_c (text, '"');
    }
  g_string_append_c (text, ']');
}

static void
append_key_line (GString *text, GString *wire, const char *word, gint adapter, const LmtKey *key)
{
  if (adapter < 0)
    g_string_append (text, word);
  else
    {
      g_string_append (text, "l2#");
      append_uint (text, (guint64)adapter);
    }
  g_string_append_c (text, ' ');
  lmt_key_fields_wire (&key->fields, wire);
  g_string_append_len (text, wire->str, (gssize)wire->len);
  g_string_append_c (text, '\n');
}

void
storage_state_add_victim (StorageState *state, gint adapter, LmtKey *key)
{
  guint list = (guint)(adapter + 1);
  FILE *file;

  g_string_truncate (state->text, 0);
  append_key_line (state->text, state->wire, "l1", adapter, key);
  g_checksum_update (state->victim_sum, (const guchar *)state->text->str, (gssize)state->text->len);
  if (state->file == NULL)
    return;

  file = state->victims[list];
  g_string_truncate (state->text, 0);
  if (file != NULL)
    g_string_append (state->text, ", ");
  else
    file = state->victims[list] = tmpfile ();
  if (file == NULL)
    {
      state->error = errno;
      return;
    }
  append_key_json (state->text, key);
  fwrite (state->text->str, 1, state->text->len, file);
}

/* ---------------- the end ---------------- */

typedef struct
{
  GPtrArray *resident;
  GPtrArray *reserved;
  GPtrArray *locked;
} KeyLists;

static void
sort_into_lists (LmtKey *key, const SmKeyView *view, gpointer data)
{
  KeyLists *lists = data;

  if (view->resident)
    g_ptr_array_add (lists->resident, key);
  if (view->n_staged > 0)
    g_ptr_array_add (lists->reserved, key);
  if (view->read_locks > 0)
    g_ptr_array_add (lists->locked, key);
}

typedef struct
{
  LmtKey *key;
  guint locks;
} HeldKey;

static void
add_held (LmtKey *key, guint64 bytes, guint locks, gpointer data)
{
  HeldKey held = { key, locks };

  g_array_append_val ((GArray *)data, held);
}

static gint
compare_bytes (gconstpointer a, gsize a_len, gconstpointer b, gsize b_len)
{
  gsize n = MIN (a_len, b_len);
  gint order = n > 0 ? memcmp (a, b, n) : 0;

  return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static gint
compare_keys (const LmtKey *a, const LmtKey *b)
{
  const LmtKeyFields *x = &a->fields;
  const LmtKeyFields *y = &b->fields;
  gint order = compare_bytes (x->model, x->model_len, y->model, y->model_len);

  if (order != 0)
    return order;
  if (x->rank != y->rank)
    return x->rank < y->rank ? -1 : 1;
  if (x->group != y->group)
    return x->group < y->group ? -1 : 1;
  order = compare_bytes (x->hash, x->hash_len, y->hash, y->hash_len);
  return order != 0 ? order : compare_bytes (x->salt, x->salt_len, y->salt, y->salt_len);
}

static gint
compare_key_pointers (gconstpointer a, gconstpointer b)
{
  return compare_keys (*(LmtKey *const *)a, *(LmtKey *const *)b);
}

static gint
compare_held (gconstpointer a, gconstpointer b)
{
  return compare_keys (((const HeldKey *)a)->key, ((const HeldKey *)b)->key);
}

/* Order of a key's text by its fields: what nearly always decides stands in the element. */
typedef struct
{
  guint64 head; /* of the hash */
  guint64 rank;
  LmtKey *key;
  guint32 model;
  guint32 group;
  guint32 hash_len;
} TextKey;

/* Numbers as the text has them: in hex, @ behind them. */
static gint
compare_hex (guint64 a, guint64 b, gint digits)
{
  char x[24];
  char y[24];

  g_snprintf (x, sizeof x, "%0*" G_GINT64_MODIFIER "x@", digits, a);
  g_snprintf (y, sizeof y, "%0*" G_GINT64_MODIFIER "x@", digits, b);
  return strcmp (x, y);
}

/* No model name has an @. */
static gint
compare_models (const LmtKeyFields *a, const LmtKeyFields *b)
{
  guint32 n = MIN (a->model_len, b->model_len);
  gint order = n > 0 ? memcmp (a->model, b->model, n) : 0;

  if (order != 0 || a->model_len == b->model_len)
    return order;
  return (a->model_len > n ? (guint8)a->model[n] : '@') - (b->model_len > n ? (guint8)b->model[n] : '@');
}

/* Lines of one kind begin alike: sorted by the bytes of their keys is sorted by bytes. */
static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  const TextKey *x = a;
  const TextKey *y = b;
  const LmtKeyFields *p = &x->key->fields;
  const LmtKeyFields *q = &y->key->fields;
  gint order;

  if (x->model != y->model)
    return compare_models (p, q);
  if (x->rank != y->rank)
    return compare_hex (x->rank, y->rank, 8);
  if (x->group != y->group)
    return compare_hex (x->group, y->group, 1);
  if (x->hash_len != y->hash_len)
    return compare_bytes (lmt_key_wire (x->key), lmt_key_wire_len (x->key), lmt_key_wire (y->key), lmt_key_wire_len (y->key));
  if (x->head != y->head)
    return x->head < y->head ? -1 : 1;
  order = compare_bytes (p->hash, p->hash_len, q->hash, q->hash_len);
  return order != 0 ? order : compare_bytes (p->salt, p->salt_len, q->salt, q->salt_len);
}

static TextKey
text_key (LmtKey *key)
{
  TextKey text = { 0, key->fields.rank, key, key->model, key->fields.group, key->fields.hash_len };

  for (guint i = 0; i < sizeof text.head; i++)
    text.head = text.head << 8 | (i < text.hash_len ? key->fields.hash[i] : 0);
  return text;
}

static void
sum_keys (StorageState *state, GChecksum *sum, const char *word, gint adapter, const GPtrArray *keys)
{
  g_autofree TextKey *texts = g_new (TextKey, MAX (keys->len, 1));

  for (guint i = 0; i < keys->len; i++)
    texts[i] = text_key (g_ptr_array_index (keys, i));
  qsort (texts, keys->len, sizeof *texts, compare_texts);
  g_string_truncate (state->text, 0);
  for (guint i = 0; i < keys->len; i++)
    {
      append_key_line (state->text, state->wire, word, adapter, texts[i].key);
      if (state->text->len < SUM_BYTES && i + 1 < keys->len)
        continue;
      g_checksum_update (sum, (const guchar *)state->text->str, (gssize)state->text->len);
      g_string_truncate (state->text, 0);
    }
}

static void
sum_held (StorageState *state, GChecksum *sum, gint adapter, const GArray *held)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_sized_new (held->len);

  for (guint i = 0; i < held->len; i++)
    g_ptr_array_add (keys, g_array_index (held, HeldKey, i).key);
  sum_keys (state, sum, NULL, adapter, keys);
}

static void
write_keys (StorageState *state, const char *name, GPtrArray *keys)
{
  g_ptr_array_sort (keys, compare_key_pointers);
  fprintf (state->file, ",\n  \"%s\": [", name);
  for (guint i = 0; i < keys->len; i++)
    {
      g_string_assign (state->text, i > 0 ? ",\n    " : "\n    ");
      append_key_json (state->text, g_ptr_array_index (keys, i));
      fwrite (state->text->str, 1, state->text->len, state->file);
    }
  fputs (keys->len > 0 ? "\n  ]" : "]", state->file);
}

static void
write_adapter (StorageState *state, LmtL2 *l2, GArray *held)
{
  gboolean first = TRUE;

  g_array_sort (held, compare_held);
  g_string_assign (state->text, "{\"type\": \"");
  lmt_json_append_escaped (state->text, lmt_l2_get_type_name (l2), strlen (lmt_l2_get_type_name (l2)));
  fprintf (state->file, "%s\", \"used_bytes\": %" G_GUINT64_FORMAT ", \"keys\": [", state->text->str, lmt_l2_get_used (l2));
  for (guint i = 0; i < held->len; i++)
    {
      g_string_assign (state->text, i > 0 ? ",\n    " : "\n    ");
      append_key_json (state->text, g_array_index (held, HeldKey, i).key);
      fwrite (state->text->str, 1, state->text->len, state->file);
    }
  fputs ("], \"locks\": [", state->file);
  for (guint i = 0; i < held->len; i++)
    {
      if (g_array_index (held, HeldKey, i).locks == 0)
        continue;
      g_string_assign (state->text, first ? "[" : ", [");
      append_key_json (state->text, g_array_index (held, HeldKey, i).key);
      g_string_append_printf (state->text, ", %u]", g_array_index (held, HeldKey, i).locks);
      fwrite (state->text->str, 1, state->text->len, state->file);
      first = FALSE;
    }
  fputs ("]}", state->file);
}

static void
write_victims (StorageState *state, guint list)
{
  char buffer[4096];
  gsize n;
  FILE *from = state->victims[list];

  fputc ('[', state->file);
  if (from != NULL)
    {
      if (fflush (from) != 0 || ferror (from))
        state->error = errno;
      rewind (from);
      while ((n = fread (buffer, 1, sizeof buffer, from)) > 0)
        fwrite (buffer, 1, n, state->file);
    }
  fputc (']', state->file);
}

static void
write_counts (StorageState *state, const StorageStateEnd *end)
{
  const struct
  {
    const char *name;
    guint64 value;
  } counts[] = {
    { "replayed", end->ok + end->mismatch },
    { "skipped", end->skipped },
    { "undecodable", end->undecodable },
    { "failed", end->failed },
    { "mismatch", end->mismatch },
    { "malformed", end->malformed },
    { "l1_used_bytes", lmt_sm_used_bytes (end->sm) },
    { "l1_total_bytes", lmt_sm_total_bytes (end->sm) },
  };
  gboolean first = TRUE;

  fputs (state->n_prefetches > 0 ? "\n  ]" : "]", state->file);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    fprintf (state->file, ",\n  \"%s\": %" G_GUINT64_FORMAT, counts[i].name, counts[i].value);
  fprintf (state->file, ",\n  \"settled\": %s,\n  \"anomalies\": {", end->settled ? "true" : "false");
  for (guint i = 0; i < end->n_anomalies; i++)
    if (end->anomalies[i].count > 0)
      {
        fprintf (state->file, "%s\"%s\": %" G_GUINT64_FORMAT, first ? "" : ", ", end->anomalies[i].kind, end->anomalies[i].count);
        first = FALSE;
      }
  fputc ('}', state->file);
}

static char *
sum_counts (const StorageStateEnd *end)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (text,
                          "replayed %" G_GUINT64_FORMAT "\nskipped %" G_GUINT64_FORMAT "\nundecodable %" G_GUINT64_FORMAT
                          "\nfailed %" G_GUINT64_FORMAT "\nmismatch %" G_GUINT64_FORMAT "\nmalformed %" G_GUINT64_FORMAT
                          "\nused %" G_GUINT64_FORMAT "\n",
                          end->ok + end->mismatch, end->skipped, end->undecodable, end->failed, end->mismatch, end->malformed,
                          lmt_sm_used_bytes (end->sm));
  for (guint i = 0; i < end->n_anomalies; i++)
    if (end->anomalies[i].count > 0)
      g_string_append_printf (text, "anomaly %s %" G_GUINT64_FORMAT "\n", end->anomalies[i].kind, end->anomalies[i].count);
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize)text->len);
}

/* Where nothing can be renamed: stdout, a device, a pipe. */
static gboolean
copy_out (StorageState *state, FILE *file, GError **error)
{
  gboolean to_stdout = strcmp (state->path, "-") == 0;
  FILE *out = to_stdout ? NULL : fopen (state->path, "we");
  gboolean ok = TRUE;
  char buffer[4096];
  gsize n;

  if (!to_stdout && out == NULL)
    {
      state->error = errno;
      return TRUE;
    }
  rewind (file);
  while (ok && state->error == 0 && (n = fread (buffer, 1, sizeof buffer, file)) > 0)
    if (to_stdout)
      ok = lmt_output_stdout (buffer, (gssize)n, error);
    else if (fwrite (buffer, 1, n, out) != n)
      state->error = errno;
  if (out != NULL && fclose (out) != 0 && state->error == 0)
    state->error = errno;
  return ok;
}

/* The file gets its name only when it is whole. */
static gboolean
close_file (StorageState *state, GError **error)
{
  FILE *file = g_steal_pointer (&state->file);
  gboolean copied = state->temporary == NULL;

  errno = 0;
  if (fflush (file) != 0 || ferror (file))
    state->error = errno != 0 ? errno : EIO;
  if (copied && state->error == 0 && !copy_out (state, file, error))
    {
      fclose (file);
      return FALSE;
    }
  fclose (file);
  if (!copied && state->error == 0 && g_rename (state->temporary, state->path) != 0)
    state->error = errno;
  if (state->error != 0)
    {
      state_failed (error, state->path, state->error);
      return FALSE;
    }
  g_clear_pointer (&state->temporary, g_free);
  return TRUE;
}

gboolean
storage_state_finish (StorageState *state, const StorageStateEnd *end, char **digest, GError **error)
{
  g_autoptr (GPtrArray) resident = g_ptr_array_new ();
  g_autoptr (GPtrArray) reserved = g_ptr_array_new ();
  g_autoptr (GPtrArray) locked = g_ptr_array_new ();
  KeyLists lists = { resident, reserved, locked };
  GChecksum *held_sum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree char *counts_sum = sum_counts (end);
  g_autofree char *joined = NULL;
  guint n_l2 = state->n_victims - 1;

  lmt_sm_foreach (end->sm, end->now_ns, sort_into_lists, &lists);
  sum_keys (state, held_sum, "resident", -1, resident);
  sum_keys (state, held_sum, "reserved", -1, reserved);
  sum_keys (state, held_sum, "locked", -1, locked);
  if (state->file != NULL)
    {
      write_counts (state, end);
      write_keys (state, "l1_resident", resident);
      write_keys (state, "l1_reserved", reserved);
      write_keys (state, "l1_read_locked", locked);
      fputs (",\n  \"l2\": [", state->file);
    }
  for (guint i = 0; i < n_l2; i++)
    {
      g_autoptr (GArray) held = g_array_new (FALSE, FALSE, sizeof (HeldKey));

      lmt_l2_foreach (end->l2[i], add_held, held);
      sum_held (state, held_sum, (gint)i, held);
      if (state->file == NULL)
        continue;
      fputs (i > 0 ? ", " : "", state->file);
      write_adapter (state, end->l2[i], held);
    }
  joined = g_strconcat (g_checksum_get_string (state->prefetch_sum), g_checksum_get_string (state->victim_sum),
                        g_checksum_get_string (held_sum), counts_sum, NULL);
  g_checksum_free (held_sum);
  *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, joined, -1);
  if (state->file == NULL)
    return TRUE;

  fputs ("],\n  \"evicted\": {\"l1\": ", state->file);
  write_victims (state, 0);
  fputs (", \"l2\": [", state->file);
  for (guint i = 0; i < n_l2; i++)
    {
      fputs (i > 0 ? ", " : "", state->file);
      write_victims (state, i + 1);
    }
  fprintf (state->file, "]},\n  \"outcome_digest\": \"%s\"\n}\n", *digest);
  return close_file (state, error);
}
