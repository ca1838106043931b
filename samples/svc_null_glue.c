// SPDX-License-Identifier: GPL-2.0
/* The room rust/sunrpc brings its C glue along. */
#include "../rust/glue/sunrpc.c"
