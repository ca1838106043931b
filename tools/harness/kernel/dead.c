// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a peer whose host dies, over iWARP: the device of this host waits a minute for the
 * answer to an orderly close, as c4iw does, and the module does not. And of connections that the
 * connection manager does not close before they are established: no thread of the service waits.
 */
#include <linux/sunrpc/svc_xprt.h>
#include "harness.h"

/* Milliseconds within which the client connects again, and within which the watch closes. */
#define SOON	8000
#define WATCHED	60000

static void over_iwarp(void)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
}

/* A call is not answered. It is sent again as soon as the server is back. */
void h_dead_server(void)
{
	static const struct h_reply plain;
	struct h_rpc *rpc;

	over_iwarp();
	h_begin();
	h_connect();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_peer_drop_all();
	h_faults.dead = true;
	h_rpc_time_out(rpc);
	h_live(SOON);
	h_expect(h_peer_call(rpc->xid) && h_connections == 2, "the call is not sent again");
	h_expect(!h_orderly_closes, "the connection to a dead server is closed in order");
	h_faults.dead = false;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* The requester acknowledges nothing. The objects of its connection are gone at once. */
void h_dead_requester(void)
{
	unsigned int i;

	h_requester_breach = "slow";
	over_iwarp();
	h_serve_begin();
	h_qp->hold = true;
	h_ask(H_INLINE);
	h_faults.dead = true;
	for (i = 0; i < WATCHED && h_serve_connection(); i += 1000)
		h_live(1000);
	h_expect(!h_serve_connection(), "the connection of a dead requester stays");
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_expect(!h_orderly_closes, "the connection of a dead requester is closed in order");
	h_faults.dead = false;
	h_serve_end();
}

/* A client that needs its connection no more closes it in order; so does a server that stops. */
void h_orderly(void)
{
	over_iwarp();
	h_begin();
	h_connect();
	h_end();
	h_expect(h_orderly_closes == 1, "a connection that is not needed is reset");
}

void h_orderly_served(void)
{
	over_iwarp();
	h_serve_begin();
	h_serve_end();
	h_expect(h_orderly_closes == 1, "a connection of a service that stops is reset");
}

/* Has a connection accepted that is not established. */
static struct h_qp *accept_unestablished(void)
{
	over_iwarp();
	h_load();
	h_serve_start(1);
	h_faults.unestablished = true;
	h_cm_request();
	h_settle();
	h_expect(h_serve_connection(), "the connection is not accepted");
	h_faults.unestablished = false;
	return h_qp;
}

static void close_connection(void *closed)
{
	svc_xprt_close(h_serve_connection());
	*(bool *)closed = true;
}

/*
 * A thread of the service closes such a connection, and goes on. The connection ends when the
 * connection manager lets it.
 */
void h_unestablished_closed(void)
{
	struct h_qp *qp = accept_unestablished();
	unsigned int objects = h_objects();
	bool closed = false;

	h_spawn("a thread of the service", close_connection, &closed);
	h_settle();
	h_expect(closed, "a thread of the service waits for a peer");
	h_expect(h_objects() == objects, "objects of a connection are gone that is not closed");
	h_establish(qp);
	h_settle();
	h_expect(!h_objects(), "%u objects of a connection that is closed are left", h_objects());
	h_cm_request();
	h_settle();
	h_serve(H_INLINE);
	h_serve_end();
}

/* The service stops before such a connection has ended. The module stays until it has. */
void h_unestablished_shut_down(void)
{
	struct h_qp *qp = accept_unestablished();

	h_serve_stop();
	h_expect(!h_serving(), "a service that stops waits for a peer");
	h_expect(h_module_references() == 1, "there are %d references to the module",
		 h_module_references());
	h_establish(qp);
	h_settle();
	h_unload();
}
