// SPDX-License-Identifier: GPL-2.0
/* Scenarios with a fault of the device or of the peer. */
#include "wire.h"

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

static struct h_rpc *begin_with(enum h_kind_number kind)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(kind);
	h_rpc_start(rpc, 0);
	h_expect(h_peer_call(rpc->xid), "the call has not been sent");
	return rpc;
}

/* Replies to the call that was sent again over the next connection, and ends the scenario. */
static void end_after_reconnecting(struct h_rpc *rpc)
{
	h_live(90000);
	h_expect(h_peer_call(rpc->xid), "the call was not sent again");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/*
 * A call is cancelled. Its reply arrives after the call has left SUNRPC's queues and before the
 * transport's buf_free is called. The reply invalidates the call's own memory region, as it may.
 */
static void reply_while_released(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	rpc->hold = true;
	h_rpc_cancel(rpc);
	h_expect(rpc->held, "the call does not end");
	h_answer_call(h_peer_call(rpc->xid), &remote);
	h_live(0);
	h_check_calm();
	h_rpc_let_go(rpc);
	h_live(0);
	h_check_calm();
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_rpc_free(rpc);
	h_end();
}

/*
 * A call is cancelled, and the transport waits for the reply. The reply invalidates the memory
 * region, so that no LOCAL_INV is needed, and no credit is lost.
 */
static void reply_while_awaited(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_rpc_cancel(rpc);
	h_live(1000);
	h_expect(!rpc->released, "the transport does not wait for the reply");
	h_answer_call(h_peer_call(rpc->xid), &remote);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(rpc->released, "the reply does not end the call");
	h_check_calm();
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_rpc_free(rpc);
	h_end();
}

/*
 * A call is cancelled, and no reply arrives. The LOCAL_INV waits behind a Send that the peer does
 * not acknowledge.
 */
static void fence_without_end(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_rpc_cancel(rpc);
	h_pass(2100);
	h_expect(!rpc->released, "the call ends before its memory is fenced");
	h_check_calm();
	h_pass(2100);
	h_expect(h_disconnects, "the wait for the LOCAL_INV has no time limit");
	h_live(0);
	h_expect(rpc->released, "closing the connection does not end the call");
	h_rpc_free(rpc);
	h_end();
}

/*
 * Another task holds the send lock, so that a worker closes the connection before SUNRPC does. The
 * file `connections` says why it was closed.
 */
static void fence_ended_by_worker(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);
	const char *line;

	h_qp->hold = true;
	h_expect(!test_and_set_bit(XPRT_LOCKED, &h_xprt->state), "the send lock is not free");
	h_rpc_cancel(rpc);
	h_pass(4200);
	h_live(0);
	h_expect(rpc->released, "closing the connection does not end the call");
	/* As xprt_clear_locked() does. */
	queue_work(xprtiod_workqueue, &h_xprt->task_cleanup);
	h_live(0);
	line = h_file_read("connections");
	h_expect(line && strstr(line, "lost=forced"), "the connection is shown so: %s", line);
	h_rpc_free(rpc);
	h_end();
}

/*
 * A call has its reply, and its LOCAL_INV waits behind a Send that the peer never accepts. The call
 * is killed: SUNRPC has no timer for it any more, and its task waits until the memory is fenced.
 */
static void killed_while_fencing(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_complete_receive(h_qp);
	h_rpc_cancel(rpc);
	h_pass(14000);
	h_expect(!h_disconnects && !rpc->released, "the wait for the LOCAL_INV ends too early");
	h_check_calm();
	h_pass(12000);
	h_expect(h_disconnects, "the wait for the LOCAL_INV has no time limit");
	h_live(0);
	h_expect(rpc->released, "closing the connection does not end the call");
	h_rpc_free(rpc);
	h_end();
}

/* Several calls are cancelled. All replies arrive before the transport's buf_free is called. */
static void credits_of_released(void)
{
	struct h_rpc *rpcs[4];
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < ARRAY_SIZE(rpcs); i++) {
		rpcs[i] = h_rpc_new(H_INLINE);
		rpcs[i]->hold = true;
		h_rpc_start(rpcs[i], 0);
	}
	for (i = 0; i < ARRAY_SIZE(rpcs); i++)
		h_rpc_cancel(rpcs[i]);
	for (i = 0; i < ARRAY_SIZE(rpcs); i++) {
		h_answer_call(h_peer_call(rpcs[i]->xid), &plain);
		h_live(0);
	}
	for (i = 0; i < ARRAY_SIZE(rpcs); i++) {
		h_rpc_let_go(rpcs[i]);
		h_rpc_free(rpcs[i]);
	}
	h_live(0);
	h_check_calm();
	h_expect(h_window() == h_grant && !h_window_used(), "%u credits of %u are left, %u in use",
		 h_window(), h_grant, h_window_used());
	h_end();
}

