// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of replies that are read chunks (RFC 5666): the peer exposes its reply, and the module
 * reads it and sends RDMA_DONE.
 */
#include "wire.h"

static const struct h_reply plain;
/* A chunk that the call offers stays unused, and is invalidated before the RPC is completed. */
static const struct h_reply exposed = { .exposed = true, .unused = true };

/* A server without private data, whose replies may have read chunks. */
static void begin(void)
{
	h_answer.send = 0;
	h_begin();
	h_tune("rdma_read_chunks", 1);
	h_connect();
}

/* Space on the send queue for a call, and not for the RDMA Reads of a reply of 1 MiB. */
#define SPACE	100

/* Runs RPCs whose Sends have not completed when they end, until there is little space. */
static void fill_queue(void)
{
	while (h_qp->cap.max_send_wr - h_qp->sq_len > SPACE) {
		struct h_rpc *rpc = h_rpc_new(H_INLINE);

		h_rpc_start(rpc, 0);
		h_answer_call(h_peer_call(rpc->xid), &plain);
		h_complete_receive(h_qp);
		h_settle();
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
}

/* The RDMA Reads of a reply find the send queue full. They are posted when it has space. */
void h_pulled_when_full(void)
{
	struct h_rpc *rpc;

	begin();
	fill_queue();
	rpc = h_rpc_new(H_READ_1M_ADJACENT);
	h_rpc_start(rpc, 0);
	h_answer_call(h_peer_call(rpc->xid), &exposed);
	h_complete_receive(h_qp);
	h_settle();
	h_expect(!h_reads, "there was space for %u RDMA Reads", h_reads);
	h_check_calm();
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_expect(h_reads && h_dones == 1, "%u RDMA_DONEs were sent", h_dones);
	h_check_calm();
	h_end();
}

static struct h_rpc *faster;

/* Starts a call, unless the handler holds a lock that the call may need. */
static void start_faster(void)
{
	if (h_holds_spinlock())
		return;
	faster = h_rpc_new(H_INLINE);
	h_rpc_start(faster, 0);
}

static void answered(struct h_rpc *rpc)
{
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

static void run_inline(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
}

/* Runs RPCs without a chunk for the reply, with a write chunk, and with a reply chunk. */
void h_pulled_replies(void)
{
	static const enum h_kind_number kinds[] = { H_INLINE, H_WRITE_4K, H_READ_4K, H_READDIR };
	unsigned int i;

	begin();
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct h_rpc *rpc = h_rpc_new(kinds[i]);
		unsigned int dones = h_dones;

		h_rpc_run(rpc, &exposed);
		h_rpc_free(rpc);
		h_expect(h_dones == dones + 1, "%u RDMA_DONEs were sent", h_dones - dones);
	}
	h_check_calm();
	h_end();
}

/*
 * There is no contiguous memory for a reply of 1 MiB, nor for tables of 16384 slots. The connection
 * is made, and the reply is kept until the memory of its call is invalidated.
 */
void h_pulled_into_fragments(void)
{
	struct h_rpc *rpc;

	h_slots = 16384;
	h_contiguous = H_FRAGMENTED;
	begin();
	rpc = h_rpc_new(H_READ_1M_ADJACENT);
	h_rpc_run(rpc, &exposed);
	h_rpc_free(rpc);
	h_check_calm();
	h_contiguous = 0;
	h_end();
}

/*
 * A call was aborted, and holds its credit until it is answered. A reply that is read comes twice,
 * the second time while the memory of its call is being invalidated. It answers no other call.
 */
void h_pulled_twice(void)
{
	static const struct h_reply twice = { .exposed = true, .unused = true, .keep = true };
	struct h_rpc *lost, *rpc;
	u32 xid;

	begin();
	lost = h_rpc_new(H_INLINE);
	h_rpc_start(lost, 0);
	xid = lost->xid;
	h_rpc_cancel(lost);
	h_live(2500);
	h_rpc_free(lost);
	h_expect(h_window() == h_grant - 1, "%u credits of %u are left", h_window(), h_grant);
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	h_answer_call(h_peer_call(rpc->xid), &twice);
	h_complete_receive(h_qp);
	h_qp->hold = true;
	h_complete_send(h_qp);
	h_expect(!rpc->done, "the RPC ends before its memory is invalidated");
	h_answer_call(h_peer_call(rpc->xid), &exposed);
	h_complete_receive(h_qp);
	h_qp->hold = false;
	h_qp_execute(h_qp);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_expect(h_dones == 2, "%u RDMA_DONEs were sent", h_dones);
	/* The replies to later calls confirm each RDMA_DONE. */
	run_inline();
	run_inline();
	h_expect(h_window() == h_grant - 1, "%u credits of %u are left", h_window(), h_grant);
	h_answer_unknown(xid, 0);
	h_live(0);
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_check_calm();
	h_end();
}

/* A message with this XID and version arrives, of a type that is not defined. */
static void arrive_malformed(u32 xid, u32 version)
{
	u8 message[28];
	struct h_writer out = { message };

	h_put(&out, xid);
	h_put(&out, version);
	h_put(&out, 1);
	h_put(&out, 9);
	memset(message + out.len, 0, sizeof(message) - out.len);
	h_arrive(h_qp, message, sizeof(message), 0);
	h_live(0);
}

/* The answer to a call is a message that nobody can decode. */
static void answered_badly(struct h_rpc *rpc)
{
	arrive_malformed(rpc->xid, 1);
	h_expect(rpc->released && rpc->status == -EIO, "the RPC ends with %d", rpc->status);
	h_peer_drop(h_peer_call(rpc->xid));
	h_rpc_free(rpc);
}

/* Starts an RPC whose reply is a read chunk, and ends it. */
static void run_exposed(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_run(rpc, &exposed);
	h_rpc_free(rpc);
}

/*
 * Calls that are in flight when an RDMA_DONE is sent are answered by messages that nobody can
 * decode, more of them than the connection has slots.
 */
void h_pulled_beside_malformed(void)
{
	unsigned int i;

	h_slots = h_grant = 4;
	begin();
	for (i = 0; i < 3 * h_slots; i++) {
		struct h_rpc *failed = h_rpc_new(H_INLINE);

		h_rpc_start(failed, 0);
		run_exposed();
		answered_badly(failed);
		h_expect(h_dones == i + 1, "%u RDMA_DONEs were sent", h_dones);
	}
	h_expect(h_connections == 1 && !h_disconnects, "the connection is closed");
	h_end();
}

/*
 * Replies are being read when RDMA_DONEs for other replies are sent, more of them than the
 * connection has slots.
 */
void h_pulled_beside_pulled(void)
{
	unsigned int i, n;

	h_slots = h_grant = 4;
	begin();
	for (i = 0; i < 3 * h_slots; i++) {
		struct h_rpc *rpcs[2];

		for (n = 0; n < ARRAY_SIZE(rpcs); n++) {
			rpcs[n] = h_rpc_new(H_INLINE);
			h_rpc_start(rpcs[n], 0);
		}
		for (n = 0; n < ARRAY_SIZE(rpcs); n++) {
			h_answer_call(h_peer_call(rpcs[n]->xid), &exposed);
			h_complete_receive(h_qp);
			h_settle();
		}
		h_live(0);
		for (n = 0; n < ARRAY_SIZE(rpcs); n++) {
			h_rpc_check(rpcs[n]);
			h_rpc_free(rpcs[n]);
		}
		h_expect(h_dones == 2 * (i + 1), "%u RDMA_DONEs were sent", h_dones);
	}
	h_expect(h_connections == 1 && !h_disconnects, "the connection is closed");
	h_check_calm();
	h_end();
}

/* An RDMA_DONE waits for a credit, which a call has until its answer cannot be decoded. */
void h_pulled_before_malformed(void)
{
	struct h_rpc *others[3];
	unsigned int i;

	h_slots = h_grant = 4;
	begin();
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = h_rpc_new(H_INLINE);
		h_rpc_start(others[i], 0);
	}
	run_exposed();
	h_expect(!h_dones, "%u RDMA_DONEs take the credit of a call", h_dones);
	answered_badly(others[0]);
	h_expect(h_dones == 1, "%u RDMA_DONEs were sent", h_dones);
	answered(others[1]);
	answered(others[2]);
	h_expect(h_window() == h_grant - 1, "%u credits of %u are left", h_window(), h_grant);
	run_inline();
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_end();
}

