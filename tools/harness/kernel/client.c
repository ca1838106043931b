// SPDX-License-Identifier: GPL-2.0
/*
 * RPCs. The kernel's own xprt.o, sched.o and clnt.o run them; this file has the rpc_clnt that the
 * calls are made with. It adds one thing: buf_free(), which xprt_release() calls, can stop a call
 * after it has left SUNRPC's queues and before the transport's own buf_free is called. After an RPC
 * has ended, the memory of its payload must not change.
 */
#include <linux/mm.h>
#include <linux/sunrpc/auth.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xprtmultipath.h>
#include <linux/wait.h>
#include "harness.h"

static const struct rpc_timeout timeouts = {
	.to_initval = 60 * HZ,
	.to_maxval = 60 * HZ,
	.to_retries = 2,
};
static unsigned int calls_counted[H_ALL_KINDS];
static const struct rpc_version version = {
	.number = 3, .nrprocs = H_ALL_KINDS, .procs = h_procedures, .counts = calls_counted,
};
static const struct rpc_version *versions[] = { NULL, NULL, NULL, &version };
static struct rpc_stat statistics;
static const struct rpc_program program = {
	.name = "nfs", .number = 100003, .nrvers = 4, .version = versions, .stats = &statistics,
};
static struct rpc_xprt_switch multipath;

struct rpc_clnt h_clnt;
static struct rpc_xprt_ops operations;
static void (*free_buffers)(struct rpc_task *task);
static u32 numbers;

static void buf_free(struct rpc_task *task)
{
	struct h_rpc *rpc = task->tk_calldata;

	if (rpc && rpc->hold) {
		rpc->held = true;
		wait_event(rpc->wait, rpc->go);
		rpc->held = false;
	}
	free_buffers(task);
	if (rpc)
		h_mr_check_owner(task->tk_rqstp->rq_buffer, u_size(task->tk_rqstp->rq_buffer),
				 "an RPC's buffers have been freed");
}

void h_wrap_operations(struct rpc_xprt *xprt)
{
	operations = *xprt->ops;
	free_buffers = operations.buf_free;
	operations.buf_free = buf_free;
	xprt->ops = &operations;
}

void h_client_init(struct rpc_xprt *xprt)
{
	memset(&h_clnt, 0, sizeof(h_clnt));
	refcount_set(&h_clnt.cl_count, 1);
	spin_lock_init(&h_clnt.cl_lock);
	INIT_LIST_HEAD(&h_clnt.cl_tasks);
	RCU_INIT_POINTER(h_clnt.cl_xprt, xprt);
	h_clnt.cl_procinfo = h_procedures;
	h_clnt.cl_prog = program.number;
	h_clnt.cl_vers = 3;
	h_clnt.cl_maxproc = H_ALL_KINDS;
	h_clnt.cl_program = &program;
	h_clnt.cl_stats = &statistics;
	h_clnt.cl_timeout = &timeouts;
	h_clnt.cl_noretranstimeo = 1;
	h_clnt.cl_rtt = &h_clnt.cl_rtt_default;
	rpc_init_rtt(&h_clnt.cl_rtt_default, timeouts.to_initval);
	h_clnt.cl_auth = authnull_ops.create(NULL, &h_clnt);
	RCU_INIT_POINTER(h_clnt.cl_xpi.xpi_xpswitch, &multipath);
}

/* Ends the program if the peer can still access the pages of an RPC. */
void h_rpc_check_memory(struct h_rpc *rpc, const char *when)
{
	if (rpc->pages)
		h_mr_check_owner(page_address(rpc->pages[0]),
				 u_size(page_address(rpc->pages[0])), when);
}

static void call_done(struct rpc_task *task, void *data)
{
	struct h_rpc *rpc = data;

	rpc->status = task->tk_status;
	rpc->done = true;
}

/* Benchmarks reuse memory at once, and compare nothing. */
static u64 sum_of(const struct h_rpc *rpc)
{
	u32 n, pages = h_payloads ? rpc->page_count : 0;
	u64 sum = pages;

	for (n = 0; n < pages; n++)
		sum = (sum ^ h_sum(page_address(rpc->pages[n]), PAGE_SIZE)) * H_SUM_FACTOR;
	return sum;
}

void h_rpc_check_unchanged(const struct h_rpc *rpc)
{
	if (sum_of(rpc) != rpc->sum)
		h_violation("%s: memory of an RPC changes after its end", rpc->kind->name);
}

static void call_released(void *data)
{
	struct h_rpc *rpc = data;

	h_rpc_check_memory(rpc, "an RPC has ended");
	rpc->sum = sum_of(rpc);
	rpc->released = true;
	rpc->task = NULL;
}

/* Does nothing. Without this operation SUNRPC would use cl_metrics, which h_clnt does not have. */
static void count_nothing(struct rpc_task *task, void *data)
{
}

static const struct rpc_call_ops call_operations = {
	.rpc_count_stats = count_nothing,
	.rpc_call_done = call_done,
	.rpc_release = call_released,
};

