// SPDX-License-Identifier: GPL-2.0
/* The callback service: it takes the server's calls from the transport, and replies. */
#include <linux/lwq.h>
#include <linux/sunrpc/bc_xprt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/svc.h>
#include "harness.h"

static struct svc_pool pool;
static struct svc_serv *service;

static void set_up(void *unused)
{
	int error = h_xprt->ops->bc_setup(h_xprt, 2);

	h_expect(!error || h_hostile, "the backchannel is not set up: %d", error);
	h_xprt->bc_serv = error ? NULL : service;
}

bool h_callbacks_begin(void)
{
	service = u_alloc(sizeof(*service), NULL);
	memset(service, 0, sizeof(*service));
	service->sv_pools = &pool;
	lwq_init(&service->sv_cb_list);
	h_spawn("an NFSv4.1 mount", set_up, NULL);
	h_settle();
	if (!h_xprt->bc_serv)
		u_free(service);
	return h_xprt->bc_serv;
}

void h_callbacks_end(void)
{
	h_xprt->bc_serv = NULL;
	h_xprt->ops->bc_destroy(h_xprt, 2);
	u_free(service);
}

unsigned int h_callbacks_ended;
u32 h_callback_reply = 24;

/* Writes a reply, and sends it as svc_process_bc() does. */
static void answer(void *argument)
{
	struct rpc_rqst *request = argument;
	struct rpc_timeout timeout = { .to_initval = 60 * HZ, .to_maxval = 60 * HZ };
	struct kvec *head = &request->rq_snd_buf.head[0];
	__be32 *p = head->iov_base;
	struct rpc_task *task;

	memset(p, 0, h_callback_reply);
	p[0] = request->rq_xid;
	p[1] = cpu_to_be32(1);
	head->iov_len = h_callback_reply;
	request->rq_snd_buf.len = h_callback_reply;
	request->rq_snd_buf.page_len = 0;
	request->rq_snd_buf.tail[0].iov_len = 0;
	atomic_dec(&h_xprt->bc_slot_count);
	task = rpc_run_bc_task(request, &timeout);
	h_expect(!IS_ERR(task), "the reply to a callback cannot be sent");
	rpc_put_task(task);
	h_callbacks_ended++;
}

u32 h_callback_len;

/* Replies to one call. Returns false if no call has arrived. */
bool h_callback_answer(void)
{
	struct rpc_rqst *request = lwq_dequeue(&service->sv_cb_list, struct rpc_rqst, rq_bc_list);

	if (!request)
		return false;
	h_callback_len = request->rq_private_buf.len;
	h_spawn("the callback service", answer, request);
	h_settle();
	return true;
}
