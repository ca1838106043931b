/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads. Alphabetical. The types of these headers that the kernel
 * crate binds too are taken from there.
 */
#ifndef _RPCRDMA_BINDINGS_H
#define _RPCRDMA_BINDINGS_H

#include <linux/scatterlist.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/debug.h>
#include <linux/sunrpc/metrics.h>
#include <linux/sunrpc/rpc_rdma.h>
#include <linux/sunrpc/rpc_rdma_cid.h>
#include <linux/sunrpc/rdma_rn.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xdr.h>
#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/xprtrdma.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/mr_pool.h>
#include <rdma/rdma_cm.h>
#include <rpcrdma/glue.h>
#include <trace/events/rpcrdma_rs.h>
#include <trace/events/rpcrdma_svc_rs.h>

#endif /* _RPCRDMA_BINDINGS_H */
