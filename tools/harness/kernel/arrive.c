// SPDX-License-Identifier: GPL-2.0
/* Messages that arrive at a queue pair: each takes a Receive. */
#include "harness.h"

void h_arrive(struct h_qp *qp, const void *message, u32 len, u32 key)
{
	struct h_wr *wr = list_first_entry_or_null(&qp->rq, struct h_wr, list);

	if (qp->broken)
		return;
	if (!wr)
		h_violation("a message arrives while no Receive is posted");
	if (len > wr->len)
		h_violation("a message of %u bytes arrives for a Receive of %u", len, wr->len);
	memcpy((void *)wr->addr, message, len);
	wr->byte_len = len;
	if (key) {
		wr->wc_flags = IB_WC_WITH_INVALIDATE;
		wr->wc_key = key;
		if (!h_mr_invalidate(qp, key))
			return h_qp_access_error(qp);
	}
	list_move_tail(&wr->list, &qp->arrived);
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
