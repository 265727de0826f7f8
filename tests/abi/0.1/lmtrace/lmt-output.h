/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "lmt-log.h"
#include "lmt-report.h"

G_BEGIN_DECLS

/**
 * SECTION: where reports and files go. Commands get theirs in LmtCommandContext and call lmt_output_report() or lmt_output_raw()
 * once. Threads: main. Errors: LMT_ERROR_IO with the path in front. Lifetime: texts are written or copied during the call.
 *
 * Since: 0.1
 */

/**
 * LmtOutput: where a command's report goes (cli.md 8.5): --format, --json[=PATH], --output, -q. One per command run.
 */
typedef struct _LmtOutput LmtOutput;

typedef enum
{
  LMT_FORMAT_TEXT,
  LMT_FORMAT_JSON,
  LMT_FORMAT_CSV
} LmtFormat;

LmtOutput *lmt_output_new (const char *command, LmtFormat format, const char *path, gboolean quiet, LmtWarnings *warnings);
void lmt_output_free (LmtOutput *output);
LmtFormat lmt_output_get_format (const LmtOutput *output);
gboolean lmt_output_is_quiet (const LmtOutput *output);
/* Text reports step aside to stderr because a stream took stdout. */
void lmt_output_set_stdout_taken (LmtOutput *output);
/* Is the place writable? Creates nothing that stays. */
gboolean lmt_output_check (LmtOutput *output, GError **error);

/* The same for any file a command will write: a folder that takes new files, no directory of that name. `-` is fine. */
gboolean lmt_output_check_path (const char *path, GError **error);
/* An output that is an input would destroy it: compared by device and inode, so that no other name hides it. @path: (nullable).
 * @inputs: (nullable): up to NULL; `-` is none. FALSE: `FLAG: PATH: expected a file of its own, found the trace INPUT`. */
gboolean lmt_output_check_inputs (const char *flag, const char *path, const char *const *inputs, GError **error);

/**
 * lmt_output_report: text, CSV or the envelope `{"schema": "lmtrace/COMMAND/1", "title", "metrics", "warnings", "partial",
 * "exit"}`.
 * @csv: (nullable): the report's CSV form; NULL: the general one of lmt_report_to_csv()
 */
gboolean lmt_output_report (LmtOutput *output, const LmtReport *report, const char *csv, gboolean partial, int exit_code,
                            GError **error);
/* For reports that aren't sections: ready text, and `metrics` as the text of a JSON object. */
gboolean lmt_output_raw (LmtOutput *output, const char *title, const char *text, const char *metrics_json, const char *csv,
                         gboolean partial, int exit_code, GError **error);
/* The envelope of a failure, only with --format json, and only if no report came before it: stdout holds one document. `file` and
 * `offset` are those of lmt_error_set_place(). */
void lmt_output_failure (LmtOutput *output, const GError *error, int exit_code);

/* Does the name ask for compression: `.gz`, `.zst`? */
const char *lmt_output_get_path (const LmtOutput *output); /* of --output; (nullable) */
gboolean lmt_output_is_packed (const char *path);
/* A stream on @fd, packed if the name of @path asks for it. The stream owns @fd (fileno() is -1 for a packed one); NULL: errno,
 * and @fd is still the caller's. fclose() fails if the rest could not be written. */
FILE *lmt_output_open_stream (int fd, const char *path);
/* Writes to a temporary name beside @path and renames. `-`: stdout; devices and pipes are written in place. */
gboolean lmt_output_write_file (const char *path, const char *data, gssize len, GError **error);
/* stdout: TRUE on success; EPIPE ends quietly with exit 0 by way of lmt_output_stdout_closed(). */
gboolean lmt_output_stdout (const char *data, gssize len, GError **error);
gboolean lmt_output_stdout_closed (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtOutput, lmt_output_free)

G_END_DECLS
