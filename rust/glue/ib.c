// SPDX-License-Identifier: GPL-2.0
#include <rpcrdma/glue_ib.h>
