// SPDX-License-Identifier: Apache-2.0
#pragma once

/**
 * SECTION: the keys of a trace, as `info --stats` sees them: how many, asked for how often, and after how many others again.
 *
 * Memory is bounded whatever the trace holds: up to INFO_KEYS_MAX keys are followed, each by a 64-bit hash of its five fields.
 * When there are more, only those whose hash lies below a threshold are (which halves as often as needed), and counts are scaled:
 * the sample of SHARDS (Waldspurger et al., FAST 2015), which keeps reuse.
 */
#include <lmtrace/lmtrace.h>

G_BEGIN_DECLS

enum
{
  INFO_KEYS_MAX = 1 << 18,
  INFO_TENANTS_MAX = 1000,
};

/**
 * InfoKey: one key that is followed. Valid until the next info_keys_touch().
 * @tenant: index in the table of tenants, or INFO_TENANTS_MAX: one too many
 * @window: number of the window it was last seen in; the caller's
 * @text: (nullable): MODEL, rank, group, hash, salt; only if names are wanted
 */
typedef struct
{
  guint64 hash; /* 0: free */
  guint64 bytes;
  double last_s; /* time of the last reference; NaN: none known */
  guint32 references;
  guint32 place; /* in the order of references; 0: none yet */
  guint32 tenant;
  guint32 window;
  gint32 open_writes;
  gint32 open_reads;
  char *text;
} InfoKey;

typedef struct
{
  char *model;
  char *salt;
  guint64 rank;
  guint64 keys;
  guint64 references;
} InfoTenant;

typedef struct _InfoKeys InfoKeys;

/* @names: keep each key's text, for --top. */
InfoKeys *info_keys_new (gboolean names);
void info_keys_free (InfoKeys *keys);

/* The entry of a key, made if need be; NULL: the sample leaves it out. */
InfoKey *info_keys_touch (InfoKeys *keys, const LmtKeyFields *fields);
/* A reference to it: distinct keys referenced since its last one (scaled), or -1 for the first. */
gint64 info_keys_reference (InfoKeys *keys, InfoKey *key);

/* What one followed key stands for: 1, 2, 4, … */
guint64 info_keys_get_scale (const InfoKeys *keys);
guint64 info_keys_get_count (const InfoKeys *keys); /* scaled */
void info_keys_foreach (InfoKeys *keys, void (*func) (InfoKey *key, gpointer data), gpointer data);
guint info_keys_get_n_tenants (const InfoKeys *keys);
InfoTenant *info_keys_get_tenant (InfoKeys *keys, guint i);
guint64 info_keys_get_lost_tenants (const InfoKeys *keys); /* keys of tenants beyond INFO_TENANTS_MAX */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (InfoKeys, info_keys_free)

G_END_DECLS
