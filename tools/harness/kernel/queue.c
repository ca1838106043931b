// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs. A work request is executed when it is posted, unless the queue pair is held. The
 * driver decides when its completion is delivered. An unsignalled work request is removed without a
 * completion before the next signalled one completes. In the error state all work requests are
 * flushed. If a queue pair is late, its RDMA Reads are executed and completed after what was posted
 * behind them, as siw completes them when the response has arrived.
 */
#include "both.h"
#include "limits.h"

struct h_qp *h_qp;
static LIST_HEAD(pairs);
static unsigned int numbers;

static struct h_qp *pair_of(struct ib_qp *qp)
{
	return container_of(qp, struct h_qp, ib);
}

struct h_qp *h_qp_create(struct ib_pd *pd, const struct ib_qp_init_attr *attr)
{
	struct h_qp *qp = u_alloc(sizeof(*qp), __builtin_return_address(0));

	h_limits_pair(pd->device, &attr->cap);
	memset(qp, 0, sizeof(*qp));
	qp->ib.device = pd->device;
	qp->ib.pd = pd;
	qp->ib.send_cq = attr->send_cq;
	qp->ib.recv_cq = attr->recv_cq;
	qp->ib.qp_context = attr->qp_context;
	qp->ib.qp_type = attr->qp_type;
	qp->ib.qp_num = ++numbers;
	qp->ib.res.id = numbers;
	qp->cap = attr->cap;
	qp->ib.max_write_sge = attr->cap.max_send_sge;
	qp->ib.max_read_sge = min(attr->cap.max_send_sge, pd->device->attrs.max_sge_rd);
	qp->event_handler = attr->event_handler;
	INIT_LIST_HEAD(&qp->sq);
	INIT_LIST_HEAD(&qp->rq);
	INIT_LIST_HEAD(&qp->arrived);
	list_add(&qp->all, &pairs);
	atomic_inc(&pd->usecnt);
	atomic_inc(&attr->send_cq->usecnt);
	atomic_inc(&attr->recv_cq->usecnt);
	h_object(pd->device, 1);
	return qp;
}

struct h_qp *h_qp_find(u32 number)
{
	struct h_qp *qp;

	list_for_each_entry(qp, &pairs, all)
		if (qp->ib.qp_num == number)
			return qp;
	return NULL;
}

struct h_qp *h_qp_next(struct h_qp *qp)
{
	return qp && !list_is_last(&qp->all, &pairs) ? list_next_entry(qp, all) :
		list_first_entry_or_null(&pairs, struct h_qp, all);
}

static void drop_all(struct list_head *list)
{
	struct h_wr *wr, *next;

	list_for_each_entry_safe(wr, next, list, list)
		u_free(wr);
	INIT_LIST_HEAD(list);
}

/* Destroys a queue pair. Its work requests are dropped without completions. */
void h_qp_destroy(struct h_qp *qp)
{
	qp->destroyed = true;
	drop_all(&qp->sq);
	drop_all(&qp->rq);
	drop_all(&qp->arrived);
	atomic_dec(&qp->ib.pd->usecnt);
	atomic_dec(&qp->ib.send_cq->usecnt);
	atomic_dec(&qp->ib.recv_cq->usecnt);
	list_del(&qp->all);
	qp->id->qp = NULL;
	h_link_forget(qp);
	h_mr_forget(qp);
	h_peer_forget(qp);
	if (h_qp == qp)
		h_qp = NULL;
	h_object(qp->ib.device, -1);
	u_free(qp);
}

/* Returns whether the device may still use posted buffers, and the peer registered memory. */
bool h_qp_in_use(const struct h_qp *qp)
{
	struct h_wr *wr;

	if (!qp->broken || !list_empty(&qp->rq) || !list_empty(&qp->arrived))
		return true;
	list_for_each_entry(wr, &qp->sq, list)
		if (!wr->executed || wr->signalled || wr->status)
			return true;
	return false;
}

