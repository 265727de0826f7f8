/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-option.h"

G_BEGIN_DECLS

/**
 * OptionSlot: one row in use.
 * @text: as given, or the default's text; lists joined by ';'
 * @list: STRINGS only; its array is the member
 * @provisional: set by a first, not strict pass: the strict pass begins anew
 */
typedef struct
{
  const LmtOption *row;
  gpointer config;
  LmtOrigin origin;
  char *text;
  GPtrArray *list;
  gboolean provisional;
} OptionSlot;

struct _LmtOptions
{
  GPtrArray *slots; /* in order of the tables */
  GHashTable *by_name;
  GPtrArray *strings; /* every text a config struct may point to */
};

/* The accepted form of a type: "a whole number". */
const char *lmt_option_form (guint32 type);
/* Form and range of one row: "a whole number from 1 to 1024". (transfer full) */
char *lmt_option_expected (const LmtOption *row);
/* In words for people: "1 to 1024", "at least 0"; "" without a range. (transfer full) */
char *lmt_option_range_words (const LmtOption *row);
OptionSlot *lmt_options_find_slot (const LmtOptions *options, const char *name);
/* Stores a text; no message of its own: FALSE means it isn't what lmt_option_expected() says. */
gboolean lmt_option_slot_set (LmtOptions *options, OptionSlot *slot, const char *text, LmtOrigin origin);
/* Values of a pass that was not strict go back to their defaults. */
void lmt_options_forget_first_pass (LmtOptions *options);

G_END_DECLS
