// SPDX-License-Identifier: GPL-2.0
/* What a context permits: where code may sleep, and what its allocations may wait for. */
#include <linux/preempt.h>
#include <linux/sched/mm.h>
#include "harness.h"

bool h_rust;

void h_may_sleep(const char *what, const void *caller)
{
	/* Another processor has none of this one's locks. */
	if (!h_elsewhere() && (h_holds_spinlock() || preempt_count()))
		u_fail("violation: %s with a spinlock held, at <%p>", what, caller);
	if (h_ready && (h_completing || !h_in_thread()))
		u_fail("violation: %s in a handler, at <%p>", what, caller);
}

void h_driver_allocates(const char *what, const void *caller)
{
	h_may_sleep(what, caller);
	if (h_rust && h_in_client_work() && current_gfp_context(GFP_KERNEL) & __GFP_FS)
		u_fail("violation: %s, for which a file system may wait, at <%p>", what, caller);
}

void h_driver_ends(const char *what, const void *caller)
{
	h_may_sleep(what, caller);
	if (h_rust && current_gfp_context(GFP_KERNEL) & __GFP_IO)
		u_fail("violation: %s, and an allocation may start I/O, at <%p>", what, caller);
}
