/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What lab_limits.c (limits) and lab_moods.c (behaviour) share.
 */
#ifndef LAB_PROFILE_H
#define LAB_PROFILE_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

enum {
	LAB_PAGES, LAB_SEND_SGE, LAB_RECV_SGE, LAB_READ_SGE, LAB_QP_WR, LAB_CQE, LAB_READS,
	LAB_OWN_READS, LAB_LIMITS
};

/* The verbs of the driver. */
extern struct ib_device_ops lab_driver;

/* Holds queue pairs and completion queues while an event happens to them. */
extern struct mutex lab_life;

/* The caller polled this completion. */
void lab_completed(const struct ib_wc *wc);
/* Calls `act` for each queue pair, under `lab_life`. */
void lab_each_qp(void (*act)(struct ib_qp *qp));

/* Begins and ends to change how the device's completion queues behave. */
void lab_watch(struct ib_device *device);
void lab_unwatch(struct ib_device *device);
int lab_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
/* The queue pair enters the error state: its completions are no longer hidden. */
void lab_release(struct ib_qp *qp);
/* The queue pair is about to be destroyed, under `lab_life`: announces what is left. */
void lab_forget(struct ib_qp *qp);

/*
 * Returns how many of a chain of `count` work requests are posted before one fails for lack of
 * memory: all of them, or fewer, with the error. A queue pair in the error state takes all.
 */
unsigned int lab_before_failure(bool failed, unsigned int count, int *err);

static inline unsigned int lab_sends_before(const struct ib_send_wr *wr,
					    const struct ib_send_wr *end)
{
	unsigned int count = 0;

	for (; wr && wr != end; wr = wr->next)
		count++;
	return count;
}

static inline unsigned int lab_sends(const struct ib_send_wr *wr)
{
	return lab_sends_before(wr, NULL);
}

static inline unsigned int lab_receives(const struct ib_recv_wr *wr)
{
	unsigned int count = 0;

	for (; wr; wr = wr->next)
		count++;
	return count;
}

#endif
