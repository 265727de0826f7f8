/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum
{
  ENTRY_OBJECT,
  ENTRY_OWN_TEMP,   /* .lmt-<pid>-….tmp */
  ENTRY_THEIR_TEMP, /* LMCache's: an object's name that ends in .tmp */
  ENTRY_OLD_LAYOUT, /* LMCache 0.4.2 to 0.4.6 */
  ENTRY_FOREIGN,
} EntryKind;

static gboolean
is_hex (const char *text, gsize len)
{
  for (gsize i = 0; i < len; i++)
    if (!g_ascii_isxdigit (text[i]) || g_ascii_isupper (text[i]))
      return FALSE;
  return TRUE;
}

/* MODEL@0xRANK@HASH.data, and with a salt MODEL@0xRANK@HASH@SALT.data: no group. */
static gboolean
is_old_layout (const char *name, gsize len)
{
  if (len < 5 || memcmp (name + len - 5, ".data", 5) != 0)
    return FALSE;
  g_autofree char *stem = g_strndup (name, len - 5);
  g_auto (GStrv) parts = g_strsplit (stem, "@", -1);
  guint n = g_strv_length (parts);
  if ((n != 3 && n != 4) || strncmp (parts[1], "0x", 2) != 0 || strlen (parts[1]) < 10
      || !is_hex (parts[1] + 2, strlen (parts[1]) - 2))
    return FALSE;
  gsize hash_len = strlen (parts[2]);
  /* With four fields the third is a group if it can be one. */
  return hash_len % 2 == 0 && is_hex (parts[2], hash_len) && (n == 3 || hash_len > 8);
}

static EntryKind
kind_of_entry (const char *name, gsize len, LmtKeyOwned *key)
{
  if (g_str_has_prefix (name, ".lmt-") && g_str_has_suffix (name, ".tmp"))
    return ENTRY_OWN_TEMP;
  if (lmt_key_from_file (name, len, key))
    return ENTRY_OBJECT;
  if (g_str_has_suffix (name, ".tmp"))
    {
      g_autofree char *final = g_strdup_printf ("%.*s.data", (int)(len - 4), name);
      if (lmt_key_from_file (final, strlen (final), key))
        {
          lmt_key_owned_clear (key);
          return ENTRY_THEIR_TEMP;
        }
    }
  return is_old_layout (name, len) ? ENTRY_OLD_LAYOUT : ENTRY_FOREIGN;
}