/* Allocates pages. Adjacent pages follow each other in memory; scattered pages do not. */
static void take_pages(struct h_rpc *rpc, u32 bytes)
{
	unsigned int count = DIV_ROUND_UP(bytes, PAGE_SIZE), i;
	unsigned int step = rpc->kind->scattered ? 2 : 1;
	u8 *memory = u_alloc(count * step * PAGE_SIZE, NULL);

	/* The payload of an earlier RPC cannot pass for that of this one. */
	if (h_payloads)
		memset(memory, 0xee, count * step * PAGE_SIZE);
	rpc->page_count = count;
	rpc->pages = u_alloc(count * sizeof(*rpc->pages), NULL);
	for (i = 0; i < count; i++) {
		rpc->pages[i] = virt_to_page(memory + i * step * PAGE_SIZE);
		set_page_count(rpc->pages[i], 1);
	}
}

u8 *h_rpc_payload(const struct h_rpc *rpc, u32 offset, u32 *len)
{
	u32 at = rpc->kind->offset + offset;
	u8 *page = page_address(rpc->pages[at >> PAGE_SHIFT]);

	/* The contents change where the payload, not its memory, has a whole number of pages. */
	*len = min3(*len, (u32)(PAGE_SIZE - at % PAGE_SIZE), (u32)(PAGE_SIZE - offset % PAGE_SIZE));
	return page + at % PAGE_SIZE;
}

static void fill_pages(struct h_rpc *rpc)
{
	u32 done, n, len = rpc->kind->send_pages;

	for (done = 0; done < len; done += n) {
		u8 *bytes;

		n = len - done;
		bytes = h_rpc_payload(rpc, done, &n);
		h_payload_fill(bytes, done, n, rpc->seed);
	}
}

struct h_rpc *h_rpc_new(u32 kind)
{
	struct h_rpc *rpc = u_alloc(sizeof(*rpc), NULL);

	memset(rpc, 0, sizeof(*rpc));
	rpc->kind = &h_kinds[kind];
	rpc->number = kind;
	rpc->seed = ++numbers;
	init_waitqueue_head(&rpc->wait);
	if (rpc->kind->send_pages || rpc->kind->receive_pages) {
		take_pages(rpc, rpc->kind->offset +
			   max(rpc->kind->send_pages, rpc->kind->receive_pages));
		fill_pages(rpc);
	}
	return rpc;
}

void h_rpc_free(struct h_rpc *rpc)
{
	h_expect(rpc->released, "an RPC has not ended");
	h_rpc_check_unchanged(rpc);
	if (rpc->pages) {
		h_dma_check_free(page_address(rpc->pages[0]),
				 u_size(page_address(rpc->pages[0])));
		u_free(page_address(rpc->pages[0]));
		u_free(rpc->pages);
	}
	u_free(rpc);
}

/* Starts the task of an RPC. The task is asynchronous: rpciod runs it. */
static void start(void *argument)
{
	struct h_rpc *rpc = argument;
	struct rpc_message message = {
		.rpc_proc = &h_procedures[rpc->number],
		.rpc_argp = rpc,
		.rpc_resp = rpc,
	};
	struct rpc_task_setup setup = {
		.rpc_client = &h_clnt,
		.rpc_xprt = h_xprt,
		.rpc_message = &message,
		.callback_ops = &call_operations,
		.callback_data = rpc,
		.workqueue = rpciod_workqueue,
		.flags = RPC_TASK_ASYNC | RPC_TASK_NULLCREDS | rpc->flags,
	};

	rpc->task = rpc_run_task(&setup);
	h_expect(!IS_ERR(rpc->task), "rpc_run_task() fails");
	rpc_put_task(rpc->task);
}

void h_rpc_start(struct h_rpc *rpc, unsigned int flags)
{
	rpc->flags = flags;
	h_spawn("a process", start, rpc);
	h_settle();
}

/* Cancels a call as a signal or umount -f does. */
void h_rpc_cancel(struct h_rpc *rpc)
{
	if (rpc->task)
		rpc_task_try_cancel(rpc->task, -EINTR);
	h_settle();
}

void h_rpc_time_out(struct h_rpc *rpc)
{
	rpc_wake_up_queued_task_set_status(&h_xprt->pending, rpc->task, -ETIMEDOUT);
	h_settle();
}

/* Returns whether the call has been sent and its reply has not been handled. */
bool h_rpc_waits(const struct h_rpc *rpc)
{
	return rpc->task && !rpc->held && test_bit(RPC_TASK_NEED_RECV, &rpc->task->tk_runstate) &&
	       rpc->task->tk_waitqueue == &h_xprt->pending && RPC_IS_QUEUED(rpc->task);
}

/* Lets a call that is stopped in buf_free() continue. */
void h_rpc_let_go(struct h_rpc *rpc)
{
	rpc->go = true;
	wake_up_all(&rpc->wait);
	h_settle();
}

void h_rpc_check(struct h_rpc *rpc)
{
	h_expect(rpc->released, "%s: the RPC does not end", rpc->kind->name);
	h_expect(!rpc->status, "%s: the RPC ends with %d", rpc->kind->name, rpc->status);
	h_expect(!rpc->kind->receive_pages || rpc->received, "%s: the reply had no payload",
		 rpc->kind->name);
}

void h_rpc_run(struct h_rpc *rpc, const struct h_reply *how)
{
	struct h_call *call;

	h_rpc_start(rpc, 0);
	call = h_peer_call(rpc->xid);
	if (!call) {
		h_print_sleepers();
		u_fail("%s: the call has not been sent", rpc->kind->name);
	}
	h_answer_call(call, how);
	h_live(0);
	h_rpc_check(rpc);
}
