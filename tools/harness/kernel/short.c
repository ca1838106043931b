// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server that has few pages for the calls that it fetches: a single one that two
 * connections want, or pages that a connection keeps for its next calls.
 */
#include <linux/mm.h>
#include <linux/sunrpc/svc_xprt.h>
#include "harness.h"

#define LOOK	10000	/* milliseconds from one look of the watch to the next */
#define SHARE	16	/* the part of all pages that calls may use */
#define CALL	256	/* the pages of a WRITE of 1 MiB */

static struct h_qp *has, *waits;	/* the queue pairs of the two connections */

/* Loads a server whose calls may use some pages, and connects to it. */
static void begin_with(unsigned int pages)
{
	atomic_long_set(&_totalram_pages, pages * SHARE);
	h_serve_begin();
}

/* Makes a further connection. */
static struct h_qp *connect(void)
{
	unsigned int before = h_connections;

	h_cm_request();
	h_settle();
	h_expect(h_connections == before + 1, "a connection is not accepted");
	return h_qp;
}

static void begin(void)
{
	begin_with(1);
	has = h_qp;
	has->late = true;
	waits = connect();
}

/* Sends a call over one of the connections. */
static u32 ask_for(struct h_qp *qp, enum h_kind_number kind)
{
	u32 xid;

	h_qp = qp;
	xid = h_ask(kind);
	h_complete_receive(h_qp);
	h_settle();
	return xid;
}

static u32 ask(struct h_qp *qp)
{
	return ask_for(qp, H_WRITE_4K);
}

/* Lets the device execute the RDMA Reads of the first connection, and delivers its completions. */
static void fetch(void)
{
	has->late = false;
	h_qp_execute(has);
	h_qp = has;
	h_live(0);
}

/* Lets the device execute everything, and delivers all completions. */
static void release(void)
{
	has->hold = false;
	fetch();
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
	h_expect(h_counter("rdma_stat_waited") == 1, "%lu calls are counted that wait",
		 h_counter("rdma_stat_waited"));
	h_expect(!h_warnings, "the log warns of a call that waits");
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
	fetch();
	has->hold = true;
	h_pass(3 * LOOK);
	h_settle();
	h_serve_threads(1);
	release();
	h_expect(h_answered(first), "the connection whose call waits for a thread is closed");
	h_expect(h_answered(second), "the call that waits for the page is not answered");
	h_serve_end();
}

/*
 * Two requesters do not send the payloads of their WRITEs, and a third one waits for pages. Only
 * the connection with most pages is closed, which suffices.
 */
void h_short_of_one(void)
{
	struct h_qp *less, *more;
	u32 first, third;

	h_requester_breach = "slow";
	begin_with(2 * CALL);
	less = h_qp;
	less->late = true;
	first = ask_for(less, H_WRITE_4K);
	more = connect();
	more->late = true;
	ask_for(more, H_WRITE_1M_SCATTERED);
	waits = connect();
	third = ask_for(waits, H_WRITE_1M_SCATTERED);
	h_live(0);
	h_expect(!h_answered(third), "no call waits for pages");
	h_live(3 * LOOK + LOOK / 2);
	h_expect(h_answered(third), "the call that waits for pages is not answered");
	h_expect(h_warnings == 1, "%u connections are closed", h_warnings);
	has = less;
	release();
	h_expect(h_answered(first), "the connection with fewer pages is closed");
	h_serve_end();
}

/* The parked replies with which a connection takes no calls. */
#define PARKED	16

/* Calls until a number of replies wait for the send queue. */
static void park(struct h_qp *qp, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < 2000 && count; i++)
		count -= !h_answered(ask_for(qp, H_INLINE));
	h_expect(!count, "%u replies are sent", i);
}

/*
 * The page is offered to a connection that takes no calls, because its replies wait for the send
 * queue. Another connection gets the page soon.
 */
