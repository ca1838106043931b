// SPDX-License-Identifier: GPL-2.0
/* The room rust/rdma brings its C glue along. */
#include "../rust/glue/ib.c"
