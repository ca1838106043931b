// SPDX-License-Identifier: GPL-2.0
/* The rooms rust/sunrpc and rust/mem bring their C glue along. */
#include "../rust/glue/sunrpc.c"
#include "../rust/glue/mem.c"
