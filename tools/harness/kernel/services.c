// SPDX-License-Identifier: GPL-2.0
/*
 * Stand-ins for the parts of SUNRPC that are not linked in. The kernel's own xprt.o, sched.o,
 * clnt.o and others call them. SUNRPC creates no files in debugfs and sysfs. rpcbind is not needed,
 * because the port is given.
 */
#include <linux/fault-inject.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svcauth.h>
#include <linux/sunrpc/xprtmultipath.h>
#include "harness.h"

unsigned int rpc_debug;
unsigned int sunrpc_net_id;
/* SUNRPC's fault injection, which is off. Its structure is private to SUNRPC, and not larger. */
u8 fail_sunrpc[512] = { [0 ... 511] = 1 };

bool should_fail(struct fault_attr *attr, ssize_t size)
{
	return false;
}

void rpcb_getport_async(struct rpc_task *task)
{
	u_fail("SUNRPC asks rpcbind for a port");
}

void rpc_xprt_debugfs_register(struct rpc_xprt *xprt)
{
}

void rpc_xprt_debugfs_unregister(struct rpc_xprt *xprt)
{
}

void rpc_sysfs_xprt_destroy(struct rpc_xprt *xprt);
void rpc_sysfs_xprt_destroy(struct rpc_xprt *xprt)
{
}

/* --- The service: every requester is accepted, with AUTH_NULL --- */

enum svc_auth_status svc_authenticate(struct svc_rqst *rqstp)
{
	struct xdr_stream *arguments = &rqstp->rq_arg_stream, *results = &rqstp->rq_res_stream;

	rqstp->rq_auth_stat = rpc_auth_ok;
	if (!xdr_inline_decode(arguments, 16)) {
		h_expect(h_hostile, "a call ends before its arguments");
		return SVC_GARBAGE;
	}
	h_expect(xdr_stream_encode_opaque_auth(results, RPC_AUTH_NULL, NULL, 0) >= 0 &&
		 svcxdr_set_accept_stat(rqstp), "there is no room for a reply");
	return SVC_OK;
}

int svc_authorise(struct svc_rqst *rqstp)
{
	return 0;
}

/* No cache keeps a deferred call. */
void cache_clean_deferred(void *owner)
{
}

/* No service has a socket. */
void svc_sock_update_bufs(struct svc_serv *serv)
{
}
