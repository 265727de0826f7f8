/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For programs that link liblmtrace-1: everything a plugin sees, and what reads and writes files. Threads: as each header says.
 * Since: 0.1 */
#include "lmt-plugin.h"
#include "lmt-reader.h"
#include "lmt-recorder.h"
