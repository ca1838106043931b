// SPDX-License-Identifier: GPL-2.0
/*
 * The calls that the service has executed, as nfsd's duplicate reply cache knows them: a call that
 * comes again gets the answer of its first execution, and waits for it if that has not ended.
 */
#include <linux/wait.h>
#include "both.h"

#define EXECUTIONS 64

static struct h_execution executions[EXECUTIONS];
static unsigned int count;
static DECLARE_WAIT_QUEUE_HEAD(waiting);
bool h_executions_wait;
unsigned int h_replays;

static struct h_execution *first(u32 xid, u32 seed, u32 proc)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct h_execution *execution = &executions[i];

		if (execution->xid != xid && execution->seed != seed)
			continue;
		if (execution->xid != xid || execution->seed != seed || execution->proc != proc)
			h_violation("a call has XID %#x, seed %u and procedure %u, but one before "
				    "had XID %#x, seed %u and procedure %u", xid, seed, proc,
				    execution->xid, execution->seed, execution->proc);
		h_replays++;
		return execution;
	}
	h_expect(count < EXECUTIONS, "more than %u calls are executed", EXECUTIONS);
	executions[count] = (struct h_execution) {
		.xid = xid, .seed = seed, .proc = proc, .done = !h_executions_wait,
	};
	return &executions[count++];
}

u32 h_execute(u32 xid, u32 seed, u32 proc)
{
	struct h_execution *execution = first(xid, seed, proc);

	wait_event(waiting, execution->done);
	return execution - executions + 1;
}

static struct h_execution *of(u32 seed)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (executions[i].seed == seed)
			return &executions[i];
	return NULL;
}

bool h_execution_waits(u32 seed)
{
	const struct h_execution *execution = of(seed);

	return execution && !execution->done;
}

void h_execution_go(u32 seed)
{
	of(seed)->done = true;
	wake_up_all(&waiting);
}

u32 h_executed(u32 seed)
{
	const struct h_execution *execution = of(seed);

	return execution ? execution - executions + 1 : 0;
}

u64 h_executions_look(void)
{
	u64 hash = h_replays;
	unsigned int i;

	for (i = 0; i < count; i++)
		hash = h_mix(hash, (u64)executions[i].xid << 32 | executions[i].seed << 1 |
				   executions[i].done);
	return hash;
}
