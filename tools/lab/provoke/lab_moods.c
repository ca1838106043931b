// SPDX-License-Identifier: GPL-2.0
/*
 * How the device of lab_limits.c behaves. Each parameter may change at any time:
 *
 * late       completions are visible, and announced, up to this number of microseconds later
 * hard       they are announced in hard interrupt context, by a timer
 * vector     they are announced on processor vector - 1, where their vector's interrupt arrives
 * batch      polling returns a random number of them at a time, at most this one
 * behind     those of Sends are visible this number of microseconds later, so that the Receives
 *            which the Sends have caused overtake them
 * enomem     posting fails with ENOMEM once in this number of times, also within a chain
 * slow       mapping a memory region takes this number of microseconds, without sleeping
 * event      writing a name makes it happen: see `events` below
 */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/xarray.h>

#include "lab_profile.h"

static unsigned int late, hard, vector, batch, behind, enomem, slow;
module_param(late, uint, 0644);
module_param(hard, uint, 0644);
module_param(vector, uint, 0644);
module_param(batch, uint, 0644);
module_param(behind, uint, 0644);
module_param(enomem, uint, 0644);
module_param(slow, uint, 0644);

static atomic_t announced = ATOMIC_INIT(0), split = ATOMIC_INIT(0);
static atomic_t failed = ATOMIC_INIT(0), slowed = ATOMIC_INIT(0);
static atomic_t steered = ATOMIC_INIT(0), overtaken = ATOMIC_INIT(0);
module_param_named(announced, announced.counter, int, 0444);
MODULE_PARM_DESC(announced, "how often completions were announced late, or in hard interrupts");
module_param_named(failed, failed.counter, int, 0444);
MODULE_PARM_DESC(failed, "how often posting failed");
module_param_named(split, split.counter, int, 0444);
MODULE_PARM_DESC(split, "how often polling returned fewer completions than it was asked for");
module_param_named(slowed, slowed.counter, int, 0444);
MODULE_PARM_DESC(slowed, "how often mapping took longer");
module_param_named(steered, steered.counter, int, 0444);
MODULE_PARM_DESC(steered, "how often completions were announced on another processor");
module_param_named(overtaken, overtaken.counter, int, 0444);
MODULE_PARM_DESC(overtaken, "how many Receives were visible before a Send that had completed");

/* Completions of Sends that are not visible yet, in a ring. */
struct held {
	unsigned int first, count, size;
	/* When the first of them becomes visible. */
	ktime_t due;
	struct ib_wc *ring;
};

/* A completion queue of a kernel user. */
struct queue {
	struct ib_cq *cq;
	/* The user's handler, once the user has asked for an event. */
	ib_comp_handler handler;
	spinlock_t lock;
	struct hrtimer timer;
	/* Whether the timer will announce completions. */
	atomic_t pending;
	/* Announces completions on another processor; `steering` while it is on its way. */
	call_single_data_t call;
	atomic_t steering;
	/* Under `lock`. */
	struct held held;
	/* Whether completions are visible; they are hidden from arming until the event. */
	bool open;
	/* Whether the queue shows nothing until a queue pair enters the error state. */
	bool stuck;
	/* Whether the user is about to free it: nothing is announced, under `lock`. */
	bool gone;
};

static DEFINE_XARRAY(queues);
static struct ib_device *device_of_guest;
DEFINE_MUTEX(lab_life);

static struct queue *known(struct ib_cq *cq)
{
	return xa_load(&queues, (unsigned long)cq);
}

/* --- Completions -------------------------------------------------------------------- */

static void announce_here(struct queue *queue)
{
	if (READ_ONCE(queue->stuck) || READ_ONCE(queue->gone))
		return;
	WRITE_ONCE(queue->open, true);
	queue->handler(queue->cq, queue->cq->cq_context);
}

/* In hard interrupt context, on the processor of the vector. */
static void on_call(void *context)
{
	struct queue *queue = context;

	announce_here(queue);
	/* The last access: the queue may be freed now. */
	atomic_set_release(&queue->steering, 0);
}

