/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _RPCRDMA_GLUE_SUNRPC_H
#define _RPCRDMA_GLUE_SUNRPC_H

#endif
