// SPDX-License-Identifier: GPL-2.0
/* Something goes wrong: with the device, or with the peer. */
#include "harness.h"

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

/* Answers what was sent over the next connection, and lets everything end. */
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
 * A call is given up. When it has left SUNRPC's queues, and before the transport is told, its reply
 * comes, and invalidates the call's own memory, as it may.
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
 * A call is given up, and the transport waits for the reply. When it comes, the memory is taken back
 * without the device's help, and without a credit lost.
 */
static void reply_while_awaited(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_rpc_cancel(rpc);
	h_live(1000);
	h_expect(!rpc->released, "the reply is not waited for");
	h_answer_call(h_peer_call(rpc->xid), &remote);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(rpc->released, "the reply ends nothing");
	h_check_calm();
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_rpc_free(rpc);
	h_end();
}

/* The same, but no reply comes, and the LOCAL_INV waits behind a Send that nobody acknowledges. */
static void fence_without_end(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_rpc_cancel(rpc);
	h_pass(2100);
	h_expect(!rpc->released, "the call ends before its memory is fenced");
	h_check_calm();
	h_pass(2100);
	h_expect(h_disconnects, "a fence is waited for as long as the device likes");
	h_live(0);
	h_expect(rpc->released, "closing the connection does not end the call");
	h_rpc_free(rpc);
	h_end();
}

/* Several calls are given up at once, and all are answered before the transport is told. */
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

/* The device refuses to change the queue pair's state. */
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

/* It changes the state, but takes no work request that says when all has been flushed. */
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

/* Neither works while a LOCAL_INV is waited for, which the device does not get to. */
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

/* Says that a work request has succeeded, out of turn. */
static void report_success(struct h_wr *of)
{
	struct h_wr lie = *of;

	lie.status = IB_WC_SUCCESS;
	h_deliver(h_qp, &lie);
	h_settle();
}

/* The device reports a Send that asked for no report, while a LOCAL_INV has not been executed. */
static void spurious_send_completion(void)
{
	struct h_rpc *rpc = begin_with(H_READ_4K);

	h_qp->hold = true;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_complete_receive(h_qp);
	h_settle();
	report_success(find_posted(IB_WR_SEND, 0));
	h_expect(h_disconnects, "a completion of nothing is taken for that of something else");
	h_live(90000);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* Of two LOCAL_INVs, neither executed, the second is reported first. */
static void swapped_completions(void)
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
	h_expect(h_disconnects, "completions out of order are believed");
	h_live(90000);
	h_rpc_check(first);
	h_rpc_check(second);
	h_rpc_free(first);
	h_rpc_free(second);
	h_end();
}

/* An RDMA Write with immediate uses up a Receive, in whose buffer is a message of before. */
static void write_with_immediate(void)
{
	struct h_qp *qp;
	unsigned int i;

	h_begin();
	h_connect();
	h_callbacks_begin();
	h_call_back(0x77);
	h_live(0);
	h_expect(h_callback_answer(), "the service has no call");
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

/* The device cannot do what a probe asks of it, each time. */
static void probe_fails_locally(void)
{
	struct h_rpc *rpc = begin_with(H_INLINE);
	unsigned int connections;

	h_faults.write = IB_WC_LOC_QP_OP_ERR;
	h_live(25000);
	h_settle();
	connections = h_connections;
	h_expect(connections == 2, "the silent server was not probed");
	h_live(30000);
	h_expect(h_connections == connections, "the probe ends one connection after the other");
	h_faults.write = 0;
	end_after_reconnecting(rpc);
}

/* The probe finds nobody: that may be so on the next connection, too. */
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

/* A message of another version, for no call, invalidates the memory of a call that waits. */
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
	h_expect(h_disconnects, "the peer may invalidate what it likes");
	h_peer_drop_all();
	h_settle();
	end_after_reconnecting(rpc);
}

/* A reply to one call invalidates the memory of another. */
static void reply_with_foreign_key(void)
{
	struct h_rpc *first = begin_with(H_READ_4K), *second = h_rpc_new(H_READ_4K);
	struct h_reply how = { .how = H_INV_KEY };

	h_rpc_start(second, 0);
	how.key = h_call_key(h_peer_call(second->xid), 0);
	h_answer_call(h_peer_call(first->xid), &how);
	h_complete_receive(h_qp);
	h_expect(h_disconnects, "the peer may invalidate what it likes");
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

const struct h_scenario h_fault_scenarios[] = {
	{ "reply_while_released", reply_while_released },
	{ "reply_while_awaited", reply_while_awaited },
	{ "fence_without_end", fence_without_end },
	{ "credits_of_released", credits_of_released },
	{ "drain_modify_fails", drain_modify_fails },
	{ "drain_marker_fails", drain_marker_fails },
	{ "drain_fails_while_fencing", drain_fails_while_fencing },
	{ "spurious_send_completion", spurious_send_completion },
	{ "swapped_completions", swapped_completions },
	{ "write_with_immediate", write_with_immediate },
	{ "probe_fails_locally", probe_fails_locally },
	{ "probe_finds_nobody", probe_finds_nobody },
	{ "version_with_foreign_key", version_with_foreign_key },
	{ "reply_with_foreign_key", reply_with_foreign_key },
	{}
};
