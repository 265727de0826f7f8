/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmtrace.h>

#include "storage-codecs.h"

/* A second decoder of storage calls, through msgpack-c trees, written from trace-format.md alone: slow, and nothing of it is
 * shared with the one under test but the table of dtypes, which has a test of its own. */

/* Texts of one call: equal exactly if the calls are. NULL: undecodable. */
char *oracle_text (guint32 op, LmtSpan args);
char *call_text (const SmCall *call, LmtSpan request_id, const guint32 *flat, guint n_flat);

/* Operation of a qualname, or -1. */
int oracle_op (LmtSpan qualname);

/* The same value in other bytes: members in another order, wide forms, members written twice with rubbish first. */
void oracle_encode_otherwise (LmtSpan value, GRand *rand, GByteArray *out);

/* JSON with three extras -> msgpack: {"$bin": "aa01"}, {"$tag": [tag, value]}, {"$ext": 5}, {"$pairs": [key, value, …]}. */
GByteArray *oracle_pack (const char *json);
