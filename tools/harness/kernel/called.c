// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of calls of the server at a bad time: while its client has no credit, and while the
 * connection is gone. One thread replies to all servers, so no reply may keep it waiting.
 */
#include "harness.h"

#define CALLS	3

static const struct h_reply plain;

static void begin(void)
{
	h_begin();
	h_connect();
	h_callbacks_begin();
}

static void end(void)
{
	h_callbacks_end();
	h_end();
}

static struct h_rpc *start(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, 0);
	return rpc;
}

static void finish(struct h_rpc *rpc)
{
	h_expect(h_peer_call(rpc->xid), "a call is not sent");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

/* The service replies to one call. The thread that does so must be free for the next call. */
static void reply(void)
{
	unsigned int before = h_callbacks_ended;

	h_expect(h_callback_answer(), "the callback service received no call");
	h_live(0);
	h_expect(h_callbacks_ended == before + 1, "the thread that replies to calls waits");
}

/* Calls use up the credits, and further calls wait for one. A reply takes none. */
void h_called_without_credit(void)
{
	struct h_rpc *rpcs[CALLS];
	unsigned int i;

	h_grant = 1;
	begin();
	for (i = 0; i < CALLS; i++)
		rpcs[i] = start();
	for (i = 1; i <= 2; i++) {
		h_call_back(0x70 + i);
		h_live(0);
		reply();
		h_expect(h_backward_replies == i, "the server received %u replies to %u calls",
			 h_backward_replies, i);
	}
	h_expect(h_window_used() == 1 && !h_peer_call(rpcs[1]->xid),
		 "a call is sent without a credit");
	for (i = 0; i < CALLS; i++)
		finish(rpcs[i]);
	h_check_calm();
	end();
}

static void lose_connection(void)
{
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
}

/* Lets the server answer again. The call is sent over the next connection, and no reply is. */
static void end_without_reply(struct h_rpc *rpc)
{
	unsigned int i;

	h_answer.silent = false;
	for (i = 0; i < 150 && !h_peer_call(rpc->xid); i++)
		h_live(1000);
	h_expect(!h_backward_replies, "a reply is sent over another connection than its call");
	finish(rpc);
	end();
}

/*
 * The server calls, and is gone. A call waits for a connection, which is being made, when the
 * service replies: the reply would be of no use on the next connection.
 */
void h_called_and_lost(void)
{
	struct h_rpc *rpc;

	begin();
	h_call_back(0x77);
	h_live(0);
	h_answer.silent = true;
	lose_connection();
	rpc = start();
	h_live(100);
	h_expect(!h_window_used(), "a call is sent without a connection");
	reply();
	end_without_reply(rpc);
}

/*
 * The service replies while the connection is being closed, and a call waits for the end of that:
 * it would get the send lock before the reply, and keep the lock until there is a connection.
 */
void h_called_while_closing(void)
{
	struct h_qp *closing;
	struct h_rpc *rpc;

	begin();
	closing = h_qp;
	closing->undrained = true;
	h_call_back(0x78);
	h_live(0);
	h_answer.silent = true;
	lose_connection();
	rpc = start();
	h_live(100);
	reply();
	h_drain_go(closing);
	end_without_reply(rpc);
}

/* Calls that a server may have in progress, and the requests that a client keeps for them. */
#define GRANTED		16
#define REQUESTS	32

/*
 * The server repeats its calls over each connection, and loses it. The service replies to none of
 * them for so long, because it waits for another server. No connection is closed for that.
 */
void h_called_amid_losses(void)
{
	struct h_rpc *rpc = NULL;
	unsigned int i, j;

	begin();
	for (i = 1; i <= REQUESTS / GRANTED + 1; i++) {
		for (j = 0; j < GRANTED; j++) {
			h_call_back(0x100 * i + j);
			h_live(0);
			h_expect(h_connections == i && !h_disconnects,
				 "connection %u is closed after %u calls", i, j + 1);
		}
		if (rpc)
			finish(rpc);
		lose_connection();
		h_disconnects = 0;
		rpc = start();
		for (j = 0; j < 90 && !h_peer_call(rpc->xid); j++)
			h_live(1000);
	}
	h_check_breaches();
	for (i = 0; i < REQUESTS; i++)
		reply();
	h_expect(!h_backward_replies, "a reply is sent over another connection than its call");
	h_call_back(0x77);
	h_live(0);
	reply();
	h_expect(h_backward_replies == 1, "the server received no reply");
	finish(rpc);
	end();
}
