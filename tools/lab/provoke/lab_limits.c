// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a software RDMA device report and keep the limits of another one:
 * insmod lab_profile.ko max_send_sge=4 max_qp_wr=895
 *
 * The module is a client of the RDMA core that registers before rpcrdma does. It lowers the
 * attributes of each device and calls the driver's verbs through functions that refuse, with a
 * warning, what the device did not promise: a longer page list, more scatter/gather entries, a
 * longer queue, more work requests than a queue was made for.
 *
 * Other parameters change how the device behaves (lab_moods.c): when completions are visible and
 * in which context they are announced, whether posting fails, how long mapping takes, and events.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "lab_profile.h"

static unsigned int limits[LAB_LIMITS];

#define LIMIT(index, name)							\
	module_param_named(name, limits[index], uint, 0644);			\
	MODULE_PARM_DESC(name, "the most that a device added later reports; 0: unchanged")

LIMIT(LAB_PAGES, max_fast_reg_page_list_len);
LIMIT(LAB_SEND_SGE, max_send_sge);
LIMIT(LAB_RECV_SGE, max_recv_sge);
LIMIT(LAB_READ_SGE, max_sge_rd);
LIMIT(LAB_QP_WR, max_qp_wr);
LIMIT(LAB_CQE, max_cqe);
LIMIT(LAB_READS, max_qp_rd_atom);
LIMIT(LAB_OWN_READS, max_qp_init_rd_atom);

static atomic_t refused = ATOMIC_INIT(0);
module_param_named(refused, refused.counter, int, 0444);
MODULE_PARM_DESC(refused, "how often more was asked of the device than it has");

static atomic_t posted = ATOMIC_INIT(0);
module_param_named(posted, posted.counter, int, 0444);
MODULE_PARM_DESC(posted, "how many work requests were checked");

/* The verbs of the driver. The guests have one kind of device. */
struct ib_device_ops lab_driver;
static unsigned int users;
static DEFINE_XARRAY(queue_pairs);

#define refuse(err, fmt, ...)							\
	({									\
		atomic_inc(&refused);						\
		WARN(1, "lab_profile: " fmt "\n", ##__VA_ARGS__);		\
		(err);								\
	})

/* A work request on the send queue, which has its place until a completion shows its end. */
struct request {
	struct ib_cqe *cqe;
	bool signaled;
};

/* A queue pair for reliable connections. */
struct queue_pair {
	struct ib_qp *qp;
	struct rcu_head rcu;
	struct ib_qp_cap cap;
	/* The user has moved it to the error state. */
	bool failed;
	/* A work request has failed: the device completes all others, signaled or not. */
	bool flushed;
	bool signal_all;
	spinlock_t lock;
	/* Sends that have been posted and have not ended, from `first` on, in a ring. */
	unsigned int first, sends, receives;
	struct request ring[];
};

static struct queue_pair *known(struct ib_qp *qp)
{
	return xa_load(&queue_pairs, (unsigned long)qp);
}

/* --- Work requests ------------------------------------------------------------------ */

static int check_send(struct queue_pair *q, const struct ib_send_wr *wr)
{
	u32 most = wr->opcode == IB_WR_RDMA_READ || wr->opcode == IB_WR_RDMA_READ_WITH_INV ?
		   min_t(u32, q->cap.max_send_sge, q->qp->device->attrs.max_sge_rd) :
		   q->cap.max_send_sge;

	if (wr->num_sge > most)
		return refuse(-EINVAL, "%d entries for opcode %d, not %u", wr->num_sge, wr->opcode,
			      most);
	if (q->sends == q->cap.max_send_wr && !q->flushed)
		return refuse(-ENOMEM, "more than %u Sends", q->sends);
	return 0;
}

/* Returns how many work requests from `wr` on may be posted, and the error for the next one. */
static unsigned int reserve_sends(struct queue_pair *q, const struct ib_send_wr *wr, int *err)
{
	unsigned int count, left = lab_before_failure(q->failed, lab_sends(wr), err);

	for (count = 0; wr && left; wr = wr->next, count++, left--) {
		int refusal = check_send(q, wr);

		if (refusal) {
			*err = refusal;
			return count;
		}
		if (!q->flushed)
			q->ring[(q->first + q->sends++) % q->cap.max_send_wr] = (struct request) {
				.cqe = wr->wr_cqe,
				.signaled = q->signal_all || wr->send_flags & IB_SEND_SIGNALED,
			};
	}
	return count;
}

/* Posts the first `count` of the work requests. The chain is whole again when this returns. */
static int post_some_sends(struct ib_qp *qp, const struct ib_send_wr *wr, unsigned int count,
			   const struct ib_send_wr **bad)
{
	struct ib_send_wr *last = (struct ib_send_wr *)wr;
	const struct ib_send_wr *rest;
	unsigned int i;
	int err;

	for (i = 1; i < count; i++)
		last = (struct ib_send_wr *)last->next;
	rest = last->next;
	last->next = NULL;
	err = lab_driver.post_send(qp, wr, bad);
	last->next = (struct ib_send_wr *)rest;
	if (!err)
		*bad = rest;
	return err;
}

static int post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct queue_pair *q = known(qp);
	unsigned int count;
	unsigned long flags;
	int err, failure;

	if (!q)
		return lab_driver.post_send(qp, wr, bad);
	spin_lock_irqsave(&q->lock, flags);
	count = reserve_sends(q, wr, &failure);
	atomic_add(count, &posted);
	*bad = wr;
	err = count ? post_some_sends(qp, wr, count, bad) : 0;
	/* The driver refused the rest of them. */
	if (err && !q->flushed)
		q->sends -= count - lab_sends_before(wr, *bad);
	spin_unlock_irqrestore(&q->lock, flags);
	return err ?: failure;
}