/* The device refuses to change the state of the queue pair. */
static void drain_modify_fails(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_faults.modify = -EIO;
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
	h_faults.modify = 0;
	end_after_reconnecting(rpc);
}

/* The device changes the state, but refuses the work request that marks the end of the drain. */
static void drain_marker_fails(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_faults.marker = true;
	h_peer_drop_all();
	h_qp->hold = true;
	h_cm_disconnected();
	h_settle();
	h_faults.marker = false;
	end_after_reconnecting(rpc);
}

/* The drain fails while the module waits for a LOCAL_INV that the device has not executed. */
static void drain_fails_while_fencing(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(!rpc->done, "the RPC ends before its memory is fenced");
	h_faults.modify = -EIO;
	h_cm_disconnected();
	h_settle();
	h_faults.modify = 0;
	h_live(90000);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

static struct h_wr *find_posted(enum ib_wr_opcode opcode, unsigned int n)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &h_qp->sq, list)
		if (wr->opcode == opcode && !n--)
			return wr;
	u_fail("no such work request is on the queue");
}

/* Delivers a successful completion of a work request out of order. */
static void report_success(struct h_wr *of)
{
	struct h_wr forged = *of;

	forged.status = IB_WC_SUCCESS;
	h_deliver(h_qp, &forged);
	h_settle();
}

/* The device completes an unsignalled Send while a LOCAL_INV has not been executed. */
static void spurious_send_completion(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_complete_receive(h_qp);
	h_settle();
	report_success(find_posted(IB_WR_SEND, 0));
	h_expect(h_disconnects, "the completion of an unsignalled Send completes another request");
	h_live(90000);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/*
 * The second of two LOCAL_INVs completes first, and once more in its turn. No RPC ends before both
 * have completed, and the superfluous completion ends the connection.
 */
static void repeated_completion(void)
{
	struct h_rpc *first = begin_with(H_READ_4K), *second = h_rpc_new(H_READ_4K);

	h_rpc_start(second, 0);
	h_qp->hold = true;
	h_answer_call(h_peer_call(first->xid), &plain);
	h_answer_call(h_peer_call(second->xid), &plain);
	h_complete_receive(h_qp);
	h_complete_receive(h_qp);
	h_settle();
	report_success(find_posted(IB_WR_LOCAL_INV, 1));
	h_expect(!first->done && !second->done, "an RPC ends before an older completion");
	h_qp->hold = false;
	h_qp_execute(h_qp);
	h_complete_send(h_qp);
	h_settle();
	h_expect(first->done && second->done, "an RPC waits for a completion that was reported");
	h_expect(!h_disconnects, "the connection is closed");
	h_complete_send(h_qp);
	h_settle();
	h_expect(h_disconnects, "a work request completes twice");
	h_live(90000);
	h_rpc_check(first);
	h_rpc_check(second);
	h_rpc_free(first);
	h_rpc_free(second);
	h_end();
}

/* An RDMA Write with immediate consumes a Receive whose buffer still holds an earlier message. */
static void write_with_immediate(void)
{
	struct h_qp *qp;
	unsigned int i;

	h_begin();
	h_connect();
	h_callbacks_begin();
	h_call_back(0x77);
	h_live(0);
	h_expect(h_callback_answer(), "the callback service received no call");
	h_live(0);
	qp = h_qp;
	for (i = 0; i < 1000 && h_qp == qp && !h_disconnects; i++) {
		h_arrive_immediate(h_qp, 80);
		h_complete_receive(h_qp);
		h_settle();
		h_expect(!h_callback_answer(), "an old call is handled again");
	}
	h_callbacks_end();
	h_end();
}

/* The device completes each probe with a local error, so that the next probe is the last. */
static void probe_fails_locally(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);

	h_faults.write = IB_WC_LOC_QP_OP_ERR;
	h_live(32000);
	h_expect(h_connections == 3, "probes have ended %u connections", h_connections - 1);
	h_live(23000);
	h_expect(h_connections == 3, "further probes have ended %u connections",
		 h_connections - 3);
	h_faults.write = 0;
	end_after_reconnecting(rpc);
}