static void announce(struct queue *queue)
{
	/* No processor without `vector`. */
	unsigned int cpu = READ_ONCE(vector) - 1;

	if (cpu >= nr_cpu_ids || cpu == raw_smp_processor_id()) {
		announce_here(queue);
	} else if (!atomic_xchg(&queue->steering, 1)) {
		atomic_inc(&steered);
		if (smp_call_function_single_async(cpu, &queue->call)) {
			atomic_set(&queue->steering, 0);
			announce_here(queue);
		}
	}
}

/* Waits until no other processor announces completions. */
static void end_steering(struct queue *queue)
{
	while (atomic_read_acquire(&queue->steering))
		cpu_relax();
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct queue *queue = container_of(timer, struct queue, timer);

	/* Before the handler: the user may arm the queue at once. */
	atomic_set(&queue->pending, 0);
	atomic_inc(&announced);
	announce(queue);
	return HRTIMER_NORESTART;
}

static void announce_later(struct queue *queue)
{
	unsigned int most = READ_ONCE(late);
	u64 ns = most ? get_random_u32_inclusive(1, most) * 1000ULL : 1000;

	if (!READ_ONCE(queue->gone) && !atomic_xchg(&queue->pending, 1))
		hrtimer_start(&queue->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_HARD);
}

static bool changed(void)
{
	return READ_ONCE(late) || READ_ONCE(hard);
}

/* The driver's event. It may hold a lock of the completion queue. */
static void on_event(struct ib_cq *cq, void *context)
{
	struct queue *queue = known(cq);

	if (changed() || READ_ONCE(queue->stuck))
		announce_later(queue);
	else
		announce(queue);
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	struct queue *queue = known(cq);
	unsigned long irq;
	int missed;

	if (!queue || !cq->comp_handler)
		return lab_driver.req_notify_cq(cq, flags);
	spin_lock_irqsave(&queue->lock, irq);
	if (!queue->handler) {
		queue->handler = cq->comp_handler;
		WRITE_ONCE(cq->comp_handler, on_event);
	}
	if (changed() || READ_ONCE(queue->stuck)) {
		WRITE_ONCE(queue->open, false);
		missed = lab_driver.req_notify_cq(cq, flags | IB_CQ_REPORT_MISSED_EVENTS);
		if (missed > 0)
			announce_later(queue);
		missed = min(missed, 0);
	} else {
		WRITE_ONCE(queue->open, true);
		missed = lab_driver.req_notify_cq(cq, flags);
	}
	if (queue->held.count && !queue->gone && !atomic_xchg(&queue->pending, 1))
		hrtimer_start(&queue->timer, queue->held.due, HRTIMER_MODE_ABS_HARD);
	spin_unlock_irqrestore(&queue->lock, irq);
	return missed;
}

/* Takes the completions of Sends out of `wc`; returns how many others there are. */
static int hold_sends(struct held *held, struct ib_wc *wc, int found)
{
	int i, left = 0;

	for (i = 0; i < found; i++) {
		if (wc[i].opcode & IB_WC_RECV || held->count == held->size) {
			wc[left++] = wc[i];
			continue;
		}
		if (!held->count)
			held->due = ktime_add_us(ktime_get(), READ_ONCE(behind));
		held->ring[(held->first + held->count++) % held->size] = wc[i];
	}
	return left;
}

/* Adds the completions that are due to the `found` ones in `wc`; returns how many there are. */
static int show_sends(struct held *held, struct ib_wc *wc, int found, int most)
{
	if (!held->count || ktime_before(ktime_get(), held->due)) {
		atomic_add(held->count ? found : 0, &overtaken);
		return found;
	}
	while (held->count && found < most) {
		wc[found++] = held->ring[held->first];
		held->first = (held->first + 1) % held->size;
		held->count--;
	}
	return found;
}

