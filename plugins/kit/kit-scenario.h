/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/*
 * Runs contract scenarios (schema lmtrace-l2-contract/1, l2-adapters.md 14) against any adapter that a configuration names. Knows
 * no adapter and no test framework.
 */
typedef struct _KitCheck KitCheck;

typedef enum
{
  KIT_PASSED,
  KIT_FAILED,
  KIT_SKIPPED,
} KitVerdict;

/* @config_json: as for --l2-adapter; the adapter's medium must be empty: the check deletes what it finds. @broken: (out)
 * (transfer full) (nullable): it crashed or hung when it was opened */
KitCheck *kit_scenario_new (LmtRegistry *registry, const char *config_json, guint patience_s, char **broken, GError **error);
void kit_scenario_free (KitCheck *check);

/**
 * kit_scenario_run:
 * @name: (out) (transfer full): of the scenario, or of the file if that can't be read
 * @why: (out) (transfer full) (nullable): `step N (OP): expected X, found Y`, or the capability that is missing
 *
 * One file, in a child process; scenarios in which time matters are run 20 times. Leaves the medium empty unless the adapter
 * crashed or hung.
 */
KitVerdict kit_scenario_run (KitCheck *check, const char *path, char **name, char **why);
/* The name of a file's scenario without running it. (transfer full) */
char *kit_scenario_name (const char *path);
/* What the adapter said of itself when it was opened. */
const LmtL2Info *kit_scenario_get_info (const KitCheck *check);
const char *kit_scenario_get_json (const KitCheck *check);
LmtRegistry *kit_scenario_get_registry (const KitCheck *check);

/* kit-match.c: every member of @norm must be in @found with an equal value; {"any_of": […]} is one of them, at any depth. */
gboolean kit_scenario_matches (const LmtJson *norm, const LmtJson *found);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (KitCheck, kit_scenario_free)
