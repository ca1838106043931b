// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server whose Sends complete late: the buffers of its replies; and of a device that
 * refuses a long send queue.
 */
#include "harness.h"

/* Calls until a reply finds the send queue full. Then all Sends complete. */
static void flood(void)
{
	unsigned int i;
	u32 xid;

	for (i = 0; i < 2000; i++) {
		xid = h_ask(H_INLINE);
		h_settle();
		while (h_complete_receive(h_qp))
			h_settle();
		if (!h_answered(xid))
			break;
	}
	h_expect(!h_answered(xid), "%u replies are sent, and none waits", i);
	h_live(0);
	h_expect(h_answered(xid), "the last call is not answered");
}

/* The buffers of replies are used again, however many Sends are on the send queue at once. */
void h_flood(void)
{
	unsigned long live;
	unsigned int i;

	h_serve_begin();
	flood();
	live = u_live();
	for (i = 0; i < 4; i++) {
		flood();
		h_expect(u_live() <= live, "%ld allocations are kept", u_live() - live);
	}
	h_serve_end();
}

/* A device limits a send queue by its bytes, so that a lower grant fits than its attributes say. */
void h_short_queue(void)
{
	h_most_elements = 12000;
	h_serve_begin();
	h_serve(H_READ_1M_SCATTERED);
	h_serve(H_WRITE_1M_SCATTERED);
	h_serve_end();
}

/* A device that refuses every send queue refuses the connection. */
void h_no_queue(void)
{
	h_most_elements = 1;
	h_load();
	h_serve_start(1);
	h_cm_request();
	h_settle();
	h_expect(!h_connections, "a connection is accepted without a queue pair");
	h_serve_end();
}
