// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of messages that break the protocol, more of them than there are Receives: each one
 * gives its Receive back, and the calls beside them are served.
 */
#include "wire.h"

/* More messages than either role has Receives. */
#define MESSAGES	1200
/* The client posts this part of as many Receives as it has credits together. */
#define BATCHES		4
/* An XID that no call has. */
#define NOBODY		0x4711

static const struct h_reply plain;

/* A message, with the number of its bytes. */
struct form {
	u32 len;
	u32 words[12];
};

/* Nobody can decode these. */
static const struct form forms[] = {
	{ 0 },
	{ 3, { NOBODY } },
	{ 12, { NOBODY, 1, 1 } },
	{ 20, { NOBODY, 1, 1, 0, 0 } },
	{ 28, { NOBODY, 77, 1, 0, 0, 0, 0 } },
	{ 28, { NOBODY, 1, 1, 9, 0, 0, 0 } },
	{ 28, { NOBODY, 1, 1, 0, 2, 0, 0 } },
	{ 40, { NOBODY, 1, 1, 0, 0, 1, U32_MAX, 0, 0, 0 } },
	{ 40, { NOBODY, 1, 1, 0, 0, 0, 1, U32_MAX, 1, 0 } },
	{ 36, { NOBODY, 1, 1, 0, 1, 0, 0x1234, 4, 0 } },
};

static void send(const struct form *form)
{
	u8 message[sizeof(form->words)];
	struct h_writer out = { message };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(form->words); i++)
		h_put(&out, form->words[i]);
	h_arrive(h_qp, message, form->len, 0);
	h_live(0);
}

static void run(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
}

/* The client drops the messages of a server, and keeps fewer Receives than a batch. */
void h_malformed_replies(void)
{
	unsigned int i, idle;

	h_begin();
	h_connect();
	for (i = 0; i < MESSAGES; i++) {
		send(&forms[i % ARRAY_SIZE(forms)]);
		h_expect(h_window() == h_grant, "message %u changes the grant", i);
		if (i % 100 == 0)
			run();
	}
	h_expect(h_breaches("malformed_header") == MESSAGES, "%lu of %u breaches are counted",
		 h_breaches("malformed_header"), MESSAGES);
	idle = h_qp->rq_most - h_qp->rq_len;
	h_expect(idle < h_grant / BATCHES, "%u of %u Receives are not posted", idle, h_qp->rq_most);
	h_expect(!h_disconnects, "the connection is closed");
	run();
	h_end();
}

/*
 * Calls of the server in version two: in RDMA2_NOMSG, with RPC messages of 0, 4 and 8 bytes, the
 * last of which is neither a call nor a reply.
 */
static const struct form calls_in_two[] = {
	{ 32, { 0, 2, 1, 1 } },
	{ 32, { 0, 2, 1, 0 } },
	{ 36, { 0, 2, 1, 0 } },
	{ 40, { 0, 2, 1, 0, [9] = 7 } },
};

/* The client drops them: they answer no call, whatever their XID, and grant nothing. */
void h_malformed_in_two(void)
{
	unsigned int i;

	h_answer.two = true;
	h_begin();
	h_connect();
	for (i = 0; i < ARRAY_SIZE(calls_in_two); i++) {
		struct form form = calls_in_two[i];
		struct h_rpc *rpc = h_rpc_new(H_INLINE);

		h_rpc_start(rpc, 0);
		h_expect(h_peer_call(rpc->xid), "call %u is not sent", i);
		form.words[0] = rpc->xid;
		form.words[8] = rpc->xid;
		send(&form);
		h_expect(h_window() == h_grant, "message %u grants %u credits", i, h_window());
		h_expect(!rpc->released, "message %u ends the RPC with %d", i, rpc->status);
		h_expect(h_breaches("backward_call") == i + 1, "message %u is no breach", i);
		h_answer_call(h_peer_call(rpc->xid), &plain);
		h_live(0);
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
	h_expect(!h_disconnects, "the connection is closed");
	h_end();
}

/* A malformed reply whose XID is that of a call fails this call. The next one is served. */
void h_malformed_answers(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < 300; i++) {
		struct form form = { 28, { 0, 1, 1, 9, 0, 0, 0 } };
		struct h_rpc *rpc = h_rpc_new(i % 2 ? H_READ_4K : H_INLINE);

		h_rpc_start(rpc, 0);
		h_expect(h_peer_call(rpc->xid), "call %u is not sent", i);
		form.words[0] = rpc->xid;
		send(&form);
		h_expect(rpc->released && rpc->status == -EIO, "the RPC ends with %d", rpc->status);
		h_peer_drop_all();
		h_rpc_free(rpc);
	}
	h_expect(!h_disconnects, "the connection is closed");
	run();
	h_end();
}

