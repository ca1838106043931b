// SPDX-License-Identifier: GPL-2.0
/*
 * Stand-ins for the parts of SUNRPC that are not linked in. The kernel's own xprt.o, sched.o,
 * clnt.o and others call them. SUNRPC creates no files in debugfs and sysfs. rpcbind is not needed,
 * because the port is given.
 */
#include <linux/fault-inject.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_rdma.h>
#include <linux/sunrpc/svc_xprt.h>
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

/* --- The stock module registers a server transport, which is never used --- */

int svc_reg_xprt_class(struct svc_xprt_class *class)
{
	return 0;
}

void svc_unreg_xprt_class(struct svc_xprt_class *class)
{
}

void svc_pool_wake_idle_thread(struct svc_pool *pool)
{
}
