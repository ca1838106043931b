// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of timeouts: of calls whose reply SUNRPC has refused, of a call whose reply is being
 * handled, and of a call whose connection is replaced meanwhile.
 */
#include "harness.h"

#define REGIONS		40		/* memory regions of a device that has few */
#define TIMEOUT		(61 * 1000)	/* milliseconds, a little more than that of a call */
#define LOCKS		3		/* the spinlocks that the module takes for a timeout */

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

static struct h_rpc *start(enum h_kind_number kind)
{
	struct h_rpc *rpc = h_rpc_new(kind);

	h_rpc_start(rpc, 0);
	h_expect(h_peer_call(rpc->xid), "%s: the call is not sent", rpc->kind->name);
	return rpc;
}

/* Answers a call, which ends. */
static void finish(struct h_rpc *rpc)
{
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

/* The operations of the credential, and those with which it refuses a verifier. */
static const struct rpc_credops *usual;
static struct rpc_credops refusing;

static int refuse_once(struct rpc_task *task, struct xdr_stream *xdr)
{
	task->tk_rqstp->rq_cred->cr_ops = usual;
	return -EACCES;
}

/* Starts a call. Its credential refuses the verifier of the reply, as RPCSEC_GSS does. */
static struct h_rpc *start_refused(enum h_kind_number kind, bool mapped)
{
	struct h_rpc *rpc = start(kind);
	struct rpc_cred *cred = rpc->task->tk_rqstp->rq_cred;

	usual = cred->cr_ops;
	refusing = *usual;
	refusing.crvalidate = refuse_once;
	cred->cr_ops = &refusing;
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_refused_mappings = mapped ? 0 : UINT_MAX;
	h_live(0);
	h_refused_mappings = 0;
	h_expect(cred->cr_ops == usual && h_rpc_waits(rpc), "the reply is not refused");
	return rpc;
}

/* The timeout of a call whose reply was refused ends its connection. The next one carries it. */
static void expect_again(struct h_rpc *rpc)
{
	unsigned int connections = h_connections, disconnects = h_disconnects;

	h_live(TIMEOUT);
	h_expect(h_disconnects == disconnects + 1, "%u closes are ordered for a refused reply",
		 h_disconnects - disconnects);
	h_live(5 * 1000);
	h_expect(h_connections == connections + 1, "%u connections are made",
		 h_connections - connections);
	h_expect(h_peer_call(rpc->xid), "a call whose reply was refused is not sent again");
	finish(rpc);
}

/*
 * SUNRPC refuses a reply and waits for another. The client prepares the call for that, or lacks the
 * room to map its memory. The call does not wait endlessly in either case.
 */
void h_reply_refused(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < 4; i++)
		expect_again(start_refused(i / 2 ? H_WRITE_4K : H_READ_4K, i % 2));
	h_end();
}

/* A call whose reply was refused has lost its memory region to a call that is sent. */
void h_reply_refused_and_short(void)
{
	struct h_rpc *others[REGIONS], *rpc;
	unsigned int i;

	h_most_regions = REGIONS;
	h_begin();
	h_connect();
	rpc = start_refused(H_READ_4K, true);
	for (i = 0; i < REGIONS; i++)
		others[i] = start(H_READ_4K);
	for (i = 0; i < REGIONS; i++)
		finish(others[i]);
	expect_again(rpc);
	h_end();
}

/* A call that times out while its reply is handled, and whether SUNRPC still waited. */
static struct h_rpc *timed;
static bool waited;

/* Lets the call time out on another processor, unless a spinlock is held. */
static void time_out(void)
{
	waited = !h_holds_spinlock() && h_rpc_waits(timed);
	if (!waited)
		return;
	rpc_wake_up_queued_task_set_status(&h_xprt->pending, timed->task, -ETIMEDOUT);
	h_run_work();
	h_run_threads();
}

/*
 * A call times out when the handler of its reply has taken n spinlocks. Returns whether the handler
 * takes more. `closes` is the number of closes that the latest timeout has ordered.
 */
static bool time_out_amid(unsigned int n, unsigned int *closes)
{
	unsigned int disconnects;
	bool more;

	/* The first reply of a connection takes more spinlocks than the others. */
	finish(start(H_INLINE));
	timed = start(H_READ_4K);
	disconnects = h_disconnects;
	waited = false;
	h_answer_call(h_peer_call(timed->xid), &remote);
	h_before_lock(n, time_out);
	h_complete_receive(h_qp);
	more = !h_lock_awaited();
	h_before_lock(0, NULL);
	if (waited)
		*closes = h_disconnects - disconnects;
	h_live(0);
	h_rpc_check(timed);
	h_rpc_free(timed);
	return more;
}

/*
 * The last timeout comes when the call has left its slot, and SUNRPC still waits. It closes no
 * connection, because the reply is about to complete the call.
 */
void h_timeout_amid_reply(void)
{
	unsigned int n = 0, closes = 1;

	h_begin();
	h_connect();
	while (time_out_amid(n, &closes))
		n++;
	h_expect(n > 2, "the handler of a reply takes %u spinlocks", n);
	h_expect(!closes, "the timeout of a call that is being completed closes the connection");
	h_end();
}

/*
 * A call times out, and its task is preempted before it takes spinlock n. Meanwhile the connection
 * is lost, and another call makes the next one if `replaced` is set.
 */
static void time_out_late(struct h_rpc *rpc, unsigned int n, bool replaced)
{
	unsigned int disconnects;

	h_lock_preempt(n);
	h_rpc_time_out(rpc);
	h_lock_preempt(0);
	h_expect(h_lock_pauses(), "the task takes no spinlock %u", n);
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
	if (replaced)
		finish(start(H_INLINE));
	disconnects = h_disconnects;
	h_lock_go();
	h_settle();
	h_expect(h_disconnects == disconnects, "spinlock %u: a timeout closes the next connection",
		 n);
	h_live(5 * 1000);
	h_expect(h_peer_call(rpc->xid), "spinlock %u: the call is not sent again", n);
	finish(rpc);
}

/*
 * The timeout of a call that was sent over one connection does not close the next one, whether or
 * not the reply was refused.
 */
void h_timeout_amid_loss(void)
{
	unsigned int i, n;

	h_begin();
	h_connect();
	for (i = 0; i < 2; i++) {
		for (n = 1; n <= LOCKS; n++) {
			time_out_late(start(H_READ_4K), n, i);
			time_out_late(start_refused(H_READ_4K, false), n, i);
		}
	}
	h_end();
}