void h_short_of_unused(void)
{
	struct h_qp *full;
	u32 first, second, third;

	begin();
	h_serve_threads(2);
	h_settle();
	full = connect();
	park(full, PARKED - 1);
	first = ask(has);
	h_procedures_wait = true;
	ask_for(full, H_INLINE);
	second = ask(full);
	third = ask(waits);
	h_procedures_go();
	h_settle();
	fetch();
	h_expect(h_answered(first), "the call that has the page is not answered");
	h_pass(LOOK);
	h_qp = waits;
	h_live(0);
	h_expect(h_answered(third), "a call waits for a page that no call uses");
	h_qp = full;
	h_live(0);
	h_expect(h_answered(second), "a call waits for a page that is free");
	h_serve_end();
}

/*
 * A connection keeps the pages of its last call, another one uses as many, and the rest does not
 * suffice for a third one. The pages that no call uses are returned for it.
 */
void h_short_of_kept(void)
{
	u32 first, second;

	begin_with(2 * CALL + CALL / 2);
	h_serve(H_WRITE_1M_SCATTERED);
	has = connect();
	has->late = true;
	first = ask_for(has, H_WRITE_1M_SCATTERED);
	waits = connect();
	second = ask_for(waits, H_WRITE_1M_SCATTERED);
	h_live(0);
	h_expect(!h_answered(first), "a call is answered whose payload was not read");
	h_expect(h_answered(second), "a call waits for pages that no call uses");
	release();
	h_expect(h_answered(first), "the connection that has pages is closed");
	h_serve_end();
}

/* Serves a call over a connection. Returns the number of allocations that are then live. */
static unsigned long serve_over(struct h_qp *qp)
{
	h_qp = qp;
	h_serve(H_WRITE_1M_SCATTERED);
	return u_live();
}

/* All connections together keep no more than half of the pages. Idle ones return what they keep. */
void h_kept_bound(void)
{
	struct h_qp *qps[5];
	unsigned long before, after;
	unsigned int i;

	begin_with(4 * CALL);
	qps[0] = h_qp;
	for (i = 1; i < ARRAY_SIZE(qps); i++)
		qps[i] = connect();
	before = u_live();
	for (i = 0; i < ARRAY_SIZE(qps); i++)
		after = serve_over(qps[i]);
	h_expect(after >= before + 2 * CALL, "two connections do not keep the pages of a call");
	h_expect(after < before + 3 * CALL, "%lu allocations are kept", after - before);
	h_pass(3 * LOOK);
	h_live(0);
	after = u_live();
	h_expect(after < before + CALL / 4, "idle connections keep %lu", after - before);
	h_serve_end();
}

/*
 * Two connections need all pages, some of which a third one has kept that is being closed. The
 * device drains the queue pair of that one only afterwards if it is slow.
 */
static void need_all(bool slow)
{
	struct h_qp *closing;
	u32 first, second;

	begin_with(2 * CALL + 2);
	h_serve(H_WRITE_1M_SCATTERED);
	closing = h_qp;
	has = connect();
	waits = connect();
	closing->undrained = slow;
	h_cm_report(closing, RDMA_CM_EVENT_DISCONNECTED);
	h_settle();
	h_expect(!slow || !closing->drained, "the queue pair was drained");
	has->late = true;
	waits->late = true;
	first = ask_for(has, H_WRITE_1M_SCATTERED);
	second = ask_for(waits, H_WRITE_1M_SCATTERED);
	h_expect(h_qp_awaiting(waits), "pages of a closed connection are not returned");
	h_drain_go(closing);
	waits->late = false;
	h_qp_execute(waits);
	h_live(0);
	h_expect(h_answered(second), "the call that needed the pages is not answered");
	release();
	h_expect(h_answered(first), "a call is not answered");
	h_serve_end();
}

/* A connection that is closed returns the pages that it keeps. */
void h_kept_returned(void)
{
	need_all(false);
}

/* It returns them before its queue pair is drained. */
void h_kept_closing(void)
{
	need_all(true);
}

/*
 * A requester whose device takes no replies uses no more than half of the pages for them, and those
 * of two replies that reach the limit. Another one is served, and its own calls are when its device
 * takes replies again.
 */
