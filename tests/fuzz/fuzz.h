/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: a target is one function. Linked with libFuzzer (-Dfuzz=true) it is fed for as long as one likes; linked with
 * fuzz-main.c it runs the corpus and simple mutations of it, which is a normal test with any compiler.
 */
#include <lmtrace/lmtrace.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);
