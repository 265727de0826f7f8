/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/*
 * Runs contract scenarios (schema lmtrace-l2-contract/1, l2-adapters.md 14) against any adapter that a configuration names. Knows
 * no adapter and no test framework.
 */
typedef struct _L2Check L2Check;

typedef enum
{
  L2_CHECK_PASSED,
  L2_CHECK_FAILED,
  L2_CHECK_SKIPPED,
} L2CheckVerdict;

/* @config_json: as for --l2-adapter; the adapter's medium must be empty. */
L2Check *l2_check_new (LmtRegistry *registry, const char *config_json, GError **error);
void l2_check_free (L2Check *check);

/**
 * l2_check_run:
 * @name: (out) (transfer full): of the scenario, or of the file if that can't be read
 * @why: (out) (transfer full) (nullable): `step N (OP): expected X, found Y`, or the capability that is missing
 *
 * One file; scenarios in which time matters are run 20 times. Leaves the medium empty.
 */
L2CheckVerdict l2_check_run (L2Check *check, const char *path, char **name, char **why);

/* l2-check-match.c: every member of @norm must be in @found with an equal value; {"any_of": […]} is one of them, at any depth. */
gboolean l2_check_matches (const LmtJson *norm, const LmtJson *found);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (L2Check, l2_check_free)
