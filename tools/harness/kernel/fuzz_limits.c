// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the fuzzer that either role may meet: limits of a device, of its ports and of its
 * bounce buffers; what another processor does before a spinlock is taken; threads that stop where
 * they may sleep; and connections beside the last one.
 */
#include "both.h"
#include "fuzz.h"
#include "limits.h"

/* The limits of the device for the next connection that finds it unused. */
void h_fuzz_limits(void)
{
	static const int lengths[] = { 32768, 1024, 256, 128, 64, 32, 16, 8 };
	static const unsigned int depths[] = { 8, 16, 4, 2, 1, 64, 0, 32 };
	struct ib_device_attr *attrs = h_limits_next();
	u8 which = h_input_below(8), how = h_input_byte();

	h_event("limit %u of the device: %u", which, how);
	switch (which) {
	case 0:
		attrs->max_qp_wr = lengths[how % ARRAY_SIZE(lengths)];
		break;
	case 1:
		attrs->max_send_sge = 1 + how % 30;
		attrs->max_recv_sge = 1 + how % 30;
		break;
	case 2:
		attrs->max_fast_reg_page_list_len = depths[how % ARRAY_SIZE(depths)];
		/* The device of the first connection determines the largest payload for good. */
		if (!h_connections && attrs->max_fast_reg_page_list_len > h_region_depth)
			attrs->max_fast_reg_page_list_len = h_region_depth;
		break;
	case 3:
		attrs->max_qp_rd_atom = how & 15;
		attrs->max_qp_init_rd_atom = how >> 4;
		break;
	case 4:
		attrs->max_cqe = lengths[how % ARRAY_SIZE(lengths)];
		break;
	case 5:
		attrs->device_cap_flags = how & 1 ? 0 : IB_DEVICE_MEM_MGT_EXTENSIONS;
		break;
	case 6:
		attrs->kernel_cap_flags = (how & 1 ? IBK_SG_GAPS_REG : 0) |
					  (how & 2 ? IBK_LOCAL_DMA_LKEY : 0);
		break;
	case 7:
		attrs->max_sge_rd = 1 + how % 30;
		break;
	}
}

/* The addresses of the device have gaps that the memory does not have. */
void h_fuzz_bounce(void)
{
	u8 how = h_input_byte();

	h_event("bounce buffers: %#x", how);
	h_bounced = how & 1;
	h_by_piece = how & 2;
	h_most_taken = how & 4 ? 1 + (how >> 3) : 0;
}

/* A port gets or loses its link. */
void h_fuzz_port(void)
{
	u8 how = h_input_byte();

	if (!h_devices[0].present || !h_devices[0].handler)
		return;
	h_event("port %u %s", 1 + (how & 1), how & 2 ? "has a link" : "has no link");
	h_port_set(1 + (how & 1), how & 2);
}

static void race_receive(void)
{
	if (h_qp)
		h_complete_receive(h_qp);
}

static void race_send(void)
{
	if (h_qp)
		h_complete_send(h_qp);
}

static void race_error(void)
{
	if (h_qp && !h_qp->broken)
		h_qp_error(h_qp);
}

static void race_execute(void)
{
	if (h_qp && h_qp->hold) {
		h_qp->hold = false;
		h_qp_execute(h_qp);
	}
}

/* Another processor is faster than a thread that is about to take a spinlock. */
void h_fuzz_race(void)
{
	static void (*const faster[])(void) = {
		race_receive, race_send, race_error, race_execute,
	};
	u8 n = h_input_below(32), which = h_input_below(ARRAY_SIZE(faster));

	h_event("before the spinlock after %u: %u", n, which);
	h_before_lock(n, faster[which]);
}

/* The device takes its time to drain a queue pair; or does so no longer. */
void h_fuzz_drain(void)
{
	if (!h_qp)
		return;
	h_event("a drain %s", h_qp->undrained ? "ends" : "will take long");
	if (h_qp->undrained)
		h_drain_go(h_qp);
	else
		h_qp->undrained = true;
}

/* An allocation sleeps; or does so no longer. */
void h_fuzz_sleep(void)
{
	u8 n = h_input_byte();

	h_event("allocation %u sleeps", n);
	if (h_allocation_sleeps())
		h_allocation_go();
	else
		h_sleeping_allocation = n;
}

/* A work request is refused. */
void h_fuzz_refuse(void)
{
	h_faults.posts = 1 + h_input_below(8);
	h_event("work request %u is refused", h_faults.posts);
}

/* The events that follow concern another connection. */
void h_fuzz_other(void)
{
	struct h_qp *next = h_qp ? h_qp_next(h_qp) : NULL;

	h_event("another connection");
	/* One of the connection manager's that is not made yet has no events. */
	if (next && next->id && next->state == IB_QPS_RTS)
		h_qp = next;
}

static void let_go_on(struct h_qp *qp)
{
	qp->hold = false;
	qp->late = false;
	if (qp->undrained)
		h_drain_go(qp);
	h_qp_execute(qp);
}

void h_fuzz_mend_limits(void)
{
	struct h_qp *first = h_qp_next(NULL), *qp = first;

	h_before_lock(0, NULL);
	h_device_attributes(h_limits_next());
	h_bounced = false;
	h_by_piece = false;
	h_most_taken = 0;
	h_sleeping_allocation = 0;
	if (h_allocation_sleeps())
		h_allocation_go();
	memset(h_devices[0].lost, 0, sizeof(h_devices[0].lost));
	while (qp) {
		let_go_on(qp);
		qp = h_qp_next(qp);
		if (qp == first)
			break;
	}
}
