// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of a device whose addresses have gaps that the memory does not have, as those of bounce
 * buffers: a region takes only the first of its elements, and the next region takes the rest. And
 * of bounce buffers that are all in use.
 */
#include "harness.h"

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

/* Runs an RPC, and expects its chunks to have these numbers of segments. */
static void run(enum h_kind_number kind, u32 read, u32 write, u32 reply)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct h_rpc *rpc = h_rpc_new(kind);
		struct h_call *call;

		h_rpc_start(rpc, 0);
		call = h_peer_call(rpc->xid);
		h_expect(call, "%s is not sent", rpc->kind->name);
		h_expect(call->read.count == read && call->write.count == write &&
			 call->reply.count == reply, "%s has %u, %u and %u segments",
			 rpc->kind->name, call->read.count, call->write.count, call->reply.count);
		h_answer_call(call, i ? &remote : &plain);
		h_live(0);
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
}

/* Head and tail of a reply do not follow its pages. Whole pages do follow each other. */
void h_bounced_calls(void)
{
	h_begin();
	h_connect();
	run(H_READDIR, 0, 0, 1);
	h_bounced = true;
	run(H_INLINE, 0, 0, 0);
	run(H_READ_4K, 0, 1, 0);
	run(H_WRITE_4K, 1, 0, 0);
	run(H_READ_1M_SCATTERED, 0, 1, 0);
	run(H_WRITE_1M_SCATTERED, 1, 0, 0);
	run(H_READDIR, 0, 0, 3);
	run(H_LONG_CALL, 1, 0, 0);
	h_check_calm();
	h_end();
}

/* A region has memory that is mapped by piece, and then memory that is not. */
void h_bounced_before(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < 4; i++) {
		h_by_piece = i % 2;
		run(H_READ_4K, 0, 1, 0);
		run(H_READDIR, 0, 0, 1);
		run(H_WRITE_1M_SCATTERED, 1, 0, 0);
	}
	h_check_calm();
	h_end();
}

/* A region takes twenty elements, which are pages, or one. */
void h_bounced_calls_in_parts(void)
{
	h_begin();
	h_connect();
	h_most_taken = 20;
	run(H_READ_1M_SCATTERED, 0, 13, 0);
	run(H_WRITE_1M_SCATTERED, 13, 0, 0);
	h_most_taken = 3;
	run(H_READDIR, 0, 0, 4);
	h_most_taken = 1;
	run(H_READDIR, 0, 0, 10);
	h_check_calm();
	h_end();
}

/* The RDMA Reads of a server over iWARP place their bytes into regions. */
void h_bounced_reads(void)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
	h_serve_begin();
	h_bounced = true;
	h_serve(H_WRITE_4K);
	h_serve(H_WRITE_1M_SCATTERED);
	h_serve(H_LONG_CALL);
	h_most_taken = 20;
	h_serve(H_WRITE_1M_SCATTERED);
	h_most_taken = 1;
	h_serve(H_LONG_CALL);
	h_serve_end();
}

/* The free bounce buffers do not adjoin each other. Adjacent pages have room one by one. */
void h_bounced_by_page(void)
{
	h_begin();
	h_connect();
	h_no_long_room = true;
	run(H_READ_1M_ADJACENT, 0, 1, 0);
	run(H_WRITE_1M_ADJACENT, 1, 0, 0);
	h_check_calm();
	h_end();
}

/*
 * The same for the pages of a reply, which RDMA Writes take from the pages of the service, after
 * one pause for each page list.
 */
void h_bounced_by_page_served(void)
{
	static const enum h_kind_number kinds[] = {
		H_READ_1M_ADJACENT, H_READDIR, H_WRITE_1M_ADJACENT
	};
	struct h_qp *qp;
	unsigned int i;
	u32 xid;

	h_serve_begin();
	qp = h_qp;
	h_no_long_room = true;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		xid = h_ask(kinds[i]);
		h_live(50);
		h_expect(h_answered(xid), "%s is not answered", h_kinds[kinds[i]].name);
	}
	h_expect(h_qp == qp && !qp->broken, "the connection is lost");
	h_serve_end();
}

/* A call whose memory cannot be mapped waits, and its connection stays. */
void h_mapping_refused(void)
{
	static const enum h_kind_number kinds[] = { H_READ_4K, H_WRITE_4K, H_READDIR };
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct h_rpc *rpc = h_rpc_new(kinds[i]);

		/* Each attempt maps long pieces and pages, before and after taking memory back. */
		h_refused_mappings = 20;
		h_rpc_start(rpc, 0);
		h_expect(!h_peer_call(rpc->xid), "a call is sent without its memory");
		h_live(5000);
		h_expect(!h_refused_mappings, "mapping is not tried again");
		h_answer_call(h_peer_call(rpc->xid), &remote);
		h_live(0);
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_end();
}

/*
 * A call that the bounce buffers have no room for in a minute fails, and the calls behind it are
 * sent.
 */
