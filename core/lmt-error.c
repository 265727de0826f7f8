/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-error.h"

#include <string.h>

/* What an error of our domain carries beside its message. */
typedef struct
{
  char *file;
  gint64 offset;
} LmtErrorPrivate;

static void
lmt_error_private_init (LmtErrorPrivate *place)
{
  place->offset = -1;
}

static void
lmt_error_private_copy (const LmtErrorPrivate *from, LmtErrorPrivate *to)
{
  to->file = g_strdup (from->file);
  to->offset = from->offset;
}

static void
lmt_error_private_clear (LmtErrorPrivate *place)
{
  g_free (place->file);
}

G_DEFINE_EXTENDED_ERROR (LmtError, lmt_error)

/* The words are names; the formatter takes them for differences. */
/* clang-format off */
G_DEFINE_QUARK (lmt-l2-error-quark, lmt_l2_error)
/* clang-format on */

void
lmt_error_set_place (GError *error, const char *file, gint64 offset)
{
  LmtErrorPrivate *place;

  if (error == NULL || error->domain != LMT_ERROR)
    return;
  place = lmt_error_get_private (error);
  if (place->file == NULL)
    place->file = g_strdup (file);
  if (place->offset < 0)
    place->offset = offset;
}

const char *
lmt_error_get_file (const GError *error)
{
  return error != NULL && error->domain == LMT_ERROR ? lmt_error_get_private (error)->file : NULL;
}

gint64
lmt_error_get_offset (const GError *error)
{
  return error != NULL && error->domain == LMT_ERROR ? lmt_error_get_private (error)->offset : -1;
}

/* @where holds at most one "%u"; it comes from our own tables, but printf() never sees it all the same. */
static void
append_where (GString *out, const char *where, guint32 index)
{
  const char *mark = strstr (where, "%u");

  if (mark == NULL)
    {
      g_string_append (out, where);
      return;
    }
  g_string_append_len (out, where, mark - where);
  g_string_append_printf (out, "%u%s", index, mark + 2);
}

char *
lmt_fault_to_string (const LmtFault *fault)
{
  GString *out;

  g_return_val_if_fail (fault != NULL, NULL);

  out = g_string_new (NULL);
  g_string_append_printf (out, "%s %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT, fault->number == 0 ? "frame" : "record",
                          fault->number, fault->offset);
  if (fault->length != 0)
    g_string_append_printf (out, " (%" G_GUINT64_FORMAT " bytes)", fault->length);
  if (fault->where != NULL)
    {
      g_string_append (out, ": ");
      append_where (out, fault->where, fault->index);
    }
  if (fault->reason != NULL)
    g_string_append_printf (out, ": %s", fault->reason);
  if (g_strcmp0 (fault->reason, "header-frame") == 0)
    g_string_append (out, ": two files seem to be glued together");
  if (fault->detail[0] != '\0')
    g_string_append_printf (out, ": %s", fault->detail);
  if (fault->expected != NULL)
    g_string_append_printf (out, ": expected %s", fault->expected);
  if (fault->found != NULL)
    g_string_append_printf (out, "%s found %s", fault->expected != NULL ? "," : ":", fault->found);
  if (fault->found != NULL && fault->has_found_n)
    g_string_append_printf (out, " %" G_GUINT64_FORMAT, fault->found_n);
  return g_string_free (out, FALSE);
}

void
lmt_fault_set_detail (LmtFault *fault, const char *text, gsize len)
{
  gsize room = sizeof fault->detail - 1;
  gsize used = 0;

  for (gsize i = 0; i < len;)
    {
      guint8 first = (guint8)text[i];
      gsize step = 1;

      if (first >= 0x80)
        {
          /* A character whole or not at all; what is no UTF-8 is shown as '?', so that the message always is. */
          gunichar c = g_utf8_get_char_validated (text + i, (gssize)(len - i));

          step = c < 0x110000 ? (gsize)g_utf8_skip[first] : 1;
          if (c >= 0x110000)
            first = '?';
        }
      else if (first < 0x20 || first == 0x7f)
        first = '?';
      if (used + step > room)
        break;
      if (step == 1)
        fault->detail[used] = (char)first;
      else
        memcpy (fault->detail + used, text + i, step);
      used += step;
      i += step;
    }
  fault->detail[used] = '\0';
}
