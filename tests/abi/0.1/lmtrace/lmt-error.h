/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * LMT_ERROR:
 *
 * Error domain of core and of levels. Messages read `file: where: what: expected X, found Y`; each caller prefixes only
 * what it alone knows. Codes are only ever appended. Threads: any, everywhere in this header.
 *
 * Since: 0.1
 */
#define LMT_ERROR (lmt_error_quark ())

/**
 * LmtError:
 * @LMT_ERROR_IO: the system refused (open, read, write, disk full)
 * @LMT_ERROR_TRUNCATED: bytes are missing at the end
 * @LMT_ERROR_CORRUPT: bytes are there but can't be what they should be
 * @LMT_ERROR_VERSION: a format or schema number this build doesn't know
 * @LMT_ERROR_NO_LEVEL: no loaded plugin offers the level
 * @LMT_ERROR_NO_CODEC: no loaded plugin offers the tag
 * @LMT_ERROR_NO_ADAPTER: no loaded plugin offers the adapter type
 * @LMT_ERROR_NO_COMMAND: no loaded plugin offers the command
 * @LMT_ERROR_OPTION: a flag or a configuration key or its value
 * @LMT_ERROR_PLUGIN_OPEN: the loader refused the file
 * @LMT_ERROR_PLUGIN_ABI: plugin and core speak different ABI numbers
 * @LMT_ERROR_PLUGIN_TABLE: a table of the plugin is too short, misses a member or bears a bad name
 * @LMT_ERROR_PLUGIN_CLASH: what the plugin registers is taken
 * @LMT_ERROR_PLUGIN_LOAD: load() of the plugin said no
 * @LMT_ERROR_JSON: text that is no JSON, or not of the wanted shape
 * @LMT_ERROR_UNSUPPORTED: understood, but not to be had here
 * @LMT_ERROR_INTERRUPTED: a signal ended the run
 */
typedef enum
{
  LMT_ERROR_IO = 1,
  LMT_ERROR_TRUNCATED,
  LMT_ERROR_CORRUPT,
  LMT_ERROR_VERSION,
  LMT_ERROR_NO_LEVEL,
  LMT_ERROR_NO_CODEC,
  LMT_ERROR_NO_ADAPTER,
  LMT_ERROR_NO_COMMAND,
  LMT_ERROR_OPTION,
  LMT_ERROR_PLUGIN_OPEN,
  LMT_ERROR_PLUGIN_ABI,
  LMT_ERROR_PLUGIN_TABLE,
  LMT_ERROR_PLUGIN_CLASH,
  LMT_ERROR_PLUGIN_LOAD,
  LMT_ERROR_JSON,
  LMT_ERROR_UNSUPPORTED,
  LMT_ERROR_INTERRUPTED,
} LmtError;

GQuark lmt_error_quark (void);

/**
 * lmt_error_set_place:
 * @error: (nullable): of another domain: nothing happens
 * @file: (nullable) (type filename): as it was named, in whatever bytes; NULL leaves the file that is set
 * @offset: in bytes from the start of @file; below 0 leaves the offset that is set
 *
 * Which file the error is about, for machines: messages say it to people. What is set first stays: whoever knows best is nearest
 * to the trouble. Kept by g_error_copy(), g_propagate_error() and g_prefix_error().
 *
 * Since: 0.1
 */
void lmt_error_set_place (GError *error, const char *file, gint64 offset);
const char *lmt_error_get_file (const GError *error); /* (nullable) (transfer none): as long as @error */
gint64 lmt_error_get_offset (const GError *error);    /* -1: none */

/**
 * LMT_L2_ERROR:
 *
 * Error domain of every L2 adapter; its codes are the failures of #LmtL2Code (lmt-l2.h).
 */
#define LMT_L2_ERROR (lmt_l2_error_quark ())
GQuark lmt_l2_error_quark (void);

/**
 * LmtFault:
 * @offset: start of the frame (its length prefix), in bytes from the start of the file
 * @number: number of the record (from 1), or of the frame where the frame is no record; 0 is the header's frame
 * @length: bytes of the frame's body, or 0: not worth a mention
 * @reason: (nullable): a word or two, static: `invalid-msgpack`, `unknown tag`, …
 * @where: (nullable): path of the value, static, at most one `%u` which @index fills: `args.keys[%u]`
 * @expected: (nullable): static
 * @found: (nullable): static; @found_n is shown behind it if @has_found_n
 *
 * Where the trouble is and what it is, without an allocation and without formatting: the loop fills it and goes on.
 * Whoever shows it calls lmt_fault_to_string(). @detail is a short copy for words that come from the file.
 */
typedef struct
{
  guint64 offset;
  guint64 number;
  guint64 length;
  const char *reason;
  const char *where;
  const char *expected;
  const char *found;
  guint64 found_n;
  guint32 index;
  guint8 has_found_n;
  char detail[47];
} LmtFault;

/**
 * lmt_fault_to_string:
 * Returns: (transfer full): `record N at offset O (L bytes): where: reason: detail: expected X, found Y`, what is absent left out
 */
char *lmt_fault_to_string (const LmtFault *fault);

/* Copies at most 46 bytes of @text into @fault->detail, cut at a character, controls replaced by '?'. */
void lmt_fault_set_detail (LmtFault *fault, const char *text, gsize len);

G_END_DECLS
