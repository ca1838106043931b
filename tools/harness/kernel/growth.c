// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a connection in version two whose Receives change their size. A larger size is
 * announced when the last smaller Receive is gone; two.c checks that none was left. In one scenario
 * the peer is asked for smaller Receives. In another one the peer has no Receives for operations.
 */
#include "wire.h"

/* More RPCs than there are Receives, so that each Receive gets a message. */
#define ROUND	256
/* A time in milliseconds within which the module looks at its settings. */
#define LOOK	11000
/* The module posts this part of as many Receives as it has credits together. */
#define BATCHES	4

static const struct h_reply plain;

/* Each message was handled. The module may keep Receives, but less than a batch. */
static void expect_posted(void)
{
	unsigned int idle = h_qp->rq_most - h_qp->rq_len;

	h_expect(idle < h_grant / BATCHES, "%u of %u Receives are not posted", idle,
		 h_qp->rq_most);
}

static void run_inline(unsigned int count)
{
	while (count--) {
		struct h_rpc *rpc = h_rpc_new(H_INLINE);

		h_rpc_run(rpc, &plain);
		h_rpc_free(rpc);
		expect_posted();
	}
}

static void expect_announced(u32 size)
{
	h_expect(h_qp->announced == size, "the module announces Receives of %u bytes, not of %u",
		 h_qp->announced, size);
}

/* The last Receives are those that the completion worker keeps: fewer than it posts together. */
static void begin(void)
{
	h_answer.two = true;
	h_begin();
	h_connect();
	h_live(LOOK);
	expect_announced(4096);
	run_inline(3);
}

/* Changes the setting. The Receives begin to grow. */
static void set_size(u32 size)
{
	h_tune("rdma_max_inline_read", size);
	h_live(LOOK);
}

/* Lets each Receive get a message, and the module announce the new size. */
static void use_all(void)
{
	run_inline(ROUND);
	h_live(LOOK);
}

static void end(void)
{
	h_check_calm();
	h_expect(h_connections == 1, "%u connections were made", h_connections);
	h_end();
}

static void grow(void)
{
	begin();
	set_size(16384);
	expect_announced(4096);
	use_all();
	expect_announced(16384);
	end();
}

/* Asks for smaller Receives. The peer keeps to that size from now on. */
static void ask(u32 size)
{
	unsigned int done = h_two_done;

	h_qp->announced = size;
	h_two_ask(size);
	h_live(LOOK);
	h_expect(h_two_done == done + 1, "the request for smaller Receives is refused");
	expect_announced(size);
}

/* Nobody has set a size. The Receives of a connection at work grow, and of no other. */
static void grow_at_work(void)
{
	begin();
	run_inline(100);
	h_live(LOOK);
	expect_announced(4096);
	use_all();
	expect_announced(4096);
	use_all();
	expect_announced(8192);
	/* The size that was asked for stays, although the connection is at work. */
	ask(2048);
	use_all();
	expect_announced(2048);
	end();
}

/* The Receives of a connection at work keep their size if the administrator wants that. */
static void grow_never(void)
{
	begin();
	h_tune("rdma_inline_auto", 0);
	use_all();
	use_all();
	expect_announced(4096);
	h_tune("rdma_inline_auto", 1);
	end();
}

/* Messages have arrived, and their completions are handled when the growth has begun. */
static void grow_with_messages(void)
{
	struct h_rpc *rpcs[8];
	unsigned int i;

	begin();
	for (i = 0; i < ARRAY_SIZE(rpcs); i++) {
		rpcs[i] = h_rpc_new(H_INLINE);
		h_rpc_start(rpcs[i], 0);
		h_answer_call(h_peer_call(rpcs[i]->xid), &plain);
	}
	h_tune("rdma_max_inline_read", 16384);
	h_pass(LOOK);
	use_all();
	expect_announced(16384);
	for (i = 0; i < ARRAY_SIZE(rpcs); i++)
		h_rpc_free(rpcs[i]);
	end();
}

/* The setting changes again while the Receives grow. */
static void grow_twice(void)
{
	begin();
	set_size(8192);
	run_inline(50);
	set_size(16384);
	expect_announced(4096);
	use_all();
	use_all();
	expect_announced(16384);
	end();
}

/* The former size is set again while the Receives grow: they grow nevertheless. */
static void grow_and_reset(void)
{
	begin();
	set_size(8192);
	run_inline(50);
	set_size(4096);
	use_all();
	expect_announced(8192);
	set_size(16384);
	use_all();
	expect_announced(16384);
	end();
}

/* The peer asks for smaller Receives, and the setting changes afterwards. */
static void shrink(void)
{
	begin();
	set_size(16384);
	use_all();
	expect_announced(16384);
	ask(2048);
	use_all();
	expect_announced(2048);
	set_size(8192);
	use_all();
	expect_announced(8192);
	set_size(32768);
	use_all();
	expect_announced(32768);
	end();
}

/* The peer asks for smaller Receives while they grow, which ends the growth. */
static void shrink_while_growing(void)
{
	begin();
	set_size(16384);
	run_inline(50);
	ask(2048);
	use_all();
	expect_announced(2048);
	set_size(32768);
	use_all();
	expect_announced(32768);
	end();
}

/* The size that was abandoned is set again before the last smaller Receive is gone. */
static void grow_after_shrinking(void)
{
	begin();
	set_size(16384);
	run_inline(50);
	ask(2048);
	set_size(8192);
	run_inline(50);
	set_size(16384);
	use_all();
	use_all();
	expect_announced(16384);
	end();
}

