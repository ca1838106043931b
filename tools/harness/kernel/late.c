// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server whose RDMA Reads complete after Sends that were posted behind them. siw
 * reports an RDMA Read when its response has arrived.
 */
#include "harness.h"

#define REPLIES 5

/* Calls the server with a WRITE whose payload does not arrive, and with READs meanwhile. */
static u32 overtake(void)
{
	unsigned int i;
	u32 xid;

	h_qp->late = true;
	xid = h_ask(H_WRITE_4K);
	for (i = 0; i < REPLIES; i++)
		h_serve(H_READ_4K);
	h_expect(!h_answered(xid), "a WRITE is answered before its payload was read");
	return xid;
}

/* Lets the payload of the WRITE arrive. */
static void arrive(u32 xid)
{
	h_qp->late = false;
	h_qp_execute(h_qp);
	h_live(0);
	h_expect(h_answered(xid), "the WRITE is not answered");
}

/*
 * The memory of replies that were sent early is used again once the RDMA Read has completed. The
 * Send of one reply in four is signalled, so that what is kept repeats after four rounds.
 */
void h_reads_late(void)
{
	const struct h_qp *connection;
	unsigned long live = 0;
	unsigned int i;

	h_serve_begin();
	connection = h_qp;
	for (i = 0; i < 12; i++) {
		arrive(overtake());
		if (i == 3)
			live = u_live();
	}
	h_expect(h_qp == connection, "the connection was lost");
	h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	h_serve_end();
}

/* WRITEs of many segments, so that a part of their RDMA Reads fills the send queue. */
#define WRITES	30
#define SPLIT	64

/*
 * RDMA Reads wait for space on the send queue, more of them than replies may. A call without a
 * payload is received and answered meanwhile.
 */
void h_reads_late_and_many(void)
{
	u32 xids[WRITES], other;
	unsigned int i;

	h_serve_begin();
	h_qp->late = true;
	h_split = SPLIT;
	for (i = 0; i < WRITES; i++) {
		xids[i] = h_ask(H_WRITE_4K);
		h_complete_receive(h_qp);
		h_settle();
	}
	h_split = 0;
	h_expect(h_qp->sq_len + SPLIT > h_qp->cap.max_send_wr, "all RDMA Reads are posted");
	other = h_ask(H_INLINE);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(h_answered(other), "a call waits for the payloads of others");
	h_qp->late = false;
	h_qp_execute(h_qp);
	h_live(0);
	for (i = 0; i < WRITES; i++)
		h_expect(h_answered(xids[i]), "WRITE %u is not answered", i);
	h_serve_end();
}

/* The connection is lost after Sends have completed, and before an older RDMA Read does. */
void h_reads_late_and_lost(void)
{
	h_requester_breach = "transfer_lost";
	h_serve_begin();
	overtake();
	h_cm_disconnected();
	h_settle();
	h_serve_end();
}
