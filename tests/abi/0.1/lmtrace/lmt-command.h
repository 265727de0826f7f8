/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-log.h"
#include "lmt-option.h"
#include "lmt-output.h"

G_BEGIN_DECLS

typedef struct _LmtRegistry LmtRegistry;

/**
 * LmtCommandContext: what a command gets. Everything is borrowed for the call. @config: filled from LmtCommandOps.options.
 * @operands: words that are no options, NULL-terminated
 * @interrupts: number of SIGINT/SIGTERM/SIGHUP seen; read it in loops
 * @table_requests: number of SIGUSR1 seen
 */
typedef struct
{
  guint32 struct_size;
  guint32 strict;
  LmtRegistry *registry;
  const LmtOptions *options;
  gconstpointer config;
  const char *const *operands;
  LmtOutput *output;
  LmtWarnings *warnings;
  const volatile gint *interrupts;
  const volatile gint *table_requests;
  const char *progress; /* auto always never */
  guint32 quiet;
  guint32 verbose;
  gpointer prepared; /* what prepare() left */
} LmtCommandContext;

/**
 * LmtCommandOps: a subcommand of `lmtrace`. @run returns the exit code 0, 1, 2 or 130; with @error set it is printed as the one
 * line. Errors: %LMT_ERROR codes; 2 if nothing was run, 1 if it was run and the target failed. Threads: main.
 * @config_size: bytes of the struct @options' offsets lie in; zeroed, filled, and freed after @run
 * @prepare: (nullable): called with the words before the strict parse: may add tables that depend on a FILE. FALSE: @error, exit
 * 2
 *
 * Since: 0.1
 */
typedef struct
{
  guint32 struct_size;
  guint32 config_size;
  const char *name;
  const char *summary;         /* one sentence, imperative, no final stop */
  const char *synopsis;        /* `[OPTIONS] FILE…` */
  const char *const *examples; /* NULL-terminated */
  const LmtOption *options;
  int (*run) (const LmtCommandContext *context, GError **error);
  gboolean (*prepare) (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *prepared, GError **error);
  void (*prepared_free) (gpointer prepared);
  guint32 min_operands;
  guint32 max_operands;  /* 0: none, G_MAXUINT32: any */
  const char *more_text; /* (nullable): paragraphs behind the options of --help and in the man page */
  guint32 checks_output; /* the command calls lmt_output_check() itself: it makes folders the output may lie in */
  guint32 reserved;
} LmtCommandOps;

/* What prepare() left for run(), or NULL. It belongs to the caller, who frees it by prepared_free() after run(). */
gpointer lmt_command_context_get_prepared (const LmtCommandContext *context);

G_END_DECLS
