// SPDX-License-Identifier: GPL-2.0
/* The rooms rust/rdma and rust/mem bring their C glue along. */
#include "../rust/glue/ib.c"
#include "../rust/glue/mem.c"