/* The server answers what has an XID and a version, and serves the calls of the connection. */
void h_malformed_calls(void)
{
	unsigned int i;

	h_provokes = true;
	h_serve_begin();
	for (i = 0; i < MESSAGES; i++) {
		send(&forms[i % ARRAY_SIZE(forms)]);
		if (i % 100 == 0)
			h_serve(H_WRITE_4K);
	}
	h_expect(h_errors == MESSAGES / ARRAY_SIZE(forms) * (ARRAY_SIZE(forms) - 2),
		 "%u errors answer %u messages", h_errors, MESSAGES);
	h_expect(h_connections == 1 && !h_qp->broken, "the connection is closed");
	h_serve(H_READ_4K);
	h_serve_end();
}

/* Sends a call of the server whose RPC message has this many bytes, and is cut off. */
static void call_back(u32 xid, u32 len)
{
	const u32 words[] = {
		xid, 1, 1, 0, 0, 0, 0, xid, 0, 2, 0x40000000, 1, 0, 0, 0, 0, 0,
	};
	u8 message[sizeof(words)];
	struct h_writer out = { message };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		h_put(&out, words[i]);
	h_arrive(h_qp, message, 28 + len, 0);
	h_live(0);
}

/* The bytes of an RPC message that show a call, and those of a whole call. */
#define LEAST	8
#define WHOLE	40

/*
 * Calls of the server end too early. The service gets their bytes and no others, and each call
 * gives back its request and its Receive.
 */
void h_short_callbacks(void)
{
	unsigned int i, replies = 0;
	u32 len;

	h_begin();
	h_connect();
	h_callbacks_begin();
	for (i = 0; i < 10; i++) {
		/* The longest call is first, so that the memory of the others has its rest. */
		for (len = WHOLE; len >= LEAST; len--) {
			call_back(0x1000 + len, len);
			h_expect(h_callback_answer(), "a call of %u bytes is lost", len);
			h_expect(h_callback_len == len,
				 "a call has %u bytes, and the service gets %u", len,
				 h_callback_len);
			h_live(0);
			h_expect(h_backward_replies == ++replies,
				 "a call of %u bytes has no reply", len);
		}
	}
	h_callbacks_end();
	h_check_calm();
	h_end();
}

/* The callback service is gone. The calls of the server reach nobody, and the transport stays. */
void h_unserved_callbacks(void)
{
	u32 i;

	h_begin();
	h_connect();
	h_callbacks_begin();
	h_callbacks_end();
	for (i = 0; i < 10; i++)
		call_back(0x1000 + i, WHOLE);
	run();
	h_check_calm();
	h_end();
}

/* The calls of the server that the client has granted. */
#define CALLBACKS	16

/* The server makes more calls than it may. The client serves what it has granted, and leaves. */
void h_excessive_callbacks(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	h_callbacks_begin();
	for (i = 0; i < 300 && !h_disconnects; i++)
		call_back(0x1000 + i, WHOLE);
	h_expect(i > CALLBACKS, "the client leaves after %u calls", i);
	h_expect(h_disconnects && h_breaches("backward_call") == 1,
		 "%u calls are accepted, and %lu breaches are counted", i,
		 h_breaches("backward_call"));
	while (h_callback_answer())
		h_live(0);
	h_peer_drop_all();
	h_live(20000);
	run();
	h_expect(h_connections == 2, "%u connections are made", h_connections);
	call_back(0x77, WHOLE);
	h_expect(h_callback_answer(), "the next connection carries no call");
	h_live(0);
	h_callbacks_end();
	h_end();
}

/* The threads of the service: more than calls that a requester may have. */
#define THREADS	160

/* Sends a call without waiting for the replies to others. No reply is expected. */
static void ask(u32 xid)
{
	const u32 head[] = {
		xid, 1, 1, 0, 0, 0, 0, xid, 0, 2, 100003, 3, H_INLINE, 0, 0, 0, 0,
	};
	u8 message[256];
	struct h_writer out = { message };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(head); i++)
		h_put(&out, head[i]);
	for (i = 0; i < h_kinds[H_INLINE].call_head / 4; i++)
		h_put(&out, xid);
	h_arrive(h_qp, message, out.len, 0);
	while (h_qp && h_complete_receive(h_qp))
		h_settle();
}

/*
 * A requester has more calls than it was granted, while the service is slow. The connection is
 * closed, and the service works on.
 */
void h_excessive_calls(void)
{
	const struct h_qp *connection;
	unsigned int i;

	h_requester_breach = "credits";
	h_serve_begin();
	h_serve_threads(THREADS);
	h_settle();
	connection = h_qp;
	h_procedures_wait = true;
	for (i = 0; i < THREADS && h_qp == connection && !list_empty(&h_qp->rq); i++)
		ask(0x10000 + i);
	h_expect(h_qp != connection, "%u calls are accepted", i);
	h_procedures_go();
	h_settle();
	h_cm_request();
	h_settle();
	h_serve(H_READ_4K);
	h_serve_end();
}
