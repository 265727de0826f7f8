// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit-scenario-private.h"

/*
 * Each check runs in a child process, so that an adapter that crashes, exits or hangs ends one check and not the command. The
 * parent loads the plugin and calls nothing of it but what parsing a configuration needs; it has no threads when it forks.
 */
typedef KitVerdict (*KitChildFunc) (KitCheck *check, gpointer data, char **why);

/**
 * kit_child_run:
 * @why: (out) (transfer full) (nullable): what @func said, or where it crashed, ended or hung: `STEP: expected …, found …`
 *
 * Runs @func in a child and brings back its verdict, its text and what it learnt of the adapter (LmtL2Info, waits in vain,
 * objects found). A child that tells of no progress for as long as it asked for (kit_progress) is killed. One call at a time.
 */
KitVerdict kit_child_run (KitCheck *check, KitChildFunc func, gpointer data, char **why);
