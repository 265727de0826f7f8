// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit-scenario.h"

/*
 * Trials: what scenarios can't say in steps. Load, concurrency, crash and leaks, against any adapter. Every object's content
 * follows from its number, so what comes back can be judged without keeping a copy.
 */
typedef struct
{
  const char *name;
  /* @why: (out) (transfer full): FAILED: what was expected and found; SKIPPED: the capability that is missing */
  KitVerdict (*run) (KitCheck *check, guint rounds, char **why);
} KitTrial;

extern const KitTrial kit_trials[]; /* ends with a NULL name */

/* Is this process the child of the crash trial? It then stores until it is killed. */
gboolean kit_crash_is_child (void);
int kit_crash_child (LmtRegistry *registry, const char *json, guint patience_s);

KitVerdict kit_crash_trial (KitCheck *check, guint rounds, char **why);
/* Opens, deletes what is there, closes: what a check left on the medium goes. */
void kit_check_wipe (KitCheck *check);
