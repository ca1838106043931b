// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a server whose replies are read chunks (RFC 5666): the requester reads a reply, and
 * sends RDMA_DONE. What the requester can reach stays as it is, and belongs to nobody else.
 */
#include "wire.h"

/* The most replies that a requester may read at a time. */
#define MOST	8
#define CALLS	(MOST + 1)

/* A requester without private data, whose calls offer no chunk. */
static void begin(unsigned int threads)
{
	h_answer.send = 0;
	h_load();
	h_tune("read_chunks", 1);
	h_serve_start(threads);
	h_cm_request();
	h_settle();
	h_expect(h_qp, "the connection is not accepted");
	h_ready = true;
	h_offer = H_OFFER_NOTHING;
}

static void receive(void)
{
	h_settle();
	while (h_qp && h_complete_receive(h_qp))
		h_settle();
}

static u32 ask(enum h_kind_number kind)
{
	u32 xid = h_ask(kind);

	receive();
	return xid;
}

/* Sends RDMA_DONE for the reply to a call. */
static void done(u32 xid)
{
	const u32 words[] = { xid, 1, MOST, H_DONE };

	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	receive();
}

/* Lets the device execute what it was slow to do, and delivers all completions. */
static void release(void)
{
	h_qp->hold = false;
	h_qp_execute(h_qp);
	h_live(0);
}

static void end_mapping(unsigned int left)
{
	while (h_map_waits() > left) {
		h_map_go();
		h_settle();
	}
}

static void expect_alive(void)
{
	h_expect(h_qp && !h_qp->broken && h_connections == 1, "the connection is closed");
}

/* Expects that some calls are answered, and the number of replies that the requester has read. */
static void expect_read(const u32 *xids, unsigned int count, unsigned int read)
{
	unsigned int i, refused = 0;

	expect_alive();
	for (i = 0; i < count; i++) {
		h_expect(h_answered(xids[i]), "call %u is not answered", i);
		refused += h_call_refused(xids[i]);
	}
	h_expect(refused == count - read, "%u of %u calls are refused", refused, count);
}

/* The requester reads each reply. Its RDMA_DONE ends that. */
void h_exposed(void)
{
	unsigned int i;
	u32 xid;

	begin(1);
	for (i = 0; i < 2 * MOST; i++) {
		xid = ask(H_READ_4K);
		h_live(0);
		h_expect(h_mr_open(h_qp, h_pulled_key), "the requester cannot read a reply");
		done(xid);
		h_live(0);
		h_expect(!h_mr_open(h_qp, h_pulled_key), "a reply can be read after RDMA_DONE");
	}
	expect_alive();
	h_serve_end();
}

/*
 * The requester reads as many replies as it may. A further call is refused, also when all threads
 * prepare their replies at the same time.
 */
void h_exposed_limit(void)
{
	u32 xids[CALLS], i;

	h_requester_breach = "reply_room";
	h_slow_mapping = true;
	begin(CALLS);
	for (i = 0; i < CALLS; i++)
		xids[i] = ask(H_READ_4K);
	end_mapping(0);
	h_live(0);
	expect_read(xids, CALLS, MOST);
	h_serve_end();
}

/*
 * A reply can be reached until its invalidation has completed, and takes its place until then, also
 * when the RDMA_DONE has arrived.
 */
void h_exposed_until_invalidated(void)
{
	u32 xids[CALLS], further, i;

	h_requester_breach = "reply_room";
	h_slow_mapping = true;
	begin(CALLS);
	for (i = 0; i < CALLS; i++)
		xids[i] = ask(H_READ_4K);
	end_mapping(1);
	for (i = 0; !h_answered(xids[i]); i++)
		h_expect(i < CALLS - 1, "no call is answered");
	swap(xids[0], xids[i]);
	expect_read(xids, 1, 1);
	h_qp->hold = true;
	done(xids[0]);
	/* The requester has no further use for the memory of that call. */
	further = ask(H_READ_4K);
	end_mapping(0);
	release();
	expect_read(xids + 1, CALLS - 1, MOST - 1);
	expect_read(&further, 1, 0);
	further = ask(H_READ_4K);
	end_mapping(0);
	h_live(0);
	expect_read(&further, 1, 1);
	h_serve_end();
}

/* Of two replies that were read, the memory of one can be reached a little longer. */
void h_exposed_in_turn(void)
{
	u32 first, second, key;

	begin(1);
	first = ask(H_READ_4K);
	second = ask(H_READ_4K);
	key = h_pulled_key;
	h_live(0);
	h_qp->hold = true;
	done(first);
	done(second);
	while (!h_complete_send(h_qp))
		h_qp_step(h_qp);
	h_settle();
	h_expect(h_mr_open(h_qp, key), "both replies are invalidated");
	release();
	h_expect(!h_mr_open(h_qp, key), "a reply can be read after RDMA_DONE");
	expect_alive();
	h_serve_end();
}

/* The connection is lost while the driver maps a reply. The thread of the service drops it. */
void h_exposed_too_late(void)
{
	h_slow_mapping = true;
	begin(1);
	ask(H_READ_4K);
	h_expect(h_map_waits(), "no memory is being mapped");
	h_cm_disconnected();
	h_live(0);
	end_mapping(0);
	h_live(0);
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_serve_end();
}

/* The driver registers a reply, but does not take the Send behind that. */
void h_exposed_in_part(void)
{
	begin(1);
	h_faults.posts = 2;
	ask(H_READ_4K);
	h_live(0);
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_serve_end();
}

/* Calls until a reply finds the send queue full. */
static void fill(void)
{
	u32 i, xid = 0;

	for (i = 0; i < 2000; i++) {
		xid = ask(H_INLINE);
		if (!h_answered(xid))
			return;
	}
	h_expect(false, "%u replies are sent, and none waits", i);
}

/* An RDMA_DONE, and a reply to be read, wait while the send queue is full. */
void h_exposed_in_flood(void)
{
	u32 first, second, key;

	h_requester_breach = "done";
	begin(1);
	first = ask(H_READ_4K);
	key = h_pulled_key;
	fill();
	done(first);
	expect_alive();
	second = ask(H_READ_4K);
	expect_alive();
	h_expect(h_mr_open(h_qp, key), "a reply is invalidated by a full queue");
	h_expect(!h_answered(second), "a full queue takes a reply");
	/* There is no second reply to be read yet. */
	done(second);
	h_live(0);
	h_expect(!h_mr_open(h_qp, key), "a reply can be read after RDMA_DONE");
	expect_read(&second, 1, 1);
	done(second);
	h_live(0);
	h_expect(!h_mr_open(h_qp, h_pulled_key), "a reply can be read after RDMA_DONE");
	expect_alive();
	h_serve_end();
}

/* The connection is lost while they wait. */
void h_exposed_in_flood_lost(void)
{
	u32 first;

	begin(1);
	first = ask(H_READ_4K);
	fill();
	done(first);
	expect_alive();
	ask(H_READ_4K);
	h_cm_disconnected();
	h_settle();
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_serve_end();
}