/*
 * A message that answers no call confirms no RDMA_DONE, and one of another version answers none. A
 * call that was sent before an RDMA_DONE confirms it neither, when it is answered at last.
 */
void h_malformed_confirms_nothing(void)
{
	struct h_rpc *before;

	begin();
	before = h_rpc_new(H_INLINE);
	h_rpc_start(before, 0);
	run_exposed();
	h_expect(h_dones == 1, "%u RDMA_DONEs were sent", h_dones);
	arrive_malformed(~before->xid, 1);
	arrive_malformed(before->xid, 77);
	answered(before);
	h_expect(h_window() == h_grant - 1, "%u credits of %u are left", h_window(), h_grant);
	run_inline();
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_end();
}

/*
 * One call less than the grant is in flight, an RDMA_DONE becomes due, and a further call starts
 * when the handler of the RDMA Reads has taken n locks. Returns whether the handler takes more.
 */
static bool done_beside(unsigned int n)
{
	struct h_rpc *rpc, *others[128];
	unsigned int i, used, dones = h_dones;
	bool more;

	begin();
	for (i = 0; i < h_grant - 1; i++) {
		others[i] = h_rpc_new(H_INLINE);
		h_rpc_start(others[i], 0);
	}
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_answer_call(h_peer_call(rpc->xid), &exposed);
	h_complete_receive(h_qp);
	h_settle();
	faster = NULL;
	h_before_lock(n, start_faster);
	h_complete_send(h_qp);
	more = !h_lock_awaited();
	h_before_lock(0, NULL);
	h_settle();
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	used = h_grant - 1 + h_dones - dones + (faster && h_peer_call(faster->xid));
	h_expect(used <= h_grant, "%u messages take %u credits when %u locks were taken", used,
		 h_grant, n);
	for (i = 0; i < h_grant - 1; i++)
		answered(others[i]);
	if (faster)
		answered(faster);
	run_inline();
	run_inline();
	h_expect(h_dones == dones + 1, "%u RDMA_DONEs were sent", h_dones - dones);
	h_expect(h_window() == h_grant, "%u credits of %u are left", h_window(), h_grant);
	h_check_calm();
	h_end();
	return more;
}

/* An RDMA_DONE takes no credit that a call takes at the same time. */
void h_pulled_beside_calls(void)
{
	unsigned int n = 0;

	while (done_beside(n))
		n++;
	h_expect(n > 2, "the handler of RDMA Reads takes %u locks", n);
}
