// SPDX-License-Identifier: GPL-2.0
/*
 * Comparing states of the module's client and its server: two states with the same hash are
 * followed once.
 */
#include "both.h"

static u64 bytes(u64 hash, const void *p, u32 len)
{
	const u8 *byte = p;

	while (len--)
		hash = h_mix(hash, *byte++);
	return hash;
}

/* A work request of a send queue. What has not reached the peer counts with its bytes. */
static u64 sent(u64 hash, const struct h_wr *wr)
{
	hash = h_mix(hash, (u64)wr->opcode << 3 | wr->signalled << 1 | wr->executed);
	hash = h_mix(hash, (u64)wr->key << 32 | wr->status) + wr->remote;
	if (!wr->executed && wr->opcode != IB_WR_RDMA_READ)
		hash = bytes(hash, (void *)wr->addr, wr->len);
	return hash;
}

static u64 pair(u64 hash, const struct h_qp *qp)
{
	struct h_wr *wr;

	if (!qp)
		return h_mix(hash, 1);
	hash = h_mix(hash, qp->broken << 1 | qp->hold << 2 | qp->sq_len << 8 | qp->rq_len << 16);
	list_for_each_entry(wr, &qp->sq, list)
		hash = sent(hash, wr);
	list_for_each_entry(wr, &qp->arrived, list)
		hash = h_mix(bytes(hash, (void *)wr->addr, wr->byte_len), wr->status) + wr->wc_key;
	return hash;
}

static u64 links(u64 hash)
{
	unsigned int i, side;

	for (i = 0; i < h_link_count; i++) {
		const struct h_link *link = &h_links[i];

		hash = h_mix(hash, link->made | link->cut << 1);
		for (side = 0; side < H_SIDES; side++) {
			hash = pair(hash, link->qp[side]);
			hash = h_mix(hash, link->told[side] | !link->id[side] << 1);
		}
	}
	return hash;
}

/* The statistics of struct rpc_xprt only grow, so its other fields alone count. */
static u64 transport(u64 hash)
{
	hash = h_mix(hash, h_xprt->state);
	hash = h_mix(hash, h_xprt->cong << 16 | h_xprt->cwnd);
	return h_mix(hash, h_xprt->connect_cookie);
}

u64 h_both_look(void)
{
	u64 hash = u_contents(h_xprt) ^ u_contents_of_large(h_xprt);

	hash = links(transport(hash));
	hash = h_mix(hash, h_work_look());
	hash = h_mix(hash, h_cm_look());
	hash = h_mix(hash, h_threads_look());
	hash = h_mix(hash, h_executions_look());
	return h_mix(hash, u_live() << 32 | h_dma_live() << 8 | h_breaches(NULL));
}