void h_mapping_never(void)
{
	unsigned int warnings;
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	warnings = h_warnings;
	rpc = h_rpc_new(H_WRITE_4K);
	h_refused_mappings = UINT_MAX;
	h_rpc_start(rpc, 0);
	h_live(50000);
	h_expect(!rpc->done, "the RPC ends with %d", rpc->status);
	h_expect(h_warnings == warnings, "the log has a line");
	h_live(20000);
	h_expect(rpc->done && rpc->status == -EIO, "the RPC ends with %d", rpc->status);
	h_expect(h_warnings == warnings + 1, "the log has %u lines", h_warnings - warnings);
	h_rpc_free(rpc);
	h_refused_mappings = 0;
	rpc = h_rpc_new(H_WRITE_4K);
	h_rpc_run(rpc, &remote);
	h_rpc_free(rpc);
	h_check_calm();
	h_end();
}

/* The server waits until it can map a reply or the pages of a call, and the connection stays. */
void h_mapping_refused_served(void)
{
	static const enum h_kind_number kinds[] = { H_READ_4K, H_WRITE_4K, H_READDIR, H_LONG_CALL };
	struct h_qp *qp;
	unsigned int i;

	h_serve_begin();
	qp = h_qp;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		u32 xid;

		h_refused_mappings = 4;
		xid = h_ask(kinds[i]);
		h_live(500);
		h_expect(!h_refused_mappings, "mapping is not tried again");
		h_expect(h_answered(xid), "%s is not answered", h_kinds[kinds[i]].name);
		h_expect(h_qp == qp && !qp->broken, "the connection is lost");
	}
	h_serve_end();
}

/* Connects again, if the server has closed the connection. */
static bool reconnected(void)
{
	if (h_qp && !h_qp->broken)
		return false;
	h_cm_request();
	h_settle();
	h_expect(h_qp && !h_qp->broken, "the connection is not accepted");
	return true;
}

/* Repeats a call over each next connection until the server refuses it; returns the seconds. */
static unsigned int repeat(enum h_kind_number kind)
{
	unsigned int seconds, connections = 0;
	u32 xid;

	h_least_refused = PAGE_SIZE;
	h_refused_mappings = UINT_MAX;
	xid = h_ask(kind);
	for (seconds = 0; !h_call_refused(xid) && seconds < 200; seconds++) {
		h_live(1000);
		h_expect(!h_answered(xid) || h_call_refused(xid), "the call is answered");
		/* The buffers of the next connection have room. */
		h_refused_mappings = 0;
		if (reconnected()) {
			connections++;
			h_ask_again(xid);
		}
		h_refused_mappings = UINT_MAX;
	}
	h_refused_mappings = 0;
	h_least_refused = 0;
	h_expect(connections, "%s is not repeated", h_kinds[kind].name);
	return seconds;
}

/* A call that the bounce buffers never have room for is refused when it was repeated for long. */
void h_mapping_never_served(void)
{
	static const enum h_kind_number kinds[] = { H_READ_1M_ADJACENT, H_WRITE_4K };
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		unsigned int warnings = h_warnings, seconds = repeat(kinds[i]);

		h_expect(seconds >= 55 && seconds < 130, "%s is refused after %u s",
			 h_kinds[kinds[i]].name, seconds);
		h_expect(h_warnings == warnings + 1, "the log has %u lines", h_warnings - warnings);
		h_expect(h_qp && !h_qp->broken, "the connection is lost");
		h_serve(H_INLINE);
	}
	h_serve_end();
}

/* Asks the service while nothing can be mapped. A thread of it waits. */
static void ask_in_vain(enum h_kind_number kind)
{
	h_refused_mappings = UINT_MAX;
	h_ask(kind);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(h_refused_mappings != UINT_MAX, "%s maps nothing", h_kinds[kind].name);
}

/*
 * A connection is lost, and a device is removed, while a thread of the service waits until it can
 * map a reply, or the pages of a call. The thread gives up soon.
 */
void h_mapping_refused_and_lost(void)
{
	h_serve_begin();
	ask_in_vain(H_READ_4K);
	h_cm_disconnected();
	h_pass(100);
	h_settle();
	h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
	h_refused_mappings = 0;
	h_cm_request();
	h_settle();
	ask_in_vain(H_WRITE_4K);
	h_spawn("a removal", h_device_remove, NULL);
	h_pass(100);
	h_settle();
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	h_serve_end();
}

/*
 * A requester that does not answer the RDMA Reads of its call, which take room, is given less time
 * if a thread of the service waits for room at the third check.
 */
void h_mapping_refused_beside(void)
{
	h_requester_breach = "slow";
	h_serve_begin();
	h_qp->hold = true;
	h_ask(H_WRITE_4K);
	h_complete_receive(h_qp);
	h_pass(29500);
	h_expect(h_objects(), "the requester is given too little time");
	h_cm_request();
	h_settle();
	ask_in_vain(H_READ_4K);
	h_pass(2000);
	h_settle();
	h_expect(!h_objects(), "%u objects of a requester that does not answer are left",
		 h_objects());
	h_serve_end();
}

/*
 * The pages of a call are unmapped when the call is fetched: threads of the service, all of which
 * may wait for room, are not needed for that.
 */
void h_fetched_unmapped(void)
{
	unsigned int mapped;
	u32 xid;

	h_serve_begin();
	h_serve(H_WRITE_4K);
	h_serve_threads(0);
	h_settle();
	mapped = h_dma_live();
	xid = h_ask(H_WRITE_4K);
	h_live(0);
	h_expect(h_dma_live() == mapped, "%u mappings, not %u", h_dma_live(), mapped);
	h_serve_threads(1);
	h_live(0);
	h_expect(h_answered(xid), "the call is not answered");
	h_serve_end();
}
