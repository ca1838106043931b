// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server over iWARP: each of its RDMA Reads needs a memory region.
 */
#include "harness.h"

/* Connects with this many regions; 0: as many as the module makes. */
static void begin(unsigned int regions)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
	h_answer.reads = regions;
	h_most_regions = regions;
	h_serve_begin();
}

/* RDMA Reads place payloads into regions, and invalidate these. */
void h_regions(void)
{
	begin(0);
	h_serve(H_WRITE_4K);
	h_serve(H_WRITE_1M_SCATTERED);
	h_serve(H_LONG_CALL);
	h_serve(H_READ_4K);
	h_serve_end();
}

/* Sends a call, and delivers no completion of the send queue. */
static u32 ask(enum h_kind_number kind)
{
	u32 xid = h_ask(kind);

	h_complete_receive(h_qp);
	h_settle();
	return xid;
}

/*
 * A call that finds all regions in use waits until another one gives some back, and threads of the
 * service do not look for it meanwhile.
 */
void h_regions_awaited(void)
{
	u32 first, second;

	begin(1);
	h_qp->late = true;
	h_most_looks = 100;
	first = ask(H_WRITE_4K);
	second = ask(H_WRITE_4K);
	h_expect(!h_answered(first) && !h_answered(second),
		 "a WRITE is answered before its payload was read");
	h_qp->late = false;
	h_qp_execute(h_qp);
	h_live(0);
	h_expect(h_answered(first) && h_answered(second), "a WRITE is not answered");
	h_serve_end();
}
