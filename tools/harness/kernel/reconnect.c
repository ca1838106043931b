// SPDX-License-Identifier: GPL-2.0
/* Scenarios of a second connection, and what the module allocates for it. */
#include "harness.h"

/* The most objects that a further connection may allocate, and the size of the largest. */
#define OBJECTS	12
#define LARGEST	1024
/* A time in milliseconds within which a client has connected again. */
#define SOON	4000

static const struct h_reply plain;

/* Runs a READ, for which the transport connects if it is not connected. */
static void read_once(void)
{
	struct h_rpc *rpc = h_rpc_new(H_READ_4K);
	unsigned int i;

	h_rpc_start(rpc, 0);
	for (i = 0; i < 90 && !h_peer_call(rpc->xid); i++)
		h_live(1000);
	h_expect(h_peer_call(rpc->xid), "the call was not sent");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

static void lose_connection(void)
{
	h_cm_disconnected();
	h_settle();
}

/* Reports what was allocated since h_allocations was set to zero. */
static void report(const char *what)
{
	u_say("%s: %u allocations, %lu bytes, the largest has %lu", what, h_allocations.count,
	      h_allocations.bytes, h_allocations.largest);
}

static void begin_counting(void)
{
	memset(&h_allocations, 0, sizeof(h_allocations));
}

static void expect_little(const char *what)
{
	report(what);
	h_expect(h_allocations.count <= OBJECTS, "%s: %u allocations", what, h_allocations.count);
	h_expect(h_allocations.largest <= LARGEST, "%s: an allocation of %lu bytes", what,
		 h_allocations.largest);
}

/* Buffers, regions and queues of the second connection have the memory of the first. */
void h_second_connection(void)
{
	h_begin();
	begin_counting();
	h_connect();
	report("first connection");
	lose_connection();
	begin_counting();
	read_once();
	h_expect(h_connections == 2, "%u connections", h_connections);
	expect_little("second connection");
	h_end();
}

/* The transport reconnects although only allocations of small objects succeed. */
void h_reconnect_without_memory(void)
{
	h_begin();
	h_connect();
	h_refused_size = LARGEST + 1;
	lose_connection();
	read_once();
	h_expect(h_connections == 2, "%u connections", h_connections);
	h_refused_size = 0;
	h_end();
}

/* Sends a message if a connection is being made, which sleeps, and lets that go on. */
static void interrupt(void)
{
	if (!h_allocation_sleeps())
		return;
	if (h_qp && !h_qp->broken)
		h_answer_unknown(0x4711, 0);
	h_live(0);
	h_allocation_go();
}

/* As read_once(). The n-th allocation is interrupted; returns whether there was one. */
static bool read_interrupted(unsigned int n)
{
	struct h_rpc *rpc = h_rpc_new(H_READ_4K);
	unsigned int i;
	bool reached;

	h_sleeping_allocation = n;
	h_rpc_start(rpc, 0);
	for (i = 0; i < 90 && !h_peer_call(rpc->xid); i++) {
		interrupt();
		h_live(1000);
	}
	reached = !h_sleeping_allocation;
	h_sleeping_allocation = 0;
	h_expect(h_peer_call(rpc->xid), "the call was not sent");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	return reached;
}

/*
 * The server sends a message before the module uses the connection. What it grants counts for the
 * first call, or the connection is aborted.
 */
void h_grant_before_use(void)
{
	unsigned int n = 0;
	bool reached;

	h_begin();
	h_connect();
	do {
		lose_connection();
		reached = read_interrupted(++n);
		h_expect(h_window() == h_grant, "allocation %u: %u credits of %u", n, h_window(),
			 h_grant);
	} while (reached);
	h_expect(n > 3, "only %u allocations were interrupted", n - 1);
	h_end();
}

/* SUNRPC closes an idle connection, and the transport then keeps no memory for the next one. */
void h_idle_without_memory(void)
{
	unsigned long before, after;

	h_begin();
	before = u_live();
	h_connect();
	h_live(400000);
	h_expect(!h_dma_live(), "the idle connection is not closed");
	after = u_live();
	u_say("%lu pieces of memory before the connection, %lu after it", before, after);
	h_expect(after <= before + 8, "%lu pieces of memory are kept", after - before);
	read_once();
	h_end();
}

/* A connection is lost that no call uses. The memory is kept for five minutes, and freed then. */
void h_lost_and_idle(void)
{
	unsigned long before, kept, after;

	h_begin();
	before = u_live();
	h_connect();
	lose_connection();
	kept = u_live();
	h_expect(!h_dma_live(), "the connection is not closed");
	h_live(400000);
	after = u_live();
	u_say("%lu pieces of memory before the connection, %lu after it, %lu later", before, kept,
	      after);
	h_expect(kept > before + 100, "no memory is kept for the next connection");
	h_expect(after <= before + 8, "%lu pieces of memory are kept", after - before);
	read_once();
	h_end();
}

/* Loses the connection, and expects Receives of this size on the next one. */
static void expect_size(u32 size)
{
	struct h_wr *wr;

	h_tune("rdma_max_inline_read", size);
	lose_connection();
	read_once();
	list_for_each_entry(wr, &h_qp->rq, list)
		h_expect(wr->len == size, "a Receive has %u bytes instead of %u", wr->len, size);
	h_expect(h_qp->rq_len > h_grant, "%u Receives are posted", h_qp->rq_len);
}

/*
 * The size of Receives changes between two connections. The next one has none of an earlier size,
 * although it has the memory of an earlier one.
 */
void h_resized(void)
{
	static const u32 sizes[] = { 4096, 16384, 4096, 65536, 8192, 8192 };
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		expect_size(sizes[i]);
	h_check_breaches();
	h_end();
}

/* Returns whether a call that needs a connection fails within five seconds. */
static bool fails_soon(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);
	bool soon;

	h_rpc_start(rpc, RPC_TASK_SOFTCONN);
	h_live(5000);
	soon = rpc->released;
	h_live(10 * 1000);
	h_expect(rpc->released && rpc->status == -ECONNREFUSED, "the call ends with %d",
		 rpc->status);
	h_rpc_free(rpc);
	return soon;
}

