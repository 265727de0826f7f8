// SPDX-License-Identifier: Apache-2.0
#include "storage-config.h"