/* Waits until a probe has ended the connection. */
static void await_probe(const char *which)
{
	unsigned int i, before = h_connections;

	for (i = 0; i < 30 && h_connections == before; i++)
		h_live(1000);
	h_expect(h_connections == before + 1, "the silent server was not probed %s", which);
}

/*
 * Now and then a probe fails, as while a device restarts. The server is also probed after that: the
 * probes between have succeeded.
 */
static void probe_fails_sometimes(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);
	unsigned int i;

	for (i = 0; i < 4; i++) {
		h_faults.write = IB_WC_GENERAL_ERR;
		await_probe("after other failures");
		h_faults.write = 0;
		h_live(25000);
	}
	h_faults.write = IB_WC_RETRY_EXC_ERR;
	await_probe("in the end");
	h_faults.write = 0;
	end_after_reconnecting(rpc);
}

/* A driver refuses a work request, which is a probe, while its device restarts. */
static void probe_refused(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);

	h_faults.posts = 1;
	await_probe("at first");
	h_expect(!h_faults.posts, "another work request was refused");
	h_faults.write = IB_WC_RETRY_EXC_ERR;
	await_probe("again");
	h_faults.write = 0;
	end_after_reconnecting(rpc);
}

/*
 * The peer neither answers nor accepts what is sent, and the device never gives up: the probe does
 * not complete. The connection is closed before the call times out.
 */
static void probe_without_end(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_expect(h_ack_timeout, "the peer chooses when the device sends packets again");
	h_qp->hold = true;
	h_live(25000);
	h_expect(h_connections == 1, "the connection of a slow server is closed");
	h_live(20000);
	h_expect(h_connections == 2, "a probe has no time limit");
	end_after_reconnecting(rpc);
}

/* The peer acknowledges no probe. The module must also probe the next connection. */
static void probe_finds_nobody(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);

	h_faults.write = IB_WC_RETRY_EXC_ERR;
	h_live(25000);
	h_expect(h_connections == 2, "the silent server was not probed");
	h_live(30000);
	h_expect(h_connections > 2, "the silent server was not probed again");
	h_faults.write = 0;
	end_after_reconnecting(rpc);
}

/* A message of another version invalidates the memory region of a call that waits. */
static void version_with_foreign_key(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);
	struct h_call *call = h_peer_call(rpc->xid);
	struct h_reply how = {
		.version = 77, .error = true, .how = H_INV_KEY, .key = h_call_key(call, 0),
		.keep = true,
	};

	h_answer_call(call, &how);
	h_complete_receive(h_qp);
	h_expect(h_disconnects, "the module accepts the invalidation of a foreign R_key");
	h_peer_drop_all();
	h_settle();
	end_after_reconnecting(rpc);
}

/*
 * Bytes that may be an answer to the first message in another form of version two invalidate the
 * memory region of that call. The call must not be sent again with a region that is gone.
 */
static void fallback_with_foreign_key(void)
{
	/* A version two message of type 77, which is not defined. */
	static const u32 words[] = { 2, 8, 77, 0, 0 };
	u8 bytes[4 + sizeof(words)];
	struct h_writer out = { bytes };
	struct h_rpc *rpc = h_rpc_new(H_READ_4K);
	unsigned int i;

	h_answer.two = true;
	h_begin();
	h_rpc_start(rpc, 0);
	h_put(&out, rpc->xid);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		h_put(&out, words[i]);
	h_arrive(h_qp, bytes, out.len, h_call_key(h_peer_call(rpc->xid), 0));
	h_complete_receive(h_qp);
	h_expect(h_disconnects, "the module accepts the invalidation of a foreign R_key");
	h_answer.two = false;
	h_peer_drop_all();
	h_settle();
	end_after_reconnecting(rpc);
}

/* A message without a byte is a breach, and its Receive is posted again. */
static void empty_message(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);

	h_arrive(h_qp, NULL, 0, 0);
	h_live(0);
	h_expect(h_breaches("malformed_header") == 1, "a breach is not counted");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* A reply to one call invalidates the memory region of another call. */