static bool touches(const struct list_head *list, u64 addr, size_t len)
{
	struct h_wr *wr;

	list_for_each_entry(wr, list, list)
		if (wr->len && wr->addr < addr + len && addr < wr->addr + wr->len)
			return true;
	return false;
}

/*
 * Ends the program if a posted work request still uses memory that is unmapped. An executed Send
 * has been read. Replies of several connections may each have a mapping of the same page of a file.
 * The buffer of a posted Receive may be written at any time.
 */
void h_qp_check_unmap(u64 addr, size_t len, enum dma_data_direction way)
{
	struct h_qp *qp;
	struct h_wr *wr;

	list_for_each_entry(qp, &pairs, all) {
		if (touches(&qp->rq, addr, len) || touches(&qp->arrived, addr, len))
			h_violation("a Receive's buffer is unmapped while it is posted");
		list_for_each_entry(wr, &qp->sq, list)
			if (!wr->executed && wr->len && wr->addr < addr + len &&
			    addr < wr->addr + wr->len &&
			    (way != DMA_TO_DEVICE || !h_dma_covers(addr, len, way)))
				h_violation("a Send's buffer is unmapped while it is posted");
	}
}

/* --- Posting --- */

static struct h_wr *make(struct ib_cqe *cqe, const struct ib_sge *sge, int num_sge)
{
	struct h_wr *wr = u_alloc(sizeof(*wr), NULL);

	memset(wr, 0, sizeof(*wr));
	wr->cqe = cqe;
	wr->status = IB_WC_SUCCESS;
	if (num_sge) {
		wr->addr = sge->addr;
		wr->len = sge->length;
	}
	return wr;
}

static void check_posting(const struct h_qp *qp, unsigned int outstanding, unsigned int room)
{
	if (qp->drained)
		h_violation("a work request is posted on a queue pair that was drained");
	if (outstanding > room)
		h_violation("%u work requests are on a queue of %u", outstanding, room);
	h_limits_completions(qp);
}

static bool is_read(enum ib_wr_opcode opcode)
{
	return opcode == IB_WR_RDMA_READ || opcode == IB_WR_RDMA_READ_WITH_INV;
}

static bool has_remote(enum ib_wr_opcode opcode)
{
	return is_read(opcode) || opcode == IB_WR_RDMA_WRITE;
}

unsigned int h_reads, h_fenced_reads;

static void note(struct h_wr *mine, const struct ib_send_wr *wr)
{
	mine->opcode = wr->opcode;
	mine->signalled = wr->send_flags & IB_SEND_SIGNALED;
	if (wr->opcode == IB_WR_RDMA_READ) {
		h_reads++;
		h_fenced_reads += !!(wr->send_flags & IB_SEND_FENCE);
	}
	if (has_remote(wr->opcode)) {
		mine->remote = rdma_wr(wr)->remote_addr;
		mine->key = rdma_wr(wr)->rkey;
	}
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		mine->mr = container_of(reg_wr(wr)->mr, struct h_mr, ib);
		mine->key = reg_wr(wr)->key;
		mine->access = reg_wr(wr)->access;
		mine->wc_opcode = IB_WC_REG_MR;
		break;
	case IB_WR_LOCAL_INV:
		mine->key = wr->ex.invalidate_rkey;
		mine->wc_opcode = IB_WC_LOCAL_INV;
		break;
	case IB_WR_SEND_WITH_INV:
		mine->key = wr->ex.invalidate_rkey;
		fallthrough;
	case IB_WR_SEND:
		mine->wc_opcode = IB_WC_SEND;
		break;
	case IB_WR_RDMA_WRITE:
		mine->wc_opcode = IB_WC_RDMA_WRITE;
		break;
	case IB_WR_RDMA_READ_WITH_INV:
		mine->invalidated = wr->ex.invalidate_rkey;
		fallthrough;
	case IB_WR_RDMA_READ:
		mine->wc_opcode = IB_WC_RDMA_READ;
		break;
	default:
		u_fail("a work request has opcode %d", wr->opcode);
	}
}