/* Polls, with Sends behind the Receives that they have caused. */
static int poll_in_order(struct queue *queue, int count, struct ib_wc *wc)
{
	struct held *held = &queue->held;
	unsigned long irq;
	int found;

	spin_lock_irqsave(&queue->lock, irq);
	found = lab_driver.poll_cq(queue->cq, count, wc);
	if (found > 0 && (READ_ONCE(behind) || held->count))
		found = hold_sends(held, wc, found);
	if (found >= 0)
		found = show_sends(held, wc, found, count);
	spin_unlock_irqrestore(&queue->lock, irq);
	return found;
}

static int poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	struct queue *queue = known(cq);
	unsigned int most = READ_ONCE(batch);
	int i, found, asked = count;

	if (queue && (!READ_ONCE(queue->open) || READ_ONCE(queue->stuck)))
		return 0;
	if (queue && most)
		count = min_t(int, count, get_random_u32_inclusive(1, most));
	found = queue ? poll_in_order(queue, count, wc) : lab_driver.poll_cq(cq, count, wc);
	if (found == count && count < asked)
		atomic_inc(&split);
	for (i = 0; i < found; i++)
		lab_completed(&wc[i]);
	return found;
}

static void free_queue(struct queue *queue)
{
	kvfree(queue->held.ring);
	kfree(queue);
}

int lab_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs)
{
	struct queue *queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	int err;

	if (!queue)
		return -ENOMEM;
	/* No more Sends complete than the queue has entries. */
	queue->held.size = attr->cqe;
	queue->held.ring = kvcalloc(attr->cqe, sizeof(*queue->held.ring), GFP_KERNEL);
	err = queue->held.ring ? 0 : -ENOMEM;
	if (err)
		goto free;
	INIT_CSD(&queue->call, on_call, queue);
	queue->cq = cq;
	queue->open = true;
	spin_lock_init(&queue->lock);
	hrtimer_setup(&queue->timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	err = xa_err(xa_store(&queues, (unsigned long)cq, queue, GFP_KERNEL));
	if (err)
		goto free;
	err = lab_driver.create_cq(cq, attr, attrs);
	if (!err)
		return 0;
	xa_erase(&queues, (unsigned long)cq);
free:
	free_queue(queue);
	return err;
}

/* The core cancels its work next, and frees it behind destroy_cq(): no timer may queue it again. */
static int pre_destroy_cq(struct ib_cq *cq)
{
	struct queue *queue = known(cq);
	unsigned long irq;

	if (!queue)
		return 0;
	/* Arming starts the timer under this lock. */
	spin_lock_irqsave(&queue->lock, irq);
	WRITE_ONCE(queue->gone, true);
	spin_unlock_irqrestore(&queue->lock, irq);
	hrtimer_cancel(&queue->timer);
	end_steering(queue);
	return 0;
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	struct queue *queue = known(cq);
	int err;

	if (!queue)
		return lab_driver.destroy_cq(cq, udata);
	mutex_lock(&lab_life);
	hrtimer_cancel(&queue->timer);
	err = lab_driver.destroy_cq(cq, udata);
	if (!err) {
		/* The driver has no more events, and one may be on its way. */
		end_steering(queue);
		xa_erase(&queues, (unsigned long)cq);
		free_queue(queue);
	}
	mutex_unlock(&lab_life);
	return err;
}

static void let_go(struct ib_cq *cq)
{
	struct queue *queue = known(cq);

	if (queue && READ_ONCE(queue->stuck)) {
		WRITE_ONCE(queue->stuck, false);
		announce_later(queue);
	}
}

void lab_release(struct ib_qp *qp)
{
	let_go(qp->send_cq);
	let_go(qp->recv_cq);
}

/* After this nothing completes. An event that came later would find no completion queue. */
static void announce_now(struct ib_cq *cq)
{
	struct queue *queue = known(cq);

	if (queue && hrtimer_cancel(&queue->timer)) {
		atomic_set(&queue->pending, 0);
		announce_here(queue);
	}
}

void lab_forget(struct ib_qp *qp)
{
	announce_now(qp->send_cq);
	announce_now(qp->recv_cq);
}

/* --- Posting and mapping ------------------------------------------------------------ */

unsigned int lab_before_failure(bool in_error, unsigned int count, int *err)
{
	unsigned int every = READ_ONCE(enomem);

	*err = 0;
	if (!every || in_error || get_random_u32_below(every))
		return count;
	atomic_inc(&failed);
	*err = -ENOMEM;
	return get_random_u32_below(count);
}

static int map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents, unsigned int *offset)
{
	unsigned int us = min(READ_ONCE(slow), 20000U);

	if (us)
		atomic_inc(&slowed);
	udelay(us);
	return lab_driver.map_mr_sg(mr, sg, nents, offset);
}

