/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "storage-codecs.h"
#include "storage-keys.h"
#include "storage-release.h"

G_BEGIN_DECLS

/* Shared by storage-call.c and storage-call-prefetch.c; nobody else includes this. */

/* A layout of a group, out of group_layout_descs. */
typedef struct
{
  guint32 group;
  guint32 place; /* where it stood: of equal numbers the last one counts */
  guint64 bytes;
  LmtSpan value;
} GroupLayout;

struct _SmDecoder
{
  SmKeyReader reader;
  SmDecodeNotes notes;
  guint32 shapes;
  LmtSpan request_id;
  /* Prefetch. */
  SmRow *rows;
  guint32 *row_first; /* where a row's keys begin in the reader: its array may still move */
  guint n_rows, max_rows, max_row_first;
  LmtKey **grid; /* the flat list, row by row */
  guint max_grid;
  guint64 *cell_bytes;
  guint max_cell_bytes;
  guint32 *flat;
  guint n_flat, max_flat;
  gboolean has_flat;
  GroupLayout *layouts;
  guint n_layouts, max_layouts;
  gint64 *windows;
  guint max_windows;
  char release[SM_RELEASE_BYTES];
};

/* Arguments of all calls. */
enum
{
  ARG_KEYS,
  ARG_LAYOUT,
  ARG_MODE,
  ARG_EXTRA,
  ARG_LOCKS,
  ARG_REQUEST_ID,
  ARG_POLICY,
  ARG_ATTN,
  ARG_SKIP_L2,
  ARG_SPEC,
  N_ARGS
};

extern const SmField sm_arguments[N_ARGS];
extern const char *const sm_argument_places[N_ARGS];

/* Room for @need elements; only ever called with what was really read. */
#define GROW(array, max, need)                                                                                                   \
  G_STMT_START                                                                                                                   \
  {                                                                                                                              \
    if (G_UNLIKELY ((need) > (max)))                                                                                             \
      {                                                                                                                          \
        (max) = MAX ((need), (max)*2);                                                                                           \
        (array) = g_realloc_n ((array), (max), sizeof *(array));                                                                 \
      }                                                                                                                          \
  }                                                                                                                              \
  G_STMT_END

/* The argument is something else than expected; always FALSE. */
gboolean sm_fault_argument (LmtFault *fault, guint arg, const LmtCursor *cursor, const char *expected);
/* Beyond 63 bits: G_MAXINT64. */
gboolean sm_argument_int (const LmtSpan *found, guint arg, gint64 *value, LmtFault *fault);
/* The argument is a wrapper of @tag; @payload is set on what is in it. */
gboolean sm_argument_payload (const LmtSpan *found, guint arg, const char *tag, LmtCursor *payload, LmtFault *fault);
gboolean sm_argument_layout (SmDecoder *decoder, const LmtSpan *found, SmLayout *layout, LmtFault *fault);
/* 1..128, counted if it wasn't. */
guint32 sm_clamp_locks (SmDecoder *decoder, gint64 locks);
/* Without overflow. */
gint64 sm_plus_one (gint64 n);
/* Counts the keys of a list that is used, and what their form says of the release. */
void sm_note_keys (SmDecoder *decoder, const SmKeyList *list);
/* submit_prefetch_task of every release. */
gboolean sm_decode_prefetch (SmDecoder *decoder, const LmtSpan *found, SmCall *call, gboolean *missing, LmtFault *fault);

G_END_DECLS
