// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of Sends that complete late: the buffers of the server's replies, and the calls of the
 * client; and of a device that refuses a long send queue.
 */
#include "harness.h"

/* Calls until a reply finds the send queue full. Returns the XID of that call. */
static u32 fill(void)
{
	unsigned int i;
	u32 xid = 0;

	for (i = 0; i < 2000; i++) {
		xid = h_ask(H_INLINE);
		h_settle();
		while (h_complete_receive(h_qp))
			h_settle();
		if (!h_answered(xid))
			break;
	}
	h_expect(!h_answered(xid), "%u replies are sent, and none waits", i);
	return xid;
}

/* Fills the send queue. Then all Sends complete. */
static void flood(void)
{
	u32 xid = fill();

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

/*
 * The connection is lost while replies wait for the send queue. They are given up, and the threads
 * of the service are free for the next connection.
 */
void h_flood_lost(void)
{
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < 3; i++) {
		u32 xid = fill();

		h_cm_disconnected();
		h_settle();
		h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
		h_cm_request();
		h_settle();
		h_ask_again(xid);
		h_live(0);
		h_expect(h_answered(xid), "the call is not answered over the next connection");
	}
	h_serve_end();
}

static const struct h_reply plain;

/* Answers those of some calls that the client has sent. Returns whether there was one. */
static bool answer(struct h_rpc **rpcs, unsigned int count)
{
	unsigned int i, sent = 0;

	for (i = 0; i < count; i++) {
		if (!h_peer_call(rpcs[i]->xid))
			continue;
		h_answer_call(h_peer_call(rpcs[i]->xid), &plain);
		h_live(0);
		sent++;
	}
	return sent;
}

/* Answers calls until there are none, and checks the results. */
static void answer_all(struct h_rpc **rpcs, unsigned int count)
{
	unsigned int i;

	while (answer(rpcs, count))
		h_live(1000);
	for (i = 0; i < count; i++) {
		h_rpc_check(rpcs[i]);
		h_rpc_free(rpcs[i]);
	}
}

/* More calls than the send queue takes while nothing on it completes. */
#define CALLS	128

/*
 * The same for the calls of a client. They are sent over the next connection, each of them once.
 * Calls of many regions fill the send queue before all credits are in use.
 */
void h_flood_of_calls_lost(void)
{
	struct h_rpc *rpcs[CALLS];
	unsigned int i;

	h_most_taken = 1;
	h_begin();
	h_connect();
	h_qp->hold = true;
	for (i = 0; i < CALLS; i++) {
		rpcs[i] = h_rpc_new(H_READDIR);
		h_rpc_start(rpcs[i], 0);
	}
	h_expect(h_window_used() < h_window(), "all calls fit the send queue");
	h_cm_disconnected();
	h_settle();
	h_live(20000);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	answer_all(rpcs, CALLS);
	h_check_breaches();
	h_end();
}

/* Runs RPCs whose Sends do not complete. Returns the RPC that finds the send queue full. */
static struct h_rpc *fill_with_calls(void)
{
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		struct h_rpc *rpc = h_rpc_new(H_INLINE);

		h_rpc_start(rpc, 0);
		if (!h_peer_call(rpc->xid))
			return rpc;
		h_answer_call(h_peer_call(rpc->xid), &plain);
		h_complete_receive(h_qp);
		h_settle();
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
	u_fail("the send queue takes %u Sends", i);
}

/* The device refuses two probes of this server, which is not probed after that. */
static void fail_probes(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);
	unsigned int i, before = h_connections;

	h_rpc_start(rpc, 0);
	h_faults.write = IB_WC_GENERAL_ERR;
	for (i = 0; i < 60 && h_connections < before + 2; i++)
		h_live(1000);
	h_expect(h_connections == before + 2, "the server was not probed");
	h_faults.write = 0;
	answer_all(&rpc, 1);
}

/*
 * The server owes a reply and accepts no Sends, and the device reports nothing. The connection is
 * closed long before the call times out, also if the server cannot be probed.
 */
static void unaccepted(bool probed)
{
	struct h_rpc *rpcs[2];
	unsigned int before;

	h_begin();
	h_connect();
	if (!probed)
		fail_probes();
	rpcs[0] = h_rpc_new(H_INLINE);
	h_rpc_start(rpcs[0], 0);
	rpcs[1] = fill_with_calls();
	before = h_disconnects;
	h_pass(10000);
	h_expect(h_disconnects == before, "the connection of a slow server is closed");
	h_pass(25000);
	h_expect(h_disconnects > before, "a send queue that stands still has no time limit");
	h_live(20000);
	answer_all(rpcs, ARRAY_SIZE(rpcs));
	h_check_breaches();
	h_end();
}

void h_flood_unaccepted(void)
{
	unaccepted(true);
	unaccepted(false);
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
