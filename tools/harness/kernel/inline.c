// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of replies that a server sends inline, or cannot: the requester offers no chunk for
 * them, or a reply chunk that they do not need. And of a reply chunk that a server leaves unused.
 */
#include "harness.h"

/* Asks for results that fit neither inline nor in a chunk. */
static void refused(enum h_kind_number kind)
{
	u32 xid = h_ask(kind);

	h_live(0);
	h_expect(h_answered(xid) && h_call_refused(xid), "%s is not refused", h_kinds[kind].name);
	h_expect(h_connections == 1 && h_qp && !h_qp->broken, "the connection is closed");
}

/* A reply that is longer than the requester's Receives is refused, and the others are sent. */
void h_inline_too_long(void)
{
	unsigned int i;

	h_requester_breach = "reply_room";
	h_serve_begin();
	h_offer = H_OFFER_NOTHING;
	for (i = 0; i < 3; i++) {
		refused(H_READ_4K);
		h_serve(H_INLINE);
		refused(H_READDIR);
		h_serve(H_WRITE_4K);
		refused(H_READ_1M_SCATTERED);
	}
	h_serve_end();
}

/* A payload in pages is inline if the requester's Receives have room for it. */
void h_inline_payload(void)
{
	unsigned int i;

	h_requester_breach = "reply_room";
	h_answer.send = h_answer.receive = 8192;
	h_load();
	h_tune("max_req_size", 8192);
	h_serve_start(1);
	h_cm_request();
	h_settle();
	h_offer = H_OFFER_NOTHING;
	for (i = 0; i < 300; i++)
		h_serve(H_READ_4K);
	refused(H_READDIR);
	h_serve_end();
}

/* A short reply leaves the reply chunk of its call unused. A long one uses it. */
void h_inline_beside_chunk(void)
{
	unsigned int i;

	h_serve_begin();
	h_offer = H_OFFER_REPLY_CHUNK;
	for (i = 0; i < 3; i++) {
		h_serve(H_INLINE);
		h_serve(H_READ_4K);
		h_serve(H_WRITE_4K);
	}
	h_serve_end();
}

/* A server does not use the reply chunk, because the results are few. */
void h_reply_chunk_unused(void)
{
	static const struct h_reply how = { .unused = true, .shorter = 32768 - 96 };
	static const struct h_reply key = { .unused = true, .shorter = 32768, .how = H_INV_OWN };
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < 4; i++) {
		const struct h_reply *reply = i % 2 ? &key : &how;
		struct h_rpc *rpc = h_rpc_new(H_READDIR);

		h_rpc_start(rpc, 0);
		h_answer_call(h_peer_call(rpc->xid), reply);
		h_live(0);
		h_expect(rpc->released && !rpc->status, "the RPC ends with %d", rpc->status);
		h_expect(rpc->received == 32768 - reply->shorter, "%u bytes were read",
			 rpc->received);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_end();
}