/* A work request with its list of SGEs. */
struct gathered {
	struct h_wr wr;
	int num_sge;
	struct ib_sge sge[32];
};

static bool has_sges(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_INV:
		return true;
	default:
		return has_remote(wr->opcode);
	}
}

static struct h_wr *make_gathered(const struct h_qp *qp, const struct ib_send_wr *wr)
{
	struct gathered *mine = u_alloc(sizeof(*mine), NULL);

	memset(mine, 0, sizeof(*mine));
	mine->wr.cqe = wr->wr_cqe;
	mine->num_sge = wr->num_sge;
	h_limits_elements(qp, wr);
	h_expect(wr->num_sge <= ARRAY_SIZE(mine->sge), "a work request has too many SGEs");
	memcpy(mine->sge, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
	mine->wr.addr = wr->num_sge ? wr->sg_list->addr : 0;
	mine->wr.len = wr->num_sge ? wr->sg_list->length : 0;
	return &mine->wr;
}

int h_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct h_qp *qp = pair_of(ib);
	int error = 0;

	if ((h_faults.marker && qp->broken) ||
	    (h_faults.invalidation && wr->opcode == IB_WR_LOCAL_INV)) {
		*bad = wr;
		return -EINVAL;
	}
	for (; wr; wr = wr->next) {
		struct h_wr *mine;

		if (h_faults.posts && !--h_faults.posts) {
			*bad = wr;
			error = -EINVAL;
			break;
		}
		mine = has_sges(wr) ? make_gathered(qp, wr) : make(wr->wr_cqe, NULL, 0);
		note(mine, wr);
		list_add_tail(&mine->list, &qp->sq);
		check_posting(qp, ++qp->sq_len, qp->cap.max_send_wr);
	}
	h_qp_execute(qp);
	return error;
}

int h_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct h_qp *qp = pair_of(ib);

	if ((h_faults.marker && qp->broken) || h_faults.receives) {
		*bad = wr;
		return -EINVAL;
	}
	for (; wr; wr = wr->next) {
		struct h_wr *mine = make(wr->wr_cqe, wr->sg_list, wr->num_sge);

		if (mine->len && !h_dma_covers(mine->addr, mine->len, DMA_FROM_DEVICE))
			h_violation("a Receive is posted for memory that is not mapped for it");
		h_two_check(qp, mine);
		mine->wc_opcode = IB_WC_RECV;
		mine->status = qp->broken ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS;
		list_add_tail(&mine->list, qp->broken ? &qp->arrived : &qp->rq);
		check_posting(qp, ++qp->rq_len, qp->cap.max_recv_wr);
		qp->rq_most = max(qp->rq_most, qp->rq_len);
	}
	return 0;
}

/* --- Executing --- */

static void send(struct h_qp *qp, struct gathered *send)
{
	static u8 message[1 << 17] H_SCRATCH;
	u32 len = 0;
	int i;

	for (i = 0; i < send->num_sge; i++) {
		struct ib_sge *sge = &send->sge[i];

		if (!h_dma_covers(sge->addr, sge->length, DMA_TO_DEVICE))
			h_violation("a Send reads memory that is not mapped for it");
		if (!send->wr.guessed)
			h_dma_check_sent(sge->addr, sge->length);
		memcpy(message + len, (void *)sge->addr, sge->length);
		len += sge->length;
	}
	if (qp->link)
		h_link_send(qp, message, len, send->wr.key);
	else if (qp->passive)
		h_requester_receive(qp, message, len, send->wr.key);
	else
		h_peer_receive(qp, message, len);
}

/* Reads or writes memory of a requester, as its responder. */
static bool access_requester(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write)
{
	if (!qp->link)
		return h_requester_access(key, addr, data, len, write);
	h_link_access(qp, key, addr, data, len, write);
	return true;
}

/* The peer has no memory for a work request. */
static void refuse(struct h_qp *qp, struct h_wr *wr)
{
	wr->status = IB_WC_REM_ACCESS_ERR;
	h_qp_error(qp);
	h_cm_disconnected();
}