/*
 * Calls of a mount wait for a server that refuses. The test of a transport that a mount does not
 * have yet does not wait: a mount command may wait for the test.
 */
void h_tested(void)
{
	h_begin();
	h_xprt->main = 0;
	h_answer.refuse = true;
	h_expect(!fails_soon(), "a call of a mount fails at once");
	list_del_init(&h_xprt->xprt_switch);
	h_expect(fails_soon(), "the test of a transport that is added waits");
	h_answer.refuse = false;
	h_end();
}

/* The call has been sent again, in this version. It is answered, and the scenario ends. */
static void end_in(struct h_rpc *rpc, u32 version)
{
	struct h_call *call = h_peer_call(rpc->xid);

	h_expect(call, "the call is not sent again");
	h_expect(call->version == version, "the call is sent in version %u", call->version);
	h_answer_call(call, &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/*
 * A server whose private data announce version two does not answer the first call until it has
 * timed out twice. The client has closed both connections, and goes on in version two.
 */
void h_slow_in_two(void)
{
	struct h_rpc *rpc;
	const char *known;

	h_answer.two = true;
	h_begin();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_live(140000);
	h_expect(h_connections == 3, "%u connections were made", h_connections);
	known = h_file_read("peers");
	h_expect(known && !*known, "a slow server is known as %s", known);
	end_in(rpc, 2);
}

/*
 * Such a server closes two connections within seconds before it has answered. That may have been
 * one incident, as for the connections of a mount, so that the client tries version two again.
 */
void h_doubted_in_two(void)
{
	struct h_rpc *rpc;
	const char *known;
	unsigned int i;

	h_answer.two = true;
	h_begin();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	for (i = 1; i <= 2; i++) {
		h_live(SOON);
		h_expect(h_connections == i, "%u connections were made", h_connections);
		h_expect(h_peer_call(rpc->xid), "the call is not sent");
		h_cm_disconnected();
	}
	h_live(SOON);
	known = h_file_read("peers");
	h_expect(known && strstr(known, " doubt "), "the server is known as '%s'", known);
	end_in(rpc, 2);
}

/*
 * The queue pair fails twice before such a server has answered. The client has ordered these closes
 * too, but the server may have caused the failures: the next connection is in version one.
 */
void h_broken_in_two(void)
{
	struct h_rpc *rpc;
	const char *known;

	h_answer.two = true;
	h_begin();
	h_faults.write = IB_WC_REM_OP_ERR;
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_live(40000);
	h_faults.write = 0;
	h_expect(h_connections == 3, "%u connections were made", h_connections);
	known = h_file_read("peers");
	h_expect(known && *known, "a server that breaks version two is not known");
	end_in(rpc, 1);
}

/* The events of an attempt to connect that is refused: address, route, refusal. */
#define EVENTS	3
/* The most attempts in TRIED milliseconds. A pause takes at least a quarter of a second. */
#define TRIED	8000
#define MOST	(TRIED / 250)

/* Counts the attempts to connect in TRIED milliseconds. There are MOST of them at the most. */
static unsigned int attempts(void)
{
	unsigned int ms, events = 0;

	for (ms = 0; ms < TRIED; ms += 10) {
		while (h_cm_event_waits(NULL)) {
			h_expect(++events <= EVENTS * MOST, "%u attempts in %u ms",
				 events / EVENTS, ms);
			h_cm_handle_event(NULL);
			h_settle();
		}
		h_live(10);
	}
	return events / EVENTS;
}

/*
 * NFSv4 passes the lease time of the server on as the longest time between two attempts. A server
 * that announces 0, and then refuses, is not tried without pauses.
 */
void h_lease_of_zero(void)
{
	struct h_rpc *rpc;
	unsigned int count;

	h_begin();
	h_connect();
	h_xprt->ops->set_connect_timeout(h_xprt, 0, 0);
	h_answer.refuse = true;
	lose_connection();
	h_cm_waits = true;
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	count = attempts();
	u_say("%u attempts in %u ms", count, TRIED);
	h_cm_waits = h_answer.refuse = false;
	h_live(10 * 1000);
	h_expect(h_peer_call(rpc->xid), "the call is not sent again");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}
