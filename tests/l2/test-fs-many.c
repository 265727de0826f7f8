/* SPDX-License-Identifier: Apache-2.0 */

/* A directory that holds many objects: all are counted and listed, in order, and open takes a bounded memory for each. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../count-mallocs.h"
#include "l2-rig.h"

enum
{
  N_INODES = 40, /* the names are links to these, as making a name is cheaper than making a file; ext4 takes 65,000 of one */
  N_DEFAULT = 100000,
  BYTES_PER_OBJECT = 320,
  BYTES_BESIDE = 12 << 20, /* last pages of the tables, threads, the ring */
};

static guint n_files = N_DEFAULT;

static guint64
size_of (guint i)
{
  return 1 + i % N_INODES;
}

/* Fields that look different in a name and in the key: ranks of more than 8 digits, groups of two, the salt behind the hash, a
 * model that begins as another does. */
static LmtKeyFields
fields_of (guint i, guint64 hash[4])
{
  static const char *const models[] = { "org/m", "org/m", "org/m-2", "org.m" };
  static const char *const salts[] = { "", "", "alice", "a" };
  static const guint64 ranks[] = { 0x01000100, 0x01000100, 0x02010201, 0xffffffff, 0x100000000, 0x2000000000 };
  static const guint32 groups[] = { 0, 0, 1, 15, 16, 300 };
  const char *model = models[i / 7 % G_N_ELEMENTS (models)], *salt = salts[i / 3 % G_N_ELEMENTS (salts)];
  /* Every other one has its hash in common with the one before: then salt, rank, group or model decide. */
  guint64 number = i / 2;
  for (guint word = 0; word < 4; word++)
    hash[word] = GUINT64_TO_LE (lmt_mix64 (4 * number + word + 1));
  return (LmtKeyFields){ .struct_size = sizeof (LmtKeyFields),
                         .rank = i % 2 != 0 ? 0x7777 : ranks[i / 5 % G_N_ELEMENTS (ranks)],
                         .group = groups[i / 11 % G_N_ELEMENTS (groups)],
                         .hash = (const guint8 *)hash,
                         .hash_len = 32,
                         .model = model,
                         .model_len = (guint32)strlen (model),
                         .salt = salt,
                         .salt_len = (guint32)strlen (salt) };
}

static void
name_of (guint i, GString *name)
{
  guint64 hash[4];
  LmtKeyFields fields = fields_of (i, hash);
  lmt_key_fields_file (&fields, name);
}

