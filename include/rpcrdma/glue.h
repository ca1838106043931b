/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prototypes of the C glue in rust/glue/: one-line wrappers, named rr_*, around
 * what bindgen cannot bind (static inlines and macros). No policy here.
 */
#ifndef _RPCRDMA_GLUE_H
#define _RPCRDMA_GLUE_H

#include <rpcrdma/glue_compat.h>
#include <rpcrdma/glue_ib.h>
#include <rpcrdma/glue_mem.h>
#include <rpcrdma/glue_sunrpc.h>

#endif /* _RPCRDMA_GLUE_H */
