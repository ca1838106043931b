// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a device that is slow to send, of a driver that is slow to map memory, and of a
 * service that is slow to receive: what is on a queue stays as it was posted, a close waits for the
 * end of mapping, and what is held is given back to a queue that is gone.
 */
#include "harness.h"

/* One callback more than the client has buffers for replies. */
#define CALLBACKS	17
/* The number of Receives that the server posts together. */
#define BATCH		4

/* Lets the device execute what it was slow to do. */
static void release(void)
{
	h_qp->hold = false;
	h_qp_execute(h_qp);
}

/* Lets the module handle the messages that have arrived. */
static void receive(void)
{
	h_settle();
	while (h_complete_receive(h_qp))
		h_settle();
}

static u32 ask(enum h_kind_number kind)
{
	u32 xid = h_ask(kind);

	receive();
	return xid;
}

/* A reply to a callback waits for a buffer, and is sent when there is one. */
void h_callback_replies_held(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	h_callbacks_begin();
	h_replies_ascend = true;
	h_qp->hold = true;
	for (i = 0; i < CALLBACKS; i++) {
		h_call_back(0x1000 + i);
		receive();
		h_expect(h_callback_answer(), "the callback service received no call");
	}
	release();
	h_live(2000);
	h_expect(h_backward_replies == CALLBACKS, "the server received %u replies to %u calls",
		 h_backward_replies, CALLBACKS);
	h_callbacks_end();
	h_check_calm();
	h_end();
}

/* Calls that are cancelled before the device has sent them, and later ones in their slots. */
#define CANCELLED	8

/* The buffer of a call stays as it is until the device has sent the call, or will not send it. */
void h_calls_cancelled_unsent(void)
{
	static const struct h_reply plain;
	struct h_rpc *early[CANCELLED], *late[CANCELLED];
	unsigned int i, round;

	h_begin();
	h_connect();
	for (round = 0; round < 4; round++) {
		h_qp->hold = true;
		for (i = 0; i < CANCELLED; i++) {
			early[i] = h_rpc_new(H_INLINE);
			h_rpc_start(early[i], 0);
			h_rpc_cancel(early[i]);
			h_expect(early[i]->released, "a cancelled call does not end");
			late[i] = h_rpc_new(H_INLINE);
			h_rpc_start(late[i], 0);
		}
		release();
		for (i = 0; i < CANCELLED; i++) {
			h_expect(h_peer_call(early[i]->xid), "call %u is not sent as it was", i);
			h_answer_call(h_peer_call(early[i]->xid), &plain);
			h_live(0);
			h_rpc_free(early[i]);
			h_answer_call(h_peer_call(late[i]->xid), &plain);
			h_live(0);
			h_rpc_check(late[i]);
			h_rpc_free(late[i]);
		}
		h_expect(h_window() == h_grant, "%u credits are left", h_window());
	}
	h_check_calm();
	h_end();
}

static void end_mapping(void)
{
	while (h_map_waits()) {
		h_map_go();
		h_settle();
	}
}

/* The connection ends while the driver maps the memory of a call. The close waits for that. */
void h_mapping_held(void)
{
	static const struct h_reply plain;
	struct h_rpc *rpc;
	unsigned int i;

	h_slow_mapping = true;
	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	h_expect(h_map_waits(), "no memory is being mapped");
	h_cm_disconnected();
	h_settle();
	end_mapping();
	for (i = 0; i < 30 && !h_peer_call(rpc->xid); i++) {
		h_live(1000);
		end_mapping();
	}
	h_expect(h_peer_call(rpc->xid), "the call is not sent over the next connection");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* A requester may end its connection before a reply has been sent, which is no breach. */
void h_reply_held_and_lost(void)
{
	u32 xid;

	h_serve_begin();
	h_qp->hold = true;
	xid = ask(H_INLINE);
	receive();
	h_expect(h_qp_awaiting(h_qp), "no reply is on the send queue");
	h_cm_disconnected();
	h_settle();
	h_expect(!h_answered(xid) && !h_objects(), "the connection is not closed");
	h_serve_end();
}

/* The server writes no reply to the buffer of one that is on the send queue. */
void h_replies_held(void)
{
	u32 first, second;

	h_serve_begin();
	h_qp->hold = true;
	first = ask(H_INLINE);
	second = ask(H_INLINE);
	release();
	h_live(0);
	h_expect(h_answered(first) && h_answered(second), "a call is not answered");
	h_serve_end();
}

/*
 * The server waits until it can map the buffer of a reply, where the device uses the buffers that
 * there are.
 */
void h_replies_refused(void)
{
	u32 first, second;

	h_serve_begin();
	h_qp->hold = true;
	first = ask(H_INLINE);
	h_refused_mappings = 4;
	second = ask(H_INLINE);
	h_pass(500);
	h_settle();
	h_expect(!h_refused_mappings, "mapping is not tried again");
	release();
	h_live(0);
	h_expect(h_answered(first) && h_answered(second), "a call is not answered");
	h_serve_end();
}

/*
 * The connection ends while calls wait for a thread of the service. Their Receives, which together
 * with idle ones are a batch, are no longer posted.
 */
void h_calls_held(void)
{
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < BATCH && h_qp->rq_most - h_qp->rq_len != BATCH - 2; i++)
		h_serve(H_INLINE);
	h_expect(h_qp->rq_most - h_qp->rq_len == BATCH - 2, "%u of %u Receives are posted",
		 h_qp->rq_len, h_qp->rq_most);
	h_serve_threads(0);
	h_settle();
	ask(H_INLINE);
	ask(H_INLINE);
	h_cm_disconnected();
	h_settle();
	h_serve_threads(1);
	h_settle();
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_serve_end();
}