/* Executes an RDMA Read or Write of a responder, or an RDMA Read of a requester. */
static void move(struct h_qp *qp, struct gathered *move, enum dma_data_direction way)
{
	u64 addr = move->wr.remote;
	int i;

	for (i = 0; i < move->num_sge; i++) {
		struct ib_sge *sge = &move->sge[i];
		void *local = (void *)sge->addr;

		if (!h_dma_covers(sge->addr, sge->length, way))
			h_violation("an RDMA Read or Write uses memory that is not mapped for it");
		/* A service may change a page of a file while replies have it. */
		if (way == DMA_TO_DEVICE && !h_cached_used)
			h_dma_check_sent(sge->addr, sge->length);
		if (!(qp->passive ? access_requester(qp, move->wr.key, addr, local, sge->length,
						     way == DMA_TO_DEVICE) :
		      h_exposed_read(move->wr.key, addr, local, sge->length)))
			return refuse(qp, &move->wr);
		addr += sge->length;
	}
}

/* Executes an RDMA Read of a responder into the memory of a region, which it then invalidates. */
static void read_to_region(struct h_qp *qp, struct gathered *read)
{
	static u8 bytes[2 << 20] H_SCRATCH;
	struct ib_sge *sge = read->sge;

	h_expect(read->num_sge == 1 && sge->length <= sizeof(bytes),
		 "an RDMA Read into a region has %d SGEs", read->num_sge);
	if (h_mr_is_given_up(qp, read->wr.invalidated) ||
	    !access_requester(qp, read->wr.key, read->wr.remote, bytes, sge->length, false))
		return refuse(qp, &read->wr);
	h_peer_access(qp, sge->lkey, sge->addr, bytes, sge->length, true);
	h_expect(h_mr_invalidate(qp, read->wr.invalidated),
		 "violation: an RDMA Read invalidates R_key %#x", read->wr.invalidated);
}

/* A client writes nothing to its peer's memory: its RDMA Writes have no bytes. */
static void write(struct h_qp *qp, struct h_wr *wr)
{
	if (qp->passive)
		return move(qp, container_of(wr, struct gathered, wr), DMA_TO_DEVICE);
	if (h_faults.write) {
		wr->status = h_faults.write;
		h_qp_error(qp);
	}
}

static void execute(struct h_qp *qp, struct h_wr *wr)
{
	wr->executed = true;
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		return h_mr_register(qp, wr->mr, wr->key, wr->access);
	case IB_WR_LOCAL_INV:
		if (!h_mr_invalidate(qp, wr->key))
			h_violation("LOCAL_INV of R_key %#x, which no region has", wr->key);
		return;
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_INV:
		return send(qp, container_of(wr, struct gathered, wr));
	case IB_WR_RDMA_WRITE:
		return write(qp, wr);
	case IB_WR_RDMA_READ:
		return move(qp, container_of(wr, struct gathered, wr), DMA_FROM_DEVICE);
	case IB_WR_RDMA_READ_WITH_INV:
		return read_to_region(qp, container_of(wr, struct gathered, wr));
	default:
		return;
	}
}

/* Whether a work request is an RDMA Read whose response has not arrived. */
static bool is_late(const struct h_qp *qp, const struct h_wr *wr)
{
	return qp->late && !qp->broken && is_read(wr->opcode);
}

/* Whether a work request needs the peer. */
static bool is_remote(const struct h_wr *wr)
{
	return has_remote(wr->opcode) || wr->opcode == IB_WR_SEND ||
	       wr->opcode == IB_WR_SEND_WITH_INV;
}

/* Between both roles, the driver decides when a work request reaches the peer. */
void h_qp_execute(struct h_qp *qp)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &qp->sq, list) {
		if (wr->executed)
			continue;
		if (qp->broken) {
			wr->executed = true;
			wr->status = IB_WC_WR_FLUSH_ERR;
		} else if (qp->link && is_remote(wr)) {
			return;
		} else if (!qp->hold && !is_late(qp, wr)) {
			execute(qp, wr);
		}
	}
}