/* The connection is lost while Receives grow. Those of the next one have the new size. */
static void lose_while_growing(void)
{
	begin();
	set_size(16384);
	run_inline(50);
	h_cm_disconnected();
	h_settle();
	h_live(20000);
	run_inline(1);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_live(LOOK);
	expect_announced(16384);
	use_all();
	h_check_breaches();
	h_end();
}

/* The setting changes, and the connection is lost before the Receives have begun to grow. */
static void lose_before_growing(void)
{
	begin();
	h_tune("rdma_max_inline_read", 16384);
	h_cm_disconnected();
	h_pass(LOOK);
	h_live(20000);
	run_inline(1);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_live(LOOK);
	expect_announced(16384);
	set_size(32768);
	use_all();
	expect_announced(32768);
	h_check_breaches();
	h_end();
}

/* Lets the driver map regions until no thread waits for it. */
static void map_all(void)
{
	while (h_map_waits()) {
		h_map_go();
		h_live(0);
	}
}

/*
 * A call of 3000 bytes is being prepared, to be sent at once, when calls are limited to 1024 bytes.
 * It is prepared again: the peer has been asked for Receives that it would not fit.
 */
static void lower_while_mapping(void)
{
	struct h_rpc *first = h_rpc_new(H_INLINE), *longer = h_rpc_new(H_LONG_READ);

	h_slow_mapping = true;
	begin();
	h_cm_disconnected();
	h_settle();
	h_rpc_start(first, 0);
	h_rpc_start(longer, 0);
	while (!h_peer_call(first->xid))
		h_live(100);
	map_all();
	h_answer_call(h_peer_call(first->xid), &plain);
	h_live(0);
	h_expect(h_map_waits() && h_window_used(), "the call is not being prepared to be sent");
	h_tune("rdma_max_inline_write", 1024);
	h_live(LOOK);
	h_expect(h_qp->asked == 1024, "the peer is asked for Receives of %u bytes", h_qp->asked);
	map_all();
	h_expect(h_peer_call(longer->xid), "the call is not sent");
	h_answer_call(h_peer_call(longer->xid), &plain);
	h_live(0);
	h_rpc_check(first);
	h_rpc_check(longer);
	h_rpc_free(first);
	h_rpc_free(longer);
	h_check_breaches();
	h_end();
}

/* Calls the module in version two. */
static void call_back(u32 xid)
{
	const u32 words[] = { xid, 2, h_grant, 0, 0, 0, 0, 0, xid, 0, 2, 0, 0, 0, 0, 0 };

	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	h_live(0);
}

/*
 * A reply of 2000 bytes to a call is about to be posted when messages are limited to 1024 bytes.
 * The peer is asked for smaller Receives when the reply has been posted.
 */
static void lower_while_replying(void)
{
	begin();
	h_callbacks_begin();
	h_callback_reply = 2000;
	call_back(0x77);
	h_lock_pause();
	h_expect(h_callback_answer() && h_lock_pauses(), "no reply is about to be posted");
	h_tune("rdma_max_inline_write", 1024);
	h_live(LOOK);
	h_lock_go();
	h_live(LOOK);
	h_expect(h_backward_replies == 1, "the server received no reply");
	h_expect(h_qp->asked == 1024, "the peer is asked for Receives of %u bytes", h_qp->asked);
	h_callbacks_end();
	end();
}

/*
 * The peer may have a Receive for each credit and no other. INIT_XCHAR, which follows the first
 * reply, takes a credit until the reply to a later call shows that it has arrived.
 */
static void count_operation(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_answer.two = true;
	h_answer.bare = true;
	h_begin();
	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
	h_expect(h_window() == h_grant - 1, "%u of %u credits are left beside INIT_XCHAR",
		 h_window(), h_grant);
	run_inline(3);
	h_expect(h_window() == h_grant, "%u of %u credits are left", h_window(), h_grant);
	end();
}

/*
 * A requester may have a Receive for each credit and no other. The credits in its calls are what it
 * requests, and those in its operations are not.
 */
static void request_credits(void)
{
	/* UPD_XCHAR with one credit: the size of its Receives is 8192 bytes. */
	const u32 words[] = { 0x5150, 2, 1, H_TWO_OPTIONAL, 0, 4, 16, 1, 4, 8192, 0 };
	u32 granted;

	h_answer.two = true;
	h_answer.bare = true;
	h_requester_two = true;
	h_serve_begin();
	granted = h_granted;
	h_expect(granted > 1, "%u credits are granted", granted);
	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	h_live(0);
	h_serve(H_INLINE);
	h_expect(h_granted == granted, "%u credits are granted, not %u", h_granted, granted);
	h_serve_end();
}

const struct h_scenario h_growth_scenarios[] = {
	{ "grow", grow },
	{ "grow_at_work", grow_at_work },
	{ "grow_never", grow_never },
	{ "grow_with_messages", grow_with_messages },
	{ "grow_twice", grow_twice },
	{ "grow_and_reset", grow_and_reset },
	{ "shrink", shrink },
	{ "shrink_while_growing", shrink_while_growing },
	{ "grow_after_shrinking", grow_after_shrinking },
	{ "lose_while_growing", lose_while_growing },
	{ "lose_before_growing", lose_before_growing },
	{ "lower_while_mapping", lower_while_mapping },
	{ "lower_while_replying", lower_while_replying },
	{ "count_operation", count_operation },
	{ "request_credits", request_credits },
	{}
};
