// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of the last reference to a connection of the server, which is put while the queue pair
 * of the connection is being drained.
 */
#include <linux/sunrpc/svc_xprt.h>
#include "harness.h"

/* Loses a connection whose queue pair takes long to drain, and to which there is a reference. */
static struct svc_xprt *lose(struct h_qp **qp)
{
	struct svc_xprt *xprt;

	h_serve_begin();
	*qp = h_qp;
	xprt = h_serve_connection();
	svc_xprt_get(xprt);
	h_qp->undrained = true;
	h_cm_disconnected();
	h_settle();
	h_expect(!h_serve_connection() && h_objects(), "the connection is not being drained");
	return xprt;
}

/* nfsd may hold a spinlock when it puts the reference of a session to its connection. */
void h_freed_in_atomic_context(void)
{
	struct h_qp *qp;
	struct svc_xprt *xprt = lose(&qp);

	/* This is no thread, so it may not sleep. */
	svc_xprt_put(xprt);
	h_drain_go(qp);
	h_settle();
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_serve_end();
}

/*
 * The service has ended, and the module has no reference left. It is not unloaded before the
 * transport is freed.
 */
void h_freed_at_unload(void)
{
	struct h_qp *qp;
	struct svc_xprt *xprt = lose(&qp);
	unsigned int busy;

	svc_xprt_put(xprt);
	h_serve_stop();
	busy = h_sleepers();
	h_expect(!h_module_references(), "%d references to the module are left",
		 h_module_references());
	h_rmmod();
	h_expect(h_sleepers() == busy + 1, "the module is unloaded while a transport is freed");
	h_drain_go(qp);
	h_settle();
	h_check_nothing_left();
}
