// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the fuzzer that either role may meet: a step of making a connection fails or is late,
 * and a thread is preempted.
 */
#include <rdma/ib_cm.h>
#include "fuzz.h"

/* A step of each connection that is made from now on fails. */
void h_fuzz_step(void)
{
	static const int errors[] = {
		0, -ENETUNREACH, -EHOSTUNREACH, -ENOTCONN, -ECONNREFUSED, -ETIMEDOUT, -EINVAL,
		-EOPNOTSUPP, -ENOMEM, -EADDRNOTAVAIL, IB_CM_REJ_STALE_CONN,
		IB_CM_REJ_INVALID_SERVICE_ID,
	};

	h_faults.step = h_input_below(H_STEPS);
	h_faults.error = errors[h_input_below(ARRAY_SIZE(errors))];
	/* Only the peer has a reason to reject a connection. */
	if (h_faults.step != H_STEP_ANSWERED)
		h_faults.error = min(h_faults.error, 0);
	h_event("step %u of a connection fails: %d", h_faults.step, h_faults.error);
}

/* A thread is preempted before it takes a spinlock; or goes on. */
void h_fuzz_preempt(void)
{
	u8 n = h_input_byte();

	h_event("%s %u", h_lock_pauses() ? "a thread goes on" : "preempted: the thread of lock",
		n);
	if (h_lock_pauses())
		h_lock_go();
	else
		h_lock_preempt(n);
}

void h_fuzz_mend_steps(void)
{
	h_lock_preempt(0);
	if (h_lock_pauses())
		h_lock_go();
}

void h_fuzz_undisturbed(void)
{
	h_sleeping_allocation = 0;
	h_fuzz_mend_steps();
	h_settle();
}
