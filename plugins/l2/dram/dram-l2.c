/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-plugin.h>
