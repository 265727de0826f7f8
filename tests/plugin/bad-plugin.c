/* SPDX-License-Identifier: Apache-2.0 */

/* Bad plugins as test data: one source, one defect for each value of BAD. What is right about all of them stands once. */
#include <lmtrace/lmt-plugin.h>

#define NO_SYMBOL 1
#define NEXT_ABI 2
#define SHORT_STRUCT 3
#define SHORT_DESCRIPTOR 4
#define NULL_CALLBACK 5
#define BAD_NAME 6
#define BAD_PLUGIN_NAME 7
#define CLASH_FIRST 8
#define CLASH_SECOND 9
#define FAILS_HALFWAY 10
#define UNRESOLVED 11
#define NULL_DESCRIPTOR 12
#define NO_LOAD 13
#define NEWER 14
#define GOOD 15

#if BAD == NO_SYMBOL
gint not_the_symbol (void);

gint
not_the_symbol (void)
{
  return 1;
}
#else

static gpointer
bad_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  return NULL;
}

static void
bad_close (gpointer handle)
{
}

G_GNUC_UNUSED static guint32
bad_submit (gpointer handle, LmtL2Io *io)
{
  return LMT_L2_SUBMIT_BUSY;
}

static guint32
bad_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  return 0;
}

#  if BAD == UNRESOLVED
guint32 lmt_nobody_has_this (void);
#  endif

/* A table of a later release: members this core has never heard of, all set. */
typedef struct
{
  LmtL2Ops ops;
  gpointer later[8];
} LongerOps;

static LongerOps table = {
  .ops = {
#  if BAD == SHORT_STRUCT
    .struct_size = 24,
#  else
    .struct_size = sizeof (LongerOps),
#  endif
#  if BAD == BAD_NAME
    .name = "Bad Name",
#  elif BAD == CLASH_FIRST || BAD == CLASH_SECOND
    .name = "clash",
#  elif BAD == GOOD
    .name = "good",
#  else
    .name = "bad",
#  endif
    .open = bad_open,
    .close = bad_close,
#  if BAD == NULL_CALLBACK
    .submit = NULL,
#  else
    .submit = bad_submit,
#  endif
    .reap = bad_reap,
  },
  .later = { (gpointer) 1, (gpointer) 2, (gpointer) 3 },
};

static gboolean
bad_load (LmtRegistrar *registrar, GError **error)
{
  if (!lmt_registrar_add_l2 (registrar, &table.ops, error))
    return FALSE;
#  if BAD == FAILS_HALFWAY
  g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "this machine has no such device");
  return FALSE;
#  elif BAD == UNRESOLVED
  return lmt_nobody_has_this () != 0;
#  else
  return TRUE;
#  endif
}

/* A descriptor of a later release, likewise. */
typedef struct
{
  LmtPluginDescriptor descriptor;
  gpointer later[4];
} LongerDescriptor;

__attribute__ ((visibility ("default"))) const LmtPluginDescriptor *lmt_plugin_get (void);

const LmtPluginDescriptor *
lmt_plugin_get (void)
{
  static LongerDescriptor descriptor = { .descriptor = { sizeof (LongerDescriptor), LMT_PLUGIN_ABI, PLUGIN_NAME, "1.0",
                                                         "Apache-2.0", "Test data", bad_load, NULL },
                                         .later = { (gpointer)1 } };

#  if BAD == NEXT_ABI
  descriptor.descriptor.abi = LMT_PLUGIN_ABI + 1;
#  elif BAD == SHORT_DESCRIPTOR
  descriptor.descriptor.struct_size = 16;
#  elif BAD == NO_LOAD
  descriptor.descriptor.load = NULL;
#  elif BAD == NULL_DESCRIPTOR
  return NULL;
#  endif
  return &descriptor.descriptor;
}
#endif
