/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-json.h"