static int take_receive(struct queue_pair *q, const struct ib_recv_wr *wr)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&q->lock, flags);
	if (wr->num_sge > q->cap.max_recv_sge)
		err = refuse(-EINVAL, "%d entries of a Receive", wr->num_sge);
	else if (q->receives == q->cap.max_recv_wr)
		err = refuse(-ENOMEM, "more than %u Receives", q->receives);
	else
		q->receives++;
	spin_unlock_irqrestore(&q->lock, flags);
	return err;
}

static void give_receive(struct queue_pair *q)
{
	unsigned long flags;

	spin_lock_irqsave(&q->lock, flags);
	q->receives--;
	spin_unlock_irqrestore(&q->lock, flags);
}

static int post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct queue_pair *q = known(qp);
	int err, failure;
	unsigned int left;

	if (!q)
		return lab_driver.post_recv(qp, wr, bad);
	left = lab_before_failure(READ_ONCE(q->failed), lab_receives(wr), &failure);
	/* One at a time: the Receives of a chain are few, and their number is checked anyway. */
	for (; wr && left; wr = wr->next, left--) {
		struct ib_recv_wr one = *wr;
		const struct ib_recv_wr *unused;

		*bad = wr;
		one.next = NULL;
		err = take_receive(q, wr);
		if (err)
			return err;
		atomic_inc(&posted);
		err = lab_driver.post_recv(qp, &one, &unused);
		if (err) {
			give_receive(q);
			return err;
		}
	}
	*bad = wr;
	return failure;
}

static bool ends(const struct request *request, const struct ib_wc *wc)
{
	return request->cqe == wc->wr_cqe && (request->signaled || wc->status != IB_WC_SUCCESS);
}

/* Frees the places of a completed work request, and of all Sends before it. */
void lab_completed(const struct ib_wc *wc)
{
	unsigned int i, found = 0;
	struct queue_pair *q;
	unsigned long flags;

	/* A queue of completions may outlive the queue pair. */
	guard(rcu)();
	q = known(wc->qp);
	if (!q)
		return;
	spin_lock_irqsave(&q->lock, flags);
	q->flushed |= wc->status != IB_WC_SUCCESS;
	for (i = 0; i < q->sends && !found && !(wc->opcode & IB_WC_RECV); i++)
		found = ends(&q->ring[(q->first + i) % q->cap.max_send_wr], wc) ? i + 1 : 0;
	if (found) {
		q->first = (q->first + found) % q->cap.max_send_wr;
		q->sends -= found;
	} else if (q->receives) {
		q->receives--;
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

/* --- Queue pairs, completion queues, memory regions --------------------------------- */

static int check_queues(const struct ib_device_attr *attrs, const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > attrs->max_qp_wr || cap->max_recv_wr > attrs->max_qp_wr)
		return refuse(-EINVAL, "queues of %u and %u, not %u", cap->max_send_wr,
			      cap->max_recv_wr, attrs->max_qp_wr);
	if (cap->max_send_sge > attrs->max_send_sge || cap->max_recv_sge > attrs->max_recv_sge)
		return refuse(-EINVAL, "%u and %u entries, not %u and %u", cap->max_send_sge,
			      cap->max_recv_sge, attrs->max_send_sge, attrs->max_recv_sge);
	return 0;
}

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	const struct ib_qp_cap asked = init->cap;
	struct queue_pair *q;
	int err;

	if (init->qp_type != IB_QPT_RC || udata)
		return lab_driver.create_qp(qp, init, udata);
	err = check_queues(&qp->device->attrs, init);
	if (err)
		return err;
	q = kvzalloc(struct_size(q, ring, asked.max_send_wr + 1), GFP_KERNEL);
	err = q ? xa_reserve(&queue_pairs, (unsigned long)qp, GFP_KERNEL) : -ENOMEM;
	if (err)
		goto free;
	q->qp = qp;
	q->cap = asked;
	q->signal_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	spin_lock_init(&q->lock);
	err = lab_driver.create_qp(qp, init, udata);
	/* The driver rounds up. This device gives no more than it was asked for. */
	init->cap = asked;
	if (err)
		goto release;
	xa_store(&queue_pairs, (unsigned long)qp, q, GFP_KERNEL);
	return 0;
release:
	xa_release(&queue_pairs, (unsigned long)qp);
free:
	kvfree(q);
	return err;
}

