// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of a device. A real device fails where one is exceeded, some only later; here the
 * program ends. The limits of a device do not change while something uses it.
 */
#include "harness.h"
#include "limits.h"

/* The limits to come, and whether there are any; the identifiers that have a device. */
static struct ib_device_attr next;
static bool changes;
static unsigned int users;

struct ib_device_attr *h_limits_next(void)
{
	if (!changes)
		next = h_devices[0].ib.attrs;
	changes = true;
	return &next;
}

void h_limits_use(struct rdma_cm_id *id, struct h_device *device)
{
	if (!id->device && !users++ && !h_objects() && changes) {
		h_devices[0].ib.attrs = next;
		changes = false;
	}
	id->device = &device->ib;
}

void h_limits_leave(const struct rdma_cm_id *id)
{
	users -= id->device != NULL;
}

void h_limits_pair(const struct ib_device *device, const struct ib_qp_cap *cap)
{
	const struct ib_device_attr *most = &device->attrs;
	u32 longest = max(cap->max_send_wr, cap->max_recv_wr);

	if (longest > most->max_qp_wr)
		h_violation("a queue has %u work requests; the device: %d", longest,
			    most->max_qp_wr);
	if (cap->max_send_sge > most->max_send_sge || cap->max_recv_sge > most->max_recv_sge)
		h_violation("queues have %u and %u SGEs; the device: %d and %d", cap->max_send_sge,
			    cap->max_recv_sge, most->max_send_sge, most->max_recv_sge);
}

/* An RDMA Read may have fewer SGEs than a Send. */
void h_limits_elements(const struct h_qp *qp, const struct ib_send_wr *wr)
{
	bool reads = wr->opcode == IB_WR_RDMA_READ || wr->opcode == IB_WR_RDMA_READ_WITH_INV;
	u32 most = reads ? qp->ib.max_read_sge : qp->ib.max_write_sge;

	if (wr->num_sge > most)
		h_violation("a work request of type %d has %d SGEs of %u", wr->opcode, wr->num_sge,
			    most);
}

/* Returns whether the completion queues have room for these completions more. */
static bool have_room(const struct h_qp *qp, u32 sends, u32 receives)
{
	const struct ib_cq *send = qp->ib.send_cq, *receive = qp->ib.recv_cq;

	sends += qp->sq_len;
	receives += qp->rq_len;
	if (send == receive)
		return sends + receives <= send->cqe;
	return sends <= send->cqe && receives <= receive->cqe;
}

/* In the error state, each work request has a completion. */
void h_limits_completions(const struct h_qp *qp)
{
	if (!have_room(qp, 0, 0))
		h_violation("%u work requests and %u Receives have a completion queue of %d",
			    qp->sq_len, qp->rq_len, qp->ib.send_cq->cqe);
}

void h_limits_drain(const struct h_qp *qp, bool sends, bool receives)
{
	if ((sends && qp->sq_len >= qp->cap.max_send_wr) ||
	    (receives && qp->rq_len >= qp->cap.max_recv_wr) || !have_room(qp, sends, receives))
		h_violation("%u work requests and %u Receives leave no room for a drain",
			    qp->sq_len, qp->rq_len);
}

void h_limits_entries(const struct ib_device *device, int entries)
{
	if (entries > device->attrs.max_cqe)
		h_violation("a completion queue has %d entries; the device: %d", entries,
			    device->attrs.max_cqe);
}

void h_limits_region(const struct ib_device *device, enum ib_mr_type type, u32 depth)
{
	const struct ib_device_attr *attrs = &device->attrs;

	if (type == IB_MR_TYPE_SG_GAPS && !(attrs->kernel_cap_flags & IBK_SG_GAPS_REG))
		h_violation("a region may have gaps, which the device cannot map");
	if (!depth || depth > attrs->max_fast_reg_page_list_len)
		h_violation("a region has %u pages; the device: %u", depth,
			    attrs->max_fast_reg_page_list_len);
}

void h_limits_reads(const struct rdma_cm_id *id, const struct rdma_conn_param *parameters)
{
	const struct ib_device_attr *attrs = &id->device->attrs;

	if (parameters->responder_resources > attrs->max_qp_rd_atom ||
	    parameters->initiator_depth > attrs->max_qp_init_rd_atom)
		h_violation("a connection serves %u RDMA Reads and has %u; the device: %d and %d",
			    parameters->responder_resources, parameters->initiator_depth,
			    attrs->max_qp_rd_atom, attrs->max_qp_init_rd_atom);
}
