// SPDX-License-Identifier: Apache-2.0
#include "events-gate.h"
