// SPDX-License-Identifier: GPL-2.0
/* What a context permits: where code may sleep, and what its allocations may wait for. */
#include <linux/preempt.h>
#include "harness.h"

void h_may_sleep(const char *what, const void *caller)
{
	/* Another processor runs something else, and has none of the locks. */
	if (h_elsewhere())
		return;
	if (h_holds_spinlock() || preempt_count())
		u_fail("violation: %s with a spinlock held, at <%p>", what, caller);
	if (h_ready && (h_completing || !h_in_thread()))
		u_fail("violation: %s in a handler, at <%p>", what, caller);
}
