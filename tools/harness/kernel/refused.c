// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of work requests that the driver refuses. Nothing completes then, so only the refusal
 * shows the module that the connection is to be closed. And of swap, TLS and devices, which the
 * module refuses.
 */
#include "harness.h"

/* More RPCs than there are Receives. */
#define ROUND	256

static const struct h_reply plain;

static void run(enum h_kind_number kind)
{
	struct h_rpc *rpc = h_rpc_new(kind);

	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
}

/* Receives are not posted again. The connection ends before the peer finds none. */
void h_receives_refused(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	h_faults.receives = true;
	for (i = 0; i < ROUND && !h_disconnects; i++)
		run(H_INLINE);
	h_faults.receives = false;
	h_expect(h_disconnects, "the connection is used without Receives");
	run(H_INLINE);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_end();
}

/* The memory of an answered call cannot be invalidated. The close does that. */
void h_invalidation_refused(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	h_faults.invalidation = true;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_faults.invalidation = false;
	h_expect(h_disconnects, "the connection is used although a LOCAL_INV was refused");
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	run(H_READ_4K);
	h_end();
}

/* SUNRPC asks for the first swap file only, so calls for another one fail. */
void h_swap_refused(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_expect(h_xprt->ops->enable_swap(h_xprt) == -EOPNOTSUPP, "swap is not refused");
	rpc = h_rpc_new(H_WRITE_4K);
	h_rpc_start(rpc, RPC_TASK_SWAPPER);
	h_expect(rpc->released && rpc->status == -EIO, "a call for swap ends with %d", rpc->status);
	h_rpc_free(rpc);
	h_end();
}

static void want_tls(void *unused)
{
	struct rpc_xprt *xprt = h_xprt_create(RPC_XPRTSEC_TLS_ANON);

	h_expect(xprt == ERR_PTR(-EACCES), "a transport without TLS is made for a caller of TLS");
}

/* NFS asks for an encrypted transport where a referral leads on from an encrypted mount. */
void h_tls_refused(void)
{
	h_begin();
	h_spawn("referral", want_tls, NULL);
	h_settle();
	h_connect();
	run(H_READ_4K);
	h_end();
}

/* A region would have pages of another size than the device takes them for. */
void h_pages_unknown(void)
{
	struct h_rpc *rpc;

	h_page_sizes = SZ_2M;
	h_begin();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, RPC_TASK_SOFTCONN);
	h_live(100);
	h_expect(rpc->released && rpc->status == -EPROTO, "a mount ends with %d", rpc->status);
	h_expect(!h_connections, "the device is used");
	h_rpc_free(rpc);
	h_end();
	h_page_sizes = PAGE_SIZE;
}
