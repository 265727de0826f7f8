/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2-layer.h"