static DIR *
open_listing (int dir)
{
  int fd = openat (dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = fd >= 0 ? fdopendir (fd) : NULL;
  if (listing == NULL && fd >= 0)
    close (fd);
  return listing;
}

static const struct dirent *
next_entry (DIR *listing)
{
  const struct dirent *entry;
  do
    entry = readdir (listing);
  while (entry != NULL && (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0));
  return entry;
}

/* Our own leftover: nobody can be at work on it. With the directory to ourselves, a process of our number is an earlier one. */
static gboolean
owner_is_gone (Fs *fs, const char *name)
{
  int pid = 0;
  if (sscanf (name, ".lmt-%d-", &pid) != 1 || pid <= 0)
    return FALSE;
  return pid == getpid () ? !fs->shared : kill (pid, 0) != 0 && errno == ESRCH;
}

static void
found_own_temp (Fs *fs, int dir, const char *name)
{
  if (!fs->read_only && !fs->shared && owner_is_gone (fs, name) && unlinkat (dir, name, 0) == 0)
    fs->n_debris_removed++;
}

static void
found_leftover (Fs *fs, int dir, const char *name, guint64 bytes)
{
  fs->n_leftovers++;
  fs->leftover_bytes += bytes;
  if (fs->clean_tmp && !fs->shared && !fs->read_only)
    unlinkat (dir, name, 0);
}

static void
found_in_base (Fs *fs, const char *name, LmtL2Visit visit, gpointer data)
{
  struct stat st;
  LmtKeyOwned key;
  EntryKind kind = kind_of_entry (name, strlen (name), &key);
  if (fstatat (fs->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
      if (kind == ENTRY_OBJECT)
        lmt_key_owned_clear (&key);
      return; /* gone meanwhile */
    }
  gboolean file = S_ISREG (st.st_mode);
  switch (kind)
    {
    case ENTRY_OBJECT:
      if (file)
        visit (data, &key.fields, (guint64)st.st_size, (gint64)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
      else
        {
          fs->n_shadowed++;
          fs_say (fs, "no file", "fs: %s/%s: expected a file, found %s: ignored", fs->path, name,
                  S_ISDIR (st.st_mode) ? "a directory" : "no regular file");
        }
      lmt_key_owned_clear (&key);
      break;
    case ENTRY_OWN_TEMP:
      if (file)
        found_own_temp (fs, fs->dir, name);
      break;
    case ENTRY_THEIR_TEMP:
      if (file)
        found_leftover (fs, fs->dir, name, (guint64)st.st_size);
      break;
    case ENTRY_OLD_LAYOUT:
      fs->n_old_layout++;
      break;
    default:
      /* The directory for unfinished objects, by its first component. */
      if (!(S_ISDIR (st.st_mode) && fs->tmp_name != NULL && strncmp (fs->tmp_name, name, strlen (name)) == 0
            && (fs->tmp_name[strlen (name)] == '\0' || fs->tmp_name[strlen (name)] == '/')))
        fs->n_foreign++;
      break;
    }
}

/* LMCache writes there under the final name; whatever is an object's name is unfinished. */
static void
scan_tmp_dir (Fs *fs)
{
  if (fs->tmp_dir == fs->dir)
    return;
  DIR *listing = open_listing (fs->tmp_dir);
  const struct dirent *entry;
  while (listing != NULL && (entry = next_entry (listing)) != NULL)
    {
      LmtKeyOwned key;
      struct stat st;
      EntryKind kind = kind_of_entry (entry->d_name, strlen (entry->d_name), &key);
      if (kind == ENTRY_OBJECT)
        lmt_key_owned_clear (&key);
      if (fstatat (fs->tmp_dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG (st.st_mode))
        continue;
      if (kind == ENTRY_OWN_TEMP)
        found_own_temp (fs, fs->tmp_dir, entry->d_name);
      else if (kind == ENTRY_OBJECT || kind == ENTRY_THEIR_TEMP)
        found_leftover (fs, fs->tmp_dir, entry->d_name, (guint64)st.st_size);
    }
  if (listing != NULL)
    closedir (listing);
}

static void
append_part (GString *text, const char *format, guint64 n)
{
  if (n == 0)
    return;
  if (text->len > 0)
    g_string_append (text, ", ");
  g_string_append_printf (text, "%" G_GUINT64_FORMAT " %s%s", n, n == 1 ? "file" : "files", format);
}

static void
tell_found (Fs *fs)
{
  g_autoptr (GString) ignored = g_string_new (NULL);
  append_part (ignored, " of the layout of LMCache 0.4.2-0.4.6", fs->n_old_layout);
  append_part (ignored, " of foreign names", fs->n_foreign);
  if (ignored->len > 0)
    fs_say (fs, "info: ignored", "fs: %s: %s ignored", fs->path, ignored->str);
  if (fs->n_debris_removed > 0)
    fs_say (fs, "info: debris", "fs: %s: %" G_GUINT64_FORMAT " unfinished of an earlier run removed", fs->path,
            fs->n_debris_removed);
  if (fs->n_leftovers > 0)
    fs_say (fs, "info: leftover", "fs: %s: %" G_GUINT64_FORMAT " unfinished of LMCache, %" G_GUINT64_FORMAT " bytes: %s",
            fs->path, fs->n_leftovers, fs->leftover_bytes,
            fs->clean_tmp && !fs->shared && !fs->read_only ? "removed" : "left alone, see clean_tmp");
}

gboolean
fs_scan (gpointer handle, LmtL2Visit visit, gpointer data, GError **error)
{
  Fs *fs = handle;
  DIR *listing = open_listing (fs->dir);
  if (listing == NULL)
    {
      g_set_error (error, LMT_L2_ERROR, errno == EACCES ? LMT_L2_DENIED : LMT_L2_IO, "fs: %s: cannot be listed: %s", fs->path,
                   g_strerror (errno));
      return FALSE;
    }
  const struct dirent *entry;
  errno = 0;
  while ((entry = next_entry (listing)) != NULL)
    {
      found_in_base (fs, entry->d_name, visit, data);
      errno = 0;
    }
  int failed = errno;
  closedir (listing);
  if (failed != 0)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: %s: cannot be listed: %s", fs->path, g_strerror (failed));
      return FALSE;
    }
  scan_tmp_dir (fs);
  tell_found (fs);
  return TRUE;
}

gboolean
fs_holds_objects (Fs *fs)
{
  gboolean any = FALSE;
  DIR *listing = open_listing (fs->dir);
  const struct dirent *entry;
  while (listing != NULL && !any && (entry = next_entry (listing)) != NULL)
    {
      LmtKeyOwned key;
      any = kind_of_entry (entry->d_name, strlen (entry->d_name), &key) == ENTRY_OBJECT;
      if (any)
        lmt_key_owned_clear (&key);
    }
  if (listing != NULL)
    closedir (listing);
  return any;
}

/* Entries that are no objects; the directory for unfinished ones apart, what lies in it not. */
gint64
fs_count_debris (Fs *fs)
{
  gint64 n = 0;
  for (guint pass = 0; pass < (fs->tmp_dir != fs->dir ? 2u : 1u); pass++)
    {
      int dir = pass == 0 ? fs->dir : fs->tmp_dir;
      DIR *listing = open_listing (dir);
      const struct dirent *entry;
      while (listing != NULL && (entry = next_entry (listing)) != NULL)
        {
          struct stat st;
          LmtKeyOwned key;
          EntryKind kind = kind_of_entry (entry->d_name, strlen (entry->d_name), &key);
          if (kind == ENTRY_OBJECT)
            lmt_key_owned_clear (&key);
          if (strcmp (entry->d_name, ".lmt-lock") == 0 || strcmp (entry->d_name, ".lmt-store") == 0)
            continue;
          if (fstatat (dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR (st.st_mode) && fs->tmp_name != NULL
              && kind == ENTRY_FOREIGN)
            continue;
          n += pass == 1 || kind != ENTRY_OBJECT;
        }
      if (listing != NULL)
        closedir (listing);
    }
  return n;
}