static void reply_with_foreign_key(void)
{
	struct h_rpc *first = begin_with(H_READ_4K), *second = h_rpc_new(H_READ_4K);
	struct h_reply how = { .how = H_INV_KEY };

	h_rpc_start(second, 0);
	how.key = h_call_key(h_peer_call(second->xid), 0);
	h_answer_call(h_peer_call(first->xid), &how);
	h_complete_receive(h_qp);
	h_expect(h_disconnects, "the module accepts the invalidation of a foreign R_key");
	h_expect(h_breaches("foreign_rkey") == 1, "a breach is not counted");
	h_peer_drop_all();
	h_settle();
	h_live(90000);
	h_answer_call(h_peer_call(first->xid), &plain);
	h_live(0);
	h_rpc_check(first);
	h_rpc_free(first);
	end_after_reconnecting(second);
}

/*
 * A reply claims that more bytes were written to a chunk than the chunk has. The RPC fails, and the
 * connection stays.
 */
static void overclaim(enum h_kind_number kind)
{
	const struct h_reply how = { .how = H_INV_OWN, .claimed = 1 << 20 };
	struct h_rpc *rpc = h_rpc_new(kind);
	unsigned long before = h_breaches("reply_claim");

	h_rpc_start(rpc, 0);
	h_answer_call(h_peer_call(rpc->xid), &how);
	h_live(0);
	h_expect(rpc->done && rpc->status == -EIO, "the RPC ends with %d", rpc->status);
	h_expect(h_breaches("reply_claim") == before + 1, "a breach is not counted");
	h_rpc_free(rpc);
}

static void overclaimed_in(bool two)
{
	struct h_rpc *rpc;

	h_answer.two = two;
	h_begin();
	h_connect();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
	overclaim(H_READ_4K);
	overclaim(H_READDIR);
	h_expect(h_connections == 1, "%u connections were made", h_connections);
	h_end();
}

static void overclaimed(void)
{
	overclaimed_in(false);
}

static void overclaimed_two(void)
{
	overclaimed_in(true);
}

/*
 * A reply leaves the write chunk unused, and there is no memory to keep the reply until the chunk
 * is invalidated. The call is sent again over another connection.
 */
static void unused_without_memory(void)
{
	static const struct h_reply how = { .unused = true, .shorter = 4000 };
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_answer_call(h_peer_call(rpc->xid), &how);
	h_refused_size = 1;
	h_complete_receive(h_qp);
	h_refused_size = 0;
	h_expect(h_disconnects && !rpc->done, "the reply is kept without memory");
	h_check_breaches();
	end_after_reconnecting(rpc);
}

/*
 * The memory of a region crosses a multiple of 4 GiB, and the XID is the largest one. No segment
 * may reach beyond the last address.
 */
static void last_addresses(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_iova = 0xfffff800;
	h_xprt->xid = U32_MAX;
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_run(rpc, &plain);
	h_expect(rpc->xid == U32_MAX, "the call has XID %#x", rpc->xid);
	h_rpc_free(rpc);
	h_check_calm();
	h_end();
}

const struct h_scenario h_fault_scenarios[] = {
	{ "reply_while_released", reply_while_released },
	{ "reply_while_awaited", reply_while_awaited },
	{ "fence_without_end", fence_without_end },
	{ "fence_ended_by_worker", fence_ended_by_worker },
	{ "killed_while_fencing", killed_while_fencing },
	{ "credits_of_released", credits_of_released },
	{ "drain_modify_fails", drain_modify_fails },
	{ "drain_marker_fails", drain_marker_fails },
	{ "drain_fails_while_fencing", drain_fails_while_fencing },
	{ "spurious_send_completion", spurious_send_completion },
	{ "repeated_completion", repeated_completion },
	{ "write_with_immediate", write_with_immediate },
	{ "probe_fails_locally", probe_fails_locally },
	{ "probe_fails_sometimes", probe_fails_sometimes },
	{ "probe_refused", probe_refused },
	{ "probe_finds_nobody", probe_finds_nobody },
	{ "probe_without_end", probe_without_end },
	{ "version_with_foreign_key", version_with_foreign_key },
	{ "fallback_with_foreign_key", fallback_with_foreign_key },
	{ "empty_message", empty_message },
	{ "reply_with_foreign_key", reply_with_foreign_key },
	{ "overclaimed", overclaimed },
	{ "overclaimed_two", overclaimed_two },
	{ "unused_without_memory", unused_without_memory },
	{ "last_addresses", last_addresses },
	{}
};