void h_short_of_replies(void)
{
	unsigned long before;
	u32 xids[7];
	unsigned int i;

	begin_with(4 * CALL);
	has = h_qp;
	waits = connect();
	has->hold = true;
	before = u_live();
	for (i = 0; i < ARRAY_SIZE(xids); i++)
		xids[i] = ask_for(has, H_READ_1M_SCATTERED);
	h_expect(u_live() > before + 2 * CALL, "only %lu allocations are used", u_live() - before);
	h_expect(u_live() < before + 5 * CALL, "%lu allocations are used", u_live() - before);
	h_qp = waits;
	h_serve(H_READ_1M_SCATTERED);
	h_serve(H_READ_4K);
	release();
	for (i = 0; i < ARRAY_SIZE(xids); i++)
		h_expect(h_answered(xids[i]), "call %u is not answered", i);
	h_serve_end();
}

static struct svc_xprt *ending;

/* Gives up a connection at once, unless the thread that it interrupts has a lock. */
static void give_up(void)
{
	if (h_in_thread() && !h_holds_spinlock() && !h_holds_mutex())
		svc_xprt_close(ending);
}

static void close_connection(void *xprt)
{
	svc_xprt_close(xprt);
}

static void put_connection(void *xprt)
{
	svc_xprt_put(xprt);
}

/*
 * Gives up a connection when n locks were taken since its call arrived, for which there is no page.
 * Its queue pair takes long to drain. Returns whether there are more locks.
 */
static bool give_up_after(unsigned int n)
{
	struct h_qp *next;
	u32 first, third;
	bool more;

	begin();
	ending = h_serve_connection();
	svc_xprt_get(ending);
	next = connect();
	first = ask(has);
	waits->undrained = true;
	h_before_lock(n, give_up);
	ask(waits);
	more = !h_lock_awaited();
	h_before_lock(0, NULL);
	h_spawn("a thread that closes a connection", close_connection, ending);
	h_settle();
	third = ask(next);
	fetch();
	h_qp = next;
	h_live(0);
	h_expect(h_answered(first), "the call that has the page is not answered");
	h_expect(h_answered(third), "a connection given up after %u locks keeps its turn", n);
	h_drain_go(waits);
	h_spawn("the last user of a connection", put_connection, ending);
	h_settle();
	h_serve_end();
	return more;
}

/* A connection that is given up leaves no place among those that wait for pages. */
void h_short_given_up(void)
{
	unsigned int n = 0;

	while (give_up_after(n))
		n++;
	h_expect(n > 10, "only %u locks are taken", n);
}

/* Connections that wait in one round, and the rounds. */
#define WAITING	40
#define ROUNDS	2

/* Has further connections wait for the page, and lets them have it. No two pages are contiguous. */
static void wait_in_turn(void)
{
	struct h_qp *qps[WAITING];
	u32 xids[WAITING], first;
	unsigned int i, objects;

	for (i = 0; i < WAITING; i++) {
		qps[i] = connect();
		/* SUNRPC closes the oldest of many connections that have named no file. */
		svc_xprt_set_valid(h_serve_connection());
	}
	objects = h_objects();
	has->late = true;
	first = ask(has);
	h_contiguous = 1;
	for (i = 0; i < WAITING; i++)
		xids[i] = ask(qps[i]);
	h_contiguous = 0;
	h_expect(h_objects() == objects, "a connection whose call waits is closed");
	release();
	h_expect(h_answered(first), "the call that has the page is not answered");
	for (i = 0; i < WAITING; i++) {
		h_qp = qps[i];
		h_live(0);
		h_expect(h_answered(xids[i]), "call %u waits for ever", i);
	}
}

/* However many connections have waited, another one may wait as well, and none is closed. */
void h_short_for_many(void)
{
	unsigned int i;

	begin_with(1);
	has = h_qp;
	waits = connect();
	for (i = 0; i < ROUNDS; i++)
		wait_in_turn();
	h_expect(!h_warnings, "%u connections are closed", h_warnings);
	h_serve_end();
}
