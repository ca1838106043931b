// SPDX-License-Identifier: GPL-2.0
/* Messages that arrive at a queue pair: each takes a Receive. */
#include "wire.h"

bool h_hostile, h_fuzzed;
u32 (*h_alter)(u8 *message, u32 len);

/* Returns whether a Receive takes a message. A hostile peer may send what none takes. */
static bool fits(struct h_qp *qp, const struct h_wr *wr, u32 len)
{
	if (wr && len <= wr->len)
		return true;
	if (h_hostile) {
		if (wr)
			h_qp_access_error(qp);
		return false;
	}
	if (!wr)
		h_violation("a message arrives while no Receive is posted");
	h_violation("a message of %u bytes arrives for a Receive of %u", len, wr->len);
}

/* A peer replies to a call that it does not have yet. The call may change before it is sent. */
static void guess(struct h_qp *qp, u32 xid)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &qp->sq, list)
		if (!wr->executed && wr->len >= 4 && wr->wc_opcode == IB_WC_SEND &&
		    get_unaligned_be32((void *)wr->addr) == xid)
			wr->guessed = true;
}

static void hear(struct h_qp *qp, const u8 *message, u32 len)
{
	h_requester_doubt(qp, message, len);
	qp->heard[qp->heard_count++ % ARRAY_SIZE(qp->heard)] = get_unaligned_be32(message);
}

bool h_heard(const struct h_qp *qp, u32 xid)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(qp->heard) && i < qp->heard_count; i++)
		if (qp->heard[i] == xid)
			return true;
	return qp->heard_count > ARRAY_SIZE(qp->heard);
}

bool h_heard_anywhere(u32 xid)
{
	struct h_qp *first = h_qp_next(NULL), *qp = first;

	do {
		if (h_heard(qp, xid))
			return true;
		qp = h_qp_next(qp);
	} while (qp != first);
	return false;
}

void h_arrive(struct h_qp *qp, const void *message, u32 len, u32 key)
{
	struct h_wr *wr = list_first_entry_or_null(&qp->rq, struct h_wr, list);

	if (qp->broken || !fits(qp, wr, len))
		return;
	memcpy((void *)wr->addr, message, len);
	if (h_alter)
		len = h_alter((void *)wr->addr, min(len, wr->len));
	if (h_fuzzed && len >= 4) {
		guess(qp, get_unaligned_be32((void *)wr->addr));
		hear(qp, (void *)wr->addr, len);
	}
	wr->byte_len = len;
	if (key) {
		wr->wc_flags = IB_WC_WITH_INVALIDATE;
		wr->wc_key = key;
		if (!h_mr_invalidate(qp, key))
			return h_qp_access_error(qp);
		h_mr_given_up(qp, key);
	}
	list_move_tail(&wr->list, &qp->arrived);
}

void h_arrive_words(struct h_qp *qp, const u32 *words, u32 count)
{
	u8 message[128];
	struct h_writer out = { message };
	u32 i;

	h_expect(count <= sizeof(message) / 4, "the message has %u words", count);
	for (i = 0; i < count; i++)
		h_put(&out, words[i]);
	h_arrive(qp, message, out.len, 0);
}

/* Delivers an RDMA Write with immediate. It consumes a Receive without writing to its buffer. */
void h_arrive_immediate(struct h_qp *qp, u32 len)
{
	struct h_wr *wr = list_first_entry_or_null(&qp->rq, struct h_wr, list);

	h_expect(wr, "no Receive is posted");
	wr->byte_len = len;
	wr->wc_opcode = IB_WC_RECV_RDMA_WITH_IMM;
	wr->wc_flags = IB_WC_WITH_IMM;
	list_move_tail(&wr->list, &qp->arrived);
}
