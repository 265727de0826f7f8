/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "storage-config.h"

G_BEGIN_DECLS

/* Shared by the files that make a StorageConfig; nobody else includes this. */

#define STORAGE_GIB (G_GUINT64_CONSTANT (1) << 30)
/* Sizes above this are refused: sums of them still fit 64 bits. */
#define STORAGE_MAX_BYTES (G_GUINT64_CONSTANT (1) << 60)

/* GiB to whole bytes, cut off; FALSE: not finite, negative or beyond STORAGE_MAX_BYTES. */
gboolean storage_gib_to_bytes (double gib, guint64 *bytes);
gboolean storage_is_power_of_two (guint64 n);

/* One --l1-manager object of type DRAM; what it leaves out comes from @config, which holds the flags' values.
 * @policy_known: (inout): an eviction policy is known */
gboolean storage_config_read_l1_managers (StorageConfig *config, const char *const *arguments, gboolean *policy_known,
                                          GError **error);

/* --config-from-trace: L1 and policies of the header, as far as @options doesn't say otherwise. */
gboolean storage_config_from_header (StorageConfig *config, const LmtHeader *header, const LmtOptions *options,
                                     LmtWarnings *warnings, gboolean *size_known, gboolean *policy_known, GError **error);

/* IsolatedLRU can't serve L1 (storage-manager.md 14, defect 1). */
gboolean storage_config_check_policy (LmtEvictKind policy, const char *where, GError **error);

G_END_DECLS