/* --- Events ------------------------------------------------------------------------- */

static void make_stuck(void)
{
	struct queue *queue;
	unsigned long index;

	xa_for_each(&queues, index, queue)
		WRITE_ONCE(queue->stuck, true);
}

static void fail(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_event event = {
		.device = qp->device, .element.qp = qp, .event = IB_EVENT_QP_FATAL
	};

	qp->device->ops.modify_qp(qp, &attr, IB_QP_STATE, NULL);
	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

static void tell(struct ib_qp *qp)
{
	struct ib_event event = {
		.device = qp->device, .element.qp = qp, .event = IB_EVENT_PATH_MIG
	};

	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

/* The completion queue stops, and its user hears of that if the user wants to. */
static void fail_cq(struct queue *queue)
{
	struct ib_cq *cq = queue->cq;
	struct ib_event event = {
		.device = cq->device, .element.cq = cq, .event = IB_EVENT_CQ_ERR
	};

	WRITE_ONCE(queue->stuck, true);
	if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

static void fail_cqs(void)
{
	struct queue *queue;
	unsigned long index;

	xa_for_each(&queues, index, queue)
		fail_cq(queue);
}

static void dispatch(enum ib_event_type type)
{
	struct ib_event event = {
		.device = device_of_guest, .element.port_num = 1, .event = type
	};

	ib_dispatch_event(&event);
}

static int make_event(const char *name, const struct kernel_param *unused)
{
	guard(mutex)(&lab_life);
	if (!device_of_guest)
		return -ENODEV;
	if (sysfs_streq(name, "silent")) {
		make_stuck();
	} else if (sysfs_streq(name, "device-fatal")) {
		make_stuck();
		dispatch(IB_EVENT_DEVICE_FATAL);
	} else if (sysfs_streq(name, "cq-err")) {
		fail_cqs();
	} else if (sysfs_streq(name, "qp-fatal")) {
		lab_each_qp(fail);
	} else if (sysfs_streq(name, "path-mig")) {
		lab_each_qp(tell);
	} else if (sysfs_streq(name, "port-err")) {
		dispatch(IB_EVENT_PORT_ERR);
	} else if (sysfs_streq(name, "port-active")) {
		dispatch(IB_EVENT_PORT_ACTIVE);
	} else if (sysfs_streq(name, "gid-change")) {
		dispatch(IB_EVENT_GID_CHANGE);
	} else {
		return -EINVAL;
	}
	return 0;
}

static const struct kernel_param_ops event_ops = { .set = make_event };
module_param_cb(event, &event_ops, NULL, 0200);

/* --- Devices ------------------------------------------------------------------------ */

void lab_watch(struct ib_device *device)
{
	device->ops.req_notify_cq = req_notify_cq;
	device->ops.poll_cq = poll_cq;
	device->ops.pre_destroy_cq = pre_destroy_cq;
	device->ops.destroy_cq = destroy_cq;
	device->ops.map_mr_sg = map_mr_sg;
	mutex_lock(&lab_life);
	device_of_guest = device;
	mutex_unlock(&lab_life);
}

void lab_unwatch(struct ib_device *device)
{
	mutex_lock(&lab_life);
	if (device_of_guest == device)
		device_of_guest = NULL;
	mutex_unlock(&lab_life);
}
