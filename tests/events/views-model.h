// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-views.h"

/* The views, written down as plainly as they can be: strings, hash tables, lists walked from the start. For comparison only. */
typedef struct _Model Model;
Model *model_new (EventsCompat compat);
void model_free (Model *model);
void model_apply (Model *model, const EventsBatch *batch);
void model_fence (Model *model, const char *instance);
void model_depart (Model *model, const char *instance);
/* Everything there is to see, as text; and the same of the real ones. (transfer full) */
char *model_to_text (Model *model);
char *views_to_text (EventsViews *views);