/* FALSE: no room. */
static gboolean
make_files (const char *dir)
{
  const struct timespec times[2] = { { 1700000000, 0 }, { 1700000000, 0 } };
  int folder = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  g_autoptr (GString) name = g_string_new (NULL);
  g_autoptr (GString) first = g_string_new (NULL);
  gboolean room = TRUE;
  for (guint i = 0; i < n_files && room; i++)
    {
      name_of (i, name);
      if (i >= N_INODES)
        {
          name_of (i % N_INODES, first);
          room = linkat (folder, first->str, folder, name->str, 0) == 0;
          g_assert_true (room || errno == ENOSPC || errno == EDQUOT);
          continue;
        }
      int fd = openat (folder, name->str, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      g_assert_cmpint (fd, >=, 0);
      g_assert_cmpint (ftruncate (fd, (off_t)size_of (i)), ==, 0);
      g_assert_cmpint (futimens (fd, times), ==, 0); /* all of one age: the name is the order */
      close (fd);
    }
  close (folder);
  return room;
}

static guint64
status_number (const char *name)
{
  g_autofree char *text = NULL;
  g_assert_true (g_file_get_contents ("/proc/self/status", &text, NULL, NULL));
  const char *at = strstr (text, name);
  guint64 kib = 0;
  g_assert_nonnull (at);
  g_assert_cmpint (sscanf (at + strlen (name), "%" G_GUINT64_FORMAT, &kib), ==, 1);
  return kib * 1024;
}

/* The peak counts from now on. 0: this kernel can't say. */
static guint64
memory_before (void)
{
  FILE *file = fopen ("/proc/self/clear_refs", "w");
  gboolean good = file != NULL && fputs ("5", file) >= 0;
  good = file != NULL && fclose (file) == 0 && good;
  return good ? status_number ("VmRSS:") : 0;
}

typedef struct
{
  guint64 n;
  guint64 bytes;
  GString *last;
  GString *name;
} Listing;

static void
on_event (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  Listing *listing = data;
  if (kind != LMT_L2_STORED)
    return;
  g_assert_cmpuint (n, ==, 1);
  listing->n++;
  listing->bytes += sizes[0];
  lmt_key_fields_file (&keys[0]->fields, listing->name);
  g_assert_cmpint (strcmp (listing->last->str, listing->name->str), <, 0);
  g_string_assign (listing->last, listing->name->str);
}

static void
check (const char *dir)
{
  guint64 bytes = 0;
  for (guint i = 0; i < n_files; i++)
    bytes += size_of (i);
  Rig rig;
  guint64 before = memory_before ();
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  guint64 peak = status_number ("VmHWM:");
  g_test_message ("%u objects: %" G_GUINT64_FORMAT " bytes each at the most", n_files, (peak - before) / n_files);
  if (before > 0 && mallocs_are_counted ())
    g_assert_cmpuint (peak - before, <=, (guint64)n_files * BYTES_PER_OBJECT + BYTES_BESIDE);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, bytes);
  g_autofree char *foreign = rig_status (&rig, "foreign_files");
  g_assert_cmpstr (foreign, ==, "0");
  Listing listing = { .last = g_string_new (NULL), .name = g_string_new (NULL) };
  lmt_l2_set_event_func (rig.l2, on_event, &listing);
  g_assert_cmpuint (listing.n, ==, n_files);
  g_assert_cmpuint (listing.bytes, ==, bytes);
  lmt_l2_set_event_func (rig.l2, NULL, NULL);
  g_string_free (listing.last, TRUE);
  g_string_free (listing.name, TRUE);
  for (guint i = 0; i < n_files; i += n_files / 8 - 1)
    {
      guint64 hash[4];
      LmtKeyFields fields = fields_of (i, hash);
      LmtKey *key = lmt_key_table_intern (rig.keys, &fields);
      g_assert_cmpint (rig_lookup (&rig, key, size_of (i)), ==, LMT_L2_OK);
      g_assert_cmpint (rig_delete (&rig, key), ==, LMT_L2_OK);
      bytes -= size_of (i);
    }
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, bytes);
  rig_close (&rig);
}

/* More than the default come into memory: a disk would be at it for half a minute. */
static gboolean
mount_memory (const char *dir)
{
  return unshare (CLONE_NEWNS) == 0 && mount ("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
         && mount ("none", dir, "tmpfs", 0, "size=2g,nr_inodes=0") == 0;
}

static void
test_many (void)
{
  g_autofree char *dir = make_temp_dir ();
  gboolean mounted = n_files > N_DEFAULT;
  if (mounted && !mount_memory (dir))
    g_test_skip ("tmpfs can't be mounted");
  else if (!make_files (dir))
    g_test_skip ("no room for so many names");
  else
    check (dir);
  if (mounted)
    umount2 (dir, MNT_DETACH);
  remove_tree (dir);
}

int
main (int argc, char **argv)
{
  const char *asked = g_getenv ("LMT_TEST_MANY");
  g_test_init (&argc, &argv, NULL);
  if (asked != NULL)
    n_files = (guint)g_ascii_strtoull (asked, NULL, 10);
  else if (!mallocs_are_counted ())
    n_files = N_DEFAULT / 10; /* a sanitizer or valgrind watches */
  g_test_add_func ("/fs-many", test_many);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
