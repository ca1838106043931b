/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the trace events share: the numbers in the rtype and wtype fields, and
 * the room for an address.
 */
#ifndef _RPCRDMA_GLUE_TRACE_H
#define _RPCRDMA_GLUE_TRACE_H

#include <linux/in6.h>

/*
 * How a call or a reply travels. The numbers are the ones that filters on the
 * stock module's events compare with; rust/observe/trace.rs has them too.
 */
#define RPCRDMA_FORM_INLINE		0
#define RPCRDMA_FORM_COPIED		1
#define RPCRDMA_FORM_GATHERED		2
#define RPCRDMA_FORM_READ_CHUNK		3
#define RPCRDMA_FORM_POSITION_ZERO	4
#define RPCRDMA_FORM_WRITE_CHUNK	5
#define RPCRDMA_FORM_REPLY_CHUNK	6

/* Room for a socket address of either family in an event. */
#define RPCRDMA_TRACE_ADDR_LEN	sizeof(struct sockaddr_in6)

#endif /* _RPCRDMA_GLUE_TRACE_H */
