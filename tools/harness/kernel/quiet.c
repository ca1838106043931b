// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server whose Sends are not all signalled: when the pages of a reply are freed that
 * were written by RDMA Writes.
 */
#include <linux/mm.h>
#include "harness.h"

#define LOOK	10000	/* milliseconds from one look of the watch to the next */
#define LOOKS	(3 * LOOK)

static void serve(enum h_kind_number kind, unsigned int count)
{
	while (count--)
		h_serve(kind);
	h_live(0);
}

/* The pages of four replies are freed together; no more than three replies keep theirs. */
void h_quiet_replies(void)
{
	unsigned long live;
	unsigned int i;

	h_serve_begin();
	serve(H_READ_4K, 8);
	live = u_live();
	for (i = 0; i < 4; i++) {
		serve(H_READ_4K, 3);
		h_expect(u_live() > live, "each Send is signalled");
		serve(H_READ_4K, 1);
		h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	}
	h_serve_end();
}

/* Where no reply follows, the watch has the pages freed. */
void h_quiet_requester(void)
{
	unsigned long live;

	h_serve_begin();
	serve(H_READ_4K, 8);
	live = u_live();
	serve(H_READ_4K, 3);
	h_expect(u_live() > live, "each Send is signalled");
	h_live(LOOKS);
	h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	/* The three count no more: the next Send is the fourth. */
	serve(H_READ_4K, 1);
	h_expect(u_live() == live, "the fourth Send is not signalled");
	h_serve_end();
}

/* Lets the watch look several times while many calls without chunks are answered in between. */
static void busy(void)
{
	unsigned int i;

	for (i = 0; i < LOOKS; i += LOOK) {
		serve(H_INLINE, 500);
		h_live(LOOK);
	}
}

/* Completions of other Sends do not keep the watch from it. */
void h_quiet_and_busy(void)
{
	unsigned long live;

	h_serve_begin();
	serve(H_READ_4K, 8);
	busy();
	live = u_live();
	serve(H_READ_4K, 3);
	h_expect(u_live() > live, "each Send is signalled");
	busy();
	h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	h_serve_end();
}

/* The pages of a long reply are freed as soon as it was sent, with those of the replies before. */
void h_quiet_and_long(void)
{
	unsigned long live;

	h_serve_begin();
	serve(H_READ_4K, 8);
	serve(H_READ_1M_SCATTERED, 8);
	live = u_live();
	serve(H_READ_1M_SCATTERED, 1);
	h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	serve(H_READ_4K, 2);
	serve(H_READ_1M_SCATTERED, 1);
	h_expect(u_live() == live, "%ld allocations are kept", u_live() - live);
	h_serve_end();
}

/*
 * Replies fill the send queue before the first completion, and the next one waits. It is sent
 * when the completions have been handled, although nothing else is sent.
 */
void h_quiet_and_many(void)
{
	unsigned int i;
	u32 xid = 0;

	h_serve_begin();
	for (i = 0; i < 2000; i++) {
		xid = h_ask(H_READ_4K);
		h_settle();
		while (h_complete_receive(h_qp))
			h_settle();
		if (!h_answered(xid))
			break;
	}
	h_expect(!h_answered(xid), "%u replies are sent, and none waits", i);
	h_live(0);
	h_expect(h_answered(xid), "the last READ is not answered");
	h_serve_end();
}

/*
 * The watch looks, and then a call begins to be fetched. There is no memory for that when its
 * message arrives, so a thread of the service does it.
 */
static u32 fetched;

static void look_and_fetch(void)
{
	h_pass(LOOK);
	fetched = h_ask(H_WRITE_4K);
	h_refused_size = 1;
	h_complete_receive(h_qp);
	h_refused_size = 0;
	h_settle();
}

/* Does so when the handler of a signalled Send has taken n locks. Returns whether it takes more. */
static bool reuse(unsigned int n)
{
	const struct h_qp *connection;
	bool more;

	h_serve_begin();
	connection = h_qp;
	serve(H_READ_4K, 11);
	h_ask(H_READ_4K);
	h_complete_receive(h_qp);
	h_settle();
	h_before_lock(n, look_and_fetch);
	h_expect(h_complete_send(h_qp), "the twelfth Send is not signalled");
	more = !h_lock_awaited();
	h_before_lock(0, NULL);
	h_live(0);
	h_expect(h_qp == connection && (!more || h_answered(fetched)),
		 "the connection is lost when %u locks were taken", n);
	h_serve_end();
	return more;
}

/* A completion concerns the reply of its Send, and not the call that uses the same slot next. */
void h_quiet_and_reused(void)
{
	unsigned int n = 0;

	while (reuse(n))
		n++;
	h_expect(n > 2, "the handler of a Send takes %u locks", n);
}

/* A page of the page cache is given back as soon as the reply was sent. */
void h_quiet_and_shared(void)
{
	unsigned int i;

	h_cached = alloc_page(GFP_KERNEL);
	h_serve_begin();
	for (i = 0; i < 8; i++) {
		serve(H_READ_4K, 1);
		h_expect(page_count(h_cached) == 1, "%d references to a page are kept",
			 page_count(h_cached) - 1);
	}
	h_serve_end();
	__free_page(h_cached);
}

/*
 * No page of the page cache is left to a thread of the service when the service takes it out of a
 * reply again, and the connection is lost meanwhile.
 */
void h_quiet_and_truncated(void)
{
	h_cached = alloc_page(GFP_KERNEL);
	h_truncates = true;
	h_serve_begin();
	h_serve_threads(2);
	h_settle();
	h_procedures_wait = true;
	h_ask(H_READ_1M_ADJACENT);
	h_complete_receive(h_qp);
	h_settle();
	h_cm_disconnected();
	h_settle();
	h_procedures_go();
	h_settle();
	h_expect(page_count(h_cached) == 1, "%d references to a page are kept",
		 page_count(h_cached) - 1);
	h_serve_end();
	__free_page(h_cached);
}

/*
 * No thread writes to a page that the device still has to send, also if the service has not moved
 * rq_next_page behind it.
 */
void h_quiet_and_uncounted(void)
{
	u32 first, second;

	h_uncounted = true;
	h_serve_begin();
	h_qp->hold = true;
	first = h_ask(H_READ_1M_SCATTERED);
	h_complete_receive(h_qp);
	h_settle();
	second = h_ask(H_READ_1M_SCATTERED);
	h_complete_receive(h_qp);
	h_settle();
	h_qp->hold = false;
	h_qp_execute(h_qp);
	h_live(0);
	h_expect(h_answered(first) && h_answered(second), "a call is not answered");
	h_serve_end();
}
