// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server that has a single page for the calls that it fetches, and of two
 * connections that want the page.
 */
#include <linux/mm.h>
#include "harness.h"

#define LOOK	10000	/* milliseconds from one look of the watch to the next */
#define SHARE	16	/* the part of all pages that calls may use */

static struct h_qp *has, *waits;	/* the queue pairs of the two connections */

static void begin(void)
{
	atomic_long_set(&_totalram_pages, SHARE);
	h_serve_begin();
	has = h_qp;
	has->late = true;
	h_cm_request();
	h_settle();
	h_expect(h_connections == 2, "the second connection is not accepted");
	waits = h_qp;
}

/* Sends a WRITE over one of the connections. */
static u32 ask(struct h_qp *qp)
{
	u32 xid;

	h_qp = qp;
	xid = h_ask(H_WRITE_4K);
	h_complete_receive(h_qp);
	h_settle();
	return xid;
}

/* Lets the device execute everything, and delivers all completions. */
static void release(void)
{
	has->late = false;
	has->hold = false;
	h_qp_execute(has);
	h_qp = has;
	h_live(0);
	h_qp = waits;
	h_live(0);
}

/*
 * The Send of the last reply is unsignalled, and the page is in use for a moment when the watch
 * looks, while another connection waits for the page. The requester has not been asked whether it
 * is there, so its connection stays.
 */
void h_short_for_a_moment(void)
{
	u32 first, second;

	begin();
	first = ask(has);
	second = ask(waits);
	h_pass(LOOK);
	h_settle();
	release();
	h_expect(h_answered(first), "the connection that has the page is closed");
	h_expect(h_answered(second), "the call that waits for the page is not answered");
	h_serve_end();
}

/*
 * A requester that has sent its payload does not keep the page: the call waits for a thread of the
 * service.
 */
void h_short_of_threads(void)
{
	u32 first, second;

	begin();
	first = ask(has);
	h_serve(H_INLINE);
	second = ask(waits);
	h_serve_threads(0);
	h_settle();
	has->late = false;
	h_qp_execute(has);
	h_qp = has;
	h_live(0);
	has->hold = true;
	h_pass(3 * LOOK);
	h_settle();
	h_serve_threads(1);
	release();
	h_expect(h_answered(first), "the connection whose call waits for a thread is closed");
	h_expect(h_answered(second), "the call that waits for the page is not answered");
	h_serve_end();
}