static int check_reads(const struct ib_device_attr *attrs, const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > attrs->max_qp_init_rd_atom)
		return refuse(-EINVAL, "%u Reads of its own, not %d", attr->max_rd_atomic,
			      attrs->max_qp_init_rd_atom);
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > attrs->max_qp_rd_atom)
		return refuse(-EINVAL, "%u Reads of the peer, not %d", attr->max_dest_rd_atomic,
			      attrs->max_qp_rd_atom);
	return 0;
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct queue_pair *q = known(qp);
	int err = q ? check_reads(&qp->device->attrs, attr, mask) : 0;

	if (err)
		return err;
	if (q && (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_ERR) {
		WRITE_ONCE(q->failed, true);
		lab_release(qp);
	}
	return lab_driver.modify_qp(qp, attr, mask, udata);
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	struct queue_pair *q = known(qp);
	int err;

	if (!q)
		return lab_driver.destroy_qp(qp, udata);
	mutex_lock(&lab_life);
	lab_forget(qp);
	err = lab_driver.destroy_qp(qp, udata);
	if (!err) {
		xa_erase(&queue_pairs, (unsigned long)qp);
		kvfree_rcu(q, rcu);
	}
	mutex_unlock(&lab_life);
	return err;
}

static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	u32 most = cq->device->attrs.max_cqe;

	if (attr->cqe > most)
		return refuse(-EINVAL, "a completion queue of %u, not %u", attr->cqe, most);
	return lab_create_cq(cq, attr, attrs);
}

static struct ib_mr *alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 pages)
{
	u32 most = pd->device->attrs.max_fast_reg_page_list_len;

	if (pages > most)
		return ERR_PTR(refuse(-EINVAL, "a region of %u pages, not %u", pages, most));
	return lab_driver.alloc_mr(pd, type, pages);
}

void lab_each_qp(void (*act)(struct ib_qp *qp))
{
	struct queue_pair *q;
	unsigned long index;

	xa_for_each(&queue_pairs, index, q)
		act(q->qp);
}

/* --- Devices ------------------------------------------------------------------------ */

static void lower(struct ib_device *device)
{
	struct ib_device_attr *attrs = &device->attrs;
	int *const fields[] = {
		[LAB_SEND_SGE] = &attrs->max_send_sge, [LAB_RECV_SGE] = &attrs->max_recv_sge,
		[LAB_READ_SGE] = &attrs->max_sge_rd,   [LAB_QP_WR] = &attrs->max_qp_wr,
		[LAB_CQE] = &attrs->max_cqe,	       [LAB_READS] = &attrs->max_qp_rd_atom,
		[LAB_OWN_READS] = &attrs->max_qp_init_rd_atom,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i] && limits[i])
			*fields[i] = min_t(unsigned int, *fields[i], limits[i]);
	if (limits[LAB_PAGES])
		attrs->max_fast_reg_page_list_len =
			min(attrs->max_fast_reg_page_list_len, limits[LAB_PAGES]);
	pr_info("lab_profile: %s has %u pages, %d, %d and %d entries, queues of %d and %d\n",
		dev_name(&device->dev), attrs->max_fast_reg_page_list_len, attrs->max_send_sge,
		attrs->max_recv_sge, attrs->max_sge_rd, attrs->max_qp_wr, attrs->max_cqe);
}

static int on_add(struct ib_device *device)
{
	if (users && device->ops.post_send != lab_driver.post_send)
		return -EOPNOTSUPP;
	if (!users++)
		lab_driver = device->ops;
	lower(device);
	device->ops.post_send = post_send;
	device->ops.post_recv = post_recv;
	device->ops.create_qp = create_qp;
	device->ops.modify_qp = modify_qp;
	device->ops.destroy_qp = destroy_qp;
	device->ops.create_cq = create_cq;
	device->ops.alloc_mr = alloc_mr;
	lab_watch(device);
	return 0;
}

/* The device goes: its users have destroyed what they had, since they registered later. */
static void on_remove(struct ib_device *device, void *unused)
{
	users--;
	lab_unwatch(device);
}

static struct ib_client client = {
	.name = "lab_profile",
	.add = on_add,
	.remove = on_remove,
};

static int __init lab_profile_init(void)
{
	return ib_register_client(&client);
}
module_init(lab_profile_init);

/* No exit: the verbs of a device cannot be given back while queue pairs exist. */

MODULE_DESCRIPTION("Gives a software RDMA device the limits and the behaviour of an adapter");
MODULE_LICENSE("GPL");
