// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of verifiers whose length changes. SUNRPC estimates the length of a reply's header from
 * the latest verifier of any server. It computes the size of a call's buffer once, and the lengths
 * in the description of the buffer whenever it encodes the call.
 */
#include "harness.h"

#define LONGEST	400	/* bytes of the longest verifier */
#define BEYOND	3800	/* bytes that no buffer for a reply has */

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

/* The latest verifier is this many bytes longer than an empty one. */
static void estimate(u32 longer)
{
	h_clnt.cl_auth->au_ralign = NUL_REPLYSLACK + longer / 4;
	h_clnt.cl_auth->au_rslack = NUL_REPLYSLACK + longer / 4;
}

static struct h_rpc *start(enum h_kind_number kind)
{
	struct h_rpc *rpc = h_rpc_new(kind);

	h_rpc_start(rpc, 0);
	h_expect(h_peer_call(rpc->xid), "%s: the call is not sent", rpc->kind->name);
	return rpc;
}

static void lose(void)
{
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
}

/* Lets the connection be lost, and waits until the call is sent over the next one. */
static void send_again(const struct h_rpc *rpc)
{
	unsigned int i;

	lose();
	for (i = 0; i < 90 && !rpc->released && !h_peer_call(rpc->xid); i++)
		h_live(1000);
	h_expect(h_peer_call(rpc->xid), "%s: the call is not sent again, status %d",
		 rpc->kind->name, rpc->status);
}

/* Answers a call. The header of the reply is longer than SUNRPC has last computed. */
static void answer(struct h_rpc *rpc, const struct h_reply *how, u32 longer)
{
	u32 head = rpc->kind->reply_head;

	h_kinds[rpc->number].reply_head = head + longer;
	h_answer_call(h_peer_call(rpc->xid), how);
	h_live(0);
	h_kinds[rpc->number].reply_head = head;
}

static void finish(struct h_rpc *rpc)
{
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

static const enum h_kind_number kinds[] = {
	H_INLINE, H_READ_4K, H_READ_1M_SCATTERED, H_READDIR, H_LONG_READ, H_LONG_CALL,
};

/* Calls to one server are sent again when another server has sent longer verifiers. */
void h_verifier_grows(void)
{
	static const u32 lengths[] = { 4, 8, 40, LONGEST };
	unsigned int i, n;

	h_begin();
	h_connect();
	for (n = 0; n < ARRAY_SIZE(lengths); n++) {
		for (i = 0; i < ARRAY_SIZE(kinds); i++) {
			struct h_rpc *rpc = start(kinds[i]);

			estimate(lengths[n]);
			send_again(rpc);
			answer(rpc, n % 2 ? &remote : &plain, 0);
			finish(rpc);
			estimate(0);
		}
	}
	h_check_breaches();
	h_end();
}

/* The verifiers of the server itself grow, and its replies have such headers. */
void h_verifier_used(void)
{
	static const u32 lengths[] = { 8, 40, LONGEST };
	unsigned int n;

	h_begin();
	h_connect();
	for (n = 0; n < ARRAY_SIZE(lengths); n++) {
		struct h_rpc *rpcs[] = { start(H_READ_4K), start(H_READDIR), start(H_LONG_READ) };
		unsigned int i;

		estimate(lengths[n]);
		send_again(rpcs[0]);
		for (i = 0; i < ARRAY_SIZE(rpcs); i++)
			answer(rpcs[i], &plain, lengths[n]);
		for (i = 0; i < ARRAY_SIZE(rpcs); i++)
			finish(rpcs[i]);
		estimate(0);
	}
	h_check_breaches();
	h_end();
}

/* The header of a reply beside a write chunk is longer than SUNRPC expects. */
void h_verifier_unexpected(void)
{
	static const u32 lengths[] = { 4, 12, 24, LONGEST, BEYOND };
	static const struct h_reply shorter = { .shorter = 4096 - 1001 };
	unsigned int n;

	h_begin();
	h_connect();
	for (n = 0; n < 2 * ARRAY_SIZE(lengths); n++) {
		struct h_rpc *rpc = start(n % 2 ? H_READ_4K : H_READ_1M_SCATTERED);
		u32 longer = lengths[n / 2];

		answer(rpc, n % 2 ? &shorter : &plain, longer);
		if (longer <= LONGEST) {
			finish(rpc);
			continue;
		}
		h_expect(rpc->status == -EIO, "a long header ends the RPC with %d", rpc->status);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_end();
}

/* The reply to the first transmission of a call is handled after the call was encoded again. */
static struct h_rpc *answer_late(enum h_kind_number kind, u32 reply_head, u32 longer)
{
	static unsigned int count;
	struct h_rpc *rpc = start(kind);
	u32 head = rpc->kind->reply_head;

	h_kinds[kind].reply_head = reply_head ?: head;
	h_answer_call(h_peer_call(rpc->xid), count++ % 3 ? &plain : &remote);
	h_kinds[kind].reply_head = head;
	estimate(longer);
	h_hostile = true;
	h_rpc_time_out(rpc);
	h_hostile = false;
	h_expect(rpc->encodings == 2, "the call is encoded %u times", rpc->encodings);
	return rpc;
}

/*
 * A reply to the first transmission is not taken for a reply to the second if it has pages: SUNRPC
 * may expect another length of its header. It may have invalidated the memory of its call. Another
 * reply is accepted, so that the call is not executed twice.
 */
void h_verifier_outdated(void)
{
	unsigned int i;

	h_begin();
	h_clnt.cl_noretranstimeo = 0;
	h_connect();
	for (i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		struct h_rpc *rpc = answer_late(kinds[i / 2], 0, i % 2 ? 40 : 0);

		h_expect(rpc->released == !rpc->kind->receive_pages, "%s: a late reply is %s",
			 rpc->kind->name, rpc->released ? "accepted" : "dropped");
		if (rpc->released) {
			lose();
			h_live(90 * 1000);
		} else {
			send_again(rpc);
			answer(rpc, &plain, 0);
		}
		finish(rpc);
		estimate(0);
	}
	h_check_breaches();
	h_end();
}

/* Returns whether the pages from `p` on have results of a call. */
static bool has_reply(const u8 *p, u32 xid)
{
	const __be32 *words = (const __be32 *)p;
	unsigned int i, found = 0;

	for (i = 0; i < 2 * PAGE_SIZE / 4 && found < 4; i++)
		found = words[i] == cpu_to_be32(xid) ? found + 1 : 0;
	return found == 4;
}

/* No byte of a reply is placed behind the buffer of its call. */
void h_verifier_late(void)
{
	struct h_rpc *rpc;
	const u8 *end;

	h_begin();
	h_clnt.cl_noretranstimeo = 0;
	h_connect();
	rpc = start(H_LONG_READ);
	end = (u8 *)rpc->task->tk_rqstp->rq_buffer + u_size(rpc->task->tk_rqstp->rq_buffer);
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	finish(rpc);
	rpc = answer_late(H_LONG_READ, 1200, LONGEST);
	h_expect(!has_reply(end, rpc->xid), "violation: a reply is behind the buffer of its call");
	if (!rpc->released) {
		send_again(rpc);
		answer(rpc, &plain, 0);
	}
	h_rpc_free(rpc);
	estimate(0);
	h_end();
}
