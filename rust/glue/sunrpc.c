// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros that the room rust/sunrpc cannot call from Rust.
 * Each wrapper calls the function or macro after which it is named.
 */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <rpcrdma/glue_sunrpc.h>

/* Without a reference, xprt_destroy() has begun or waits for XPRT_LOCKED. */
bool rr_xprt_abandoned(const struct rpc_xprt *xprt)
{
	return kref_read(&xprt->kref) == 0;
}

/* The list head was initialised by xprt_init(). A removed transport still has its links. */
bool rr_xprt_added(const struct rpc_xprt *xprt)
{
	return !list_empty(&xprt->xprt_switch);
}

void rr_xprt_clear_connecting(struct rpc_xprt *xprt)
{
	xprt_clear_connecting(xprt);
}

/* Waits until every task has blocked, run in user space, or been idle. */
void rr_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

/*
 * One function for each work item of a transport. Each use of these macros
 * defines a lock class, and lockdep must distinguish work items that wait for
 * each other.
 */
void rr_init_connect_work(struct delayed_work *connect, work_func_t func)
{
	INIT_DELAYED_WORK(connect, func);
}

void rr_init_liveness_work(struct delayed_work *liveness, work_func_t func)
{
	INIT_DELAYED_WORK(liveness, func);
}

void rr_init_destroy_work(struct work_struct *destroy, work_func_t func)
{
	INIT_WORK(destroy, func);
}

void rr_init_put_work(struct work_struct *put, work_func_t func)
{
	INIT_WORK(put, func);
}

void rr_svc_xprt_set_local(struct svc_xprt *xprt, const struct sockaddr *sa,
			   size_t len)
{
	svc_xprt_set_local(xprt, sa, len);
}

void rr_svc_xprt_set_remote(struct svc_xprt *xprt, const struct sockaddr *sa,
			    size_t len)
{
	svc_xprt_set_remote(xprt, sa, len);
}

bool rr_svc_xprt_is_dead(const struct svc_xprt *xprt)
{
	return svc_xprt_is_dead(xprt);
}
