// SPDX-License-Identifier: GPL-2.0
/* The states of queue pairs, and their end: draining and destruction. */
#include <linux/delay.h>
#include <linux/wait.h>
#include "harness.h"
#include "limits.h"

/* Threads that drain a queue pair, or wait until its connection is established. */
static DECLARE_WAIT_QUEUE_HEAD(drains);

static struct h_qp *pair_of(struct ib_qp *qp)
{
	return container_of(qp, struct h_qp, ib);
}

/* Moves a queue pair to the error state, or one step towards the state in which it sends. */
int ib_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask)
{
	struct h_qp *qp = pair_of(ib);

	h_driver_allocates("a queue pair is changed", __builtin_return_address(0));
	h_expect(mask & IB_QP_STATE, "ib_modify_qp() changes no state");
	if (attr->qp_state == IB_QPS_ERR) {
		h_driver_ends("a queue pair is reset", __builtin_return_address(0));
		if (h_faults.modify)
			return h_faults.modify;
		h_qp_error(qp);
		return 0;
	}
	h_expect(attr->qp_state == qp->state + 1, "violation: state %u of a queue pair follows %u",
		 attr->qp_state, qp->state);
	qp->state = attr->qp_state;
	if (mask & IB_QP_AV)
		qp->class = attr->ah_attr.grh.traffic_class;
	return 0;
}

/*
 * Drains a queue pair. If the marker cannot be posted, the queue pair is in the error state, but
 * the drain returns before the work requests have completed.
 */
static void drain(struct ib_qp *ib, bool sends, bool receives)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct h_qp *qp = pair_of(ib);

	if (ib_modify_qp(ib, &attr, IB_QP_STATE)) {
		u_say("  ib_core: failed to drain");
		return;
	}
	if (h_faults.marker) {
		u_say("  ib_core: failed to drain: the marker was not posted");
		return;
	}
	h_limits_drain(qp, sends, receives);
	wait_event(drains, !qp->undrained);
	qp->hold = false;
	while ((sends && h_complete_send(qp)) || (receives && h_complete_receive(qp)))
		;
	qp->drained = sends && receives;
}

void h_drain_go(struct h_qp *qp)
{
	qp->undrained = false;
	wake_up_all(&drains);
}

void h_await_establishment(const struct h_qp *qp)
{
	wait_event(drains, !h_iwarp || !qp->unestablished);
}

void h_establish(struct h_qp *qp)
{
	qp->unestablished = false;
	h_cm_report(qp, RDMA_CM_EVENT_ESTABLISHED);
	wake_up_all(&drains);
}

void ib_drain_qp(struct ib_qp *qp)
{
	h_expect(h_in_thread(), "violation: a handler drains a queue pair, and may not sleep");
	h_driver_ends("a queue pair is drained", __builtin_return_address(0));
	drain(qp, true, true);
}

void ib_drain_sq(struct ib_qp *qp)
{
	drain(qp, true, false);
}

void ib_drain_rq(struct ib_qp *qp)
{
	drain(qp, false, true);
}

void h_qp_access_error(struct h_qp *qp)
{
	struct ib_event event = {
		.device = qp->ib.device, .element.qp = &qp->ib, .event = IB_EVENT_QP_ACCESS_ERR,
	};

	h_qp_error(qp);
	if (qp->event_handler)
		qp->event_handler(&event, qp->ib.qp_context);
	h_cm_disconnected();
}

/* The milliseconds after which c4iw gives up an orderly close. */
#define CLOSE_MS	60000

void h_qp_await_close(const struct h_qp *qp)
{
	if (qp->closing && h_faults.dead)
		msleep(CLOSE_MS);
}

int ib_destroy_qp_user(struct ib_qp *qp, struct ib_udata *udata)
{
	h_driver_ends("a queue pair is destroyed", __builtin_return_address(0));
	h_qp_await_close(pair_of(qp));
	h_qp_destroy(pair_of(qp));
	return 0;
}

/* The packets of this side have the class of the request, unless the module changes that. */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ib_qp_attr *attr, int *mask)
{
	*mask = IB_QP_STATE;
	if (attr->qp_state == IB_QPS_RTR)
		*mask |= IB_QP_AV | IB_QP_MAX_DEST_RD_ATOMIC;
	if (attr->qp_state == IB_QPS_RTS)
		*mask |= IB_QP_MAX_QP_RD_ATOMIC;
	attr->ah_attr.grh.traffic_class = h_answer.class;
	return 0;
}
