/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers of rust/glue/sunrpc.c: inline functions and macros of SUNRPC and of
 * the memory allocation scopes that the room rust/sunrpc needs.
 */
#ifndef _RPCRDMA_GLUE_SUNRPC_H
#define _RPCRDMA_GLUE_SUNRPC_H

#include <linux/mm_types.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xprt.h>
#include <linux/workqueue.h>

bool rr_xprt_abandoned(const struct rpc_xprt *xprt);
bool rr_xprt_added(const struct rpc_xprt *xprt);
void rr_xprt_clear_connecting(struct rpc_xprt *xprt);
void rr_synchronize_rcu_tasks(void);
void rr_init_connect_work(struct delayed_work *connect, work_func_t func);
void rr_init_liveness_work(struct delayed_work *liveness, work_func_t func);
void rr_init_destroy_work(struct work_struct *destroy, work_func_t func);
void rr_init_put_work(struct work_struct *put, work_func_t func);
void rr_svc_xprt_set_local(struct svc_xprt *xprt, const struct sockaddr *sa,
			   size_t len);
void rr_svc_xprt_set_remote(struct svc_xprt *xprt, const struct sockaddr *sa,
			    size_t len);
bool rr_svc_xprt_is_dead(const struct svc_xprt *xprt);

#endif /* _RPCRDMA_GLUE_SUNRPC_H */
