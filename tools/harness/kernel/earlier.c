// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of what an earlier connection has left behind, and of what it must not do to the next
 * one: a callback, a credit, a request to close the connection.
 */
#include "harness.h"

static const struct h_reply plain;

static struct h_rpc *start(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, 0);
	return rpc;
}

/* Waits until a call is sent over the next connection. */
static void await_connection(const struct h_rpc *rpc)
{
	unsigned int i;

	for (i = 0; i < 90 && !h_peer_call(rpc->xid); i++)
		h_live(1000);
	h_expect(h_peer_call(rpc->xid), "the call is not sent");
}

static void finish(struct h_rpc *rpc)
{
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

static void lose_connection(void)
{
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
}

/* The reply to a callback is ready when the connection that has carried the callback is gone. */
void h_earlier_callback(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_callbacks_begin();
	h_call_back(0x77);
	h_live(0);
	lose_connection();
	rpc = start();
	await_connection(rpc);
	h_expect(h_callback_answer(), "the callback service received no call");
	h_live(0);
	h_expect(!h_backward_replies, "a reply is sent over another connection than its call");
	finish(rpc);
	h_callbacks_end();
	h_end();
}

/* A call that was cancelled is released after the next connection was made. */
void h_earlier_credit(void)
{
	struct h_rpc *cancelled, *rpc;

	h_begin();
	h_connect();
	cancelled = h_rpc_new(H_INLINE);
	cancelled->hold = true;
	h_rpc_start(cancelled, 0);
	h_rpc_cancel(cancelled);
	h_expect(cancelled->held, "the call does not end");
	lose_connection();
	rpc = start();
	await_connection(rpc);
	h_rpc_let_go(cancelled);
	h_live(0);
	h_expect(cancelled->released, "the call is not released");
	h_rpc_free(cancelled);
	h_expect(h_window_used() == 1, "one call is under way, and %u credits are in use",
		 h_window_used());
	finish(rpc);
	h_end();
}

/* While the transport waits for its next attempt, a task asks for a close of the connection. */
void h_earlier_close(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_answer.refuse = true;
	lose_connection();
	rpc = start();
	h_live(100);
	xprt_force_disconnect(h_xprt);
	h_live(100);
	h_answer.refuse = false;
	await_connection(rpc);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	finish(rpc);
	h_end();
}