struct h_wr *h_qp_awaiting(struct h_qp *qp)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &qp->sq, list)
		if (!wr->executed)
			return wr;
	return NULL;
}

void h_qp_step(struct h_qp *qp)
{
	struct h_wr *wr = h_qp_awaiting(qp);

	execute(qp, wr);
	h_qp_execute(qp);
}

void h_qp_unacknowledged(struct h_qp *qp)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &qp->sq, list) {
		if (!is_remote(wr))
			continue;
		wr->executed = true;
		wr->status = wr->status ?: IB_WC_RETRY_EXC_ERR;
		break;
	}
	list_for_each_entry_continue(wr, &qp->sq, list) {
		wr->executed = true;
		wr->status = IB_WC_WR_FLUSH_ERR;
	}
	h_qp_error(qp);
}

/* Moves a queue pair to the error state. Work requests that were not executed are flushed. */
void h_qp_error(struct h_qp *qp)
{
	struct h_wr *wr;

	qp->broken = true;
	h_qp_execute(qp);
	list_for_each_entry(wr, &qp->rq, list)
		wr->status = IB_WC_WR_FLUSH_ERR;
	list_splice_tail_init(&qp->rq, &qp->arrived);
}

/* --- Completing --- */

bool h_completing;

static void call_done(struct ib_cq *cq, struct ib_qp *qp, struct h_wr *wr)
{
	struct ib_wc wc = {
		.wr_cqe = wr->cqe, .status = wr->status, .opcode = wr->wc_opcode,
		.byte_len = wr->byte_len, .wc_flags = wr->wc_flags,
		.ex.invalidate_rkey = wr->wc_key, .qp = qp,
	};

	/* The other fields of a completion in error mean nothing. */
	if (wr->status) {
		wc.opcode = 0xff;
		wc.byte_len = U32_MAX;
		wc.wc_flags = ~0;
		wc.ex.invalidate_rkey = U32_MAX;
	}
	h_completing = true;
	wr->cqe->done(cq, &wc);
	h_completing = false;
}

struct h_wr *h_next_signalled(struct h_qp *qp)
{
	struct h_wr *wr;

	list_for_each_entry(wr, &qp->sq, list) {
		if (is_late(qp, wr))
			continue;
		if (!wr->executed)
			return NULL;
		if (wr->signalled || wr->status)
			return wr;
	}
	return NULL;
}

bool h_complete_send(struct h_qp *qp)
{
	struct h_wr *last = h_next_signalled(qp), *wr, *next;

	if (!last)
		return false;
	list_for_each_entry_safe(wr, next, &qp->sq, list) {
		if (is_late(qp, wr))
			continue;
		list_del(&wr->list);
		qp->sq_len--;
		if (wr == last)
			break;
		u_free(wr);
	}
	call_done(qp->ib.send_cq, &qp->ib, last);
	u_free(last);
	return true;
}

/* Delivers a completion out of order. The work request need not be on the queue. */
void h_deliver(struct h_qp *qp, struct h_wr *wr)
{
	call_done(qp->ib.send_cq, &qp->ib, wr);
}

bool h_complete_receive(struct h_qp *qp)
{
	struct h_wr *wr = list_first_entry_or_null(&qp->arrived, struct h_wr, list);

	if (!wr)
		return false;
	list_del(&wr->list);
	qp->rq_len--;
	call_done(qp->ib.recv_cq, &qp->ib, wr);
	u_free(wr);
	return true;
}

bool h_flushes_wait;

/* Delivers one completion of a queue pair in the error state, without a decision of the driver. */
bool h_flush_one(void)
{
	struct h_qp *qp;

	if (h_flushes_wait)
		return false;
	list_for_each_entry(qp, &pairs, all)
		if (qp->broken && !qp->hold && (h_complete_send(qp) || h_complete_receive(qp)))
			return true;
	return false;
}
