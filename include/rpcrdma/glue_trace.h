/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Constants of the trace events: the values of the fields rtype and wtype, and the
 * length of an address.
 */
#ifndef _RPCRDMA_GLUE_TRACE_H
#define _RPCRDMA_GLUE_TRACE_H

#include <linux/in6.h>

/*
 * The form of a call or a reply. Filters on the stock module's events compare with
 * these numbers. rust/observe/trace/call.rs repeats them.
 */
#define RPCRDMA_FORM_INLINE		0
#define RPCRDMA_FORM_COPIED		1
#define RPCRDMA_FORM_GATHERED		2
#define RPCRDMA_FORM_READ_CHUNK		3
#define RPCRDMA_FORM_POSITION_ZERO	4
#define RPCRDMA_FORM_WRITE_CHUNK	5
#define RPCRDMA_FORM_REPLY_CHUNK	6

/* Length of a socket address of either family in an event. */
#define RPCRDMA_TRACE_ADDR_LEN	sizeof(struct sockaddr_in6)

#endif /* _RPCRDMA_GLUE_TRACE_H */
