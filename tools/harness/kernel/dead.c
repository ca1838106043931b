// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a peer whose host dies, over iWARP: the device of this host waits a minute for the
 * answer to an orderly close, as c4iw does, and the module does not.
 */
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
