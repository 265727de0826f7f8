/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-error.h"

G_DEFINE_QUARK (lmt-error-quark, lmt_error)
G_DEFINE_QUARK (lmt-l2-error-quark, lmt_l2_error)
