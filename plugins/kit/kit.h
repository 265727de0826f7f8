// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

extern const LmtCommandOps kit_check_ops;
extern const LmtCommandOps kit_bench_ops;
extern const LmtCommandOps kit_new_ops;

/* A folder of lmtrace's own data: beside this plugin in a build tree, else where the plugin was installed tells where the data
 * is. (transfer full) */
char *kit_data_dir (const char *below);
