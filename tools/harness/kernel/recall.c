// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of calls that the service makes over the connection of its requester (RFC 8167): they
 * end with the connection, and a connection outlives calls that nfsd ends.
 */
#include <linux/mm.h>
#include <linux/sunrpc/svc_xprt.h>
#include <net/net_namespace.h>
#include "wire.h"

/* Makes the client transport of the backchannel, as rpc_create() does for nfsd. */
static struct rpc_xprt *make(void)
{
	struct svc_xprt *connection = h_serve_connection();
	struct xprt_create args = {
		.ident = XPRT_TRANSPORT_BC_RDMA,
		.net = &init_net,
		.srcaddr = (struct sockaddr *)&connection->xpt_local,
		.dstaddr = (struct sockaddr *)&connection->xpt_remote,
		.addrlen = connection->xpt_remotelen,
		.servername = "requester",
		.bc_xprt = connection,
	};

	return xprt_create_transport(&args);
}

void h_recall_make(void *unused)
{
	struct rpc_xprt *xprt = make();

	if (IS_ERR(xprt) && h_hostile)
		return;
	h_expect(!IS_ERR(xprt), "no transport calls back: error %ld", PTR_ERR(xprt));
	h_xprt = xprt;
}

static void begin(void)
{
	h_serve_begin();
	h_spawn("the service calls back", h_recall_make, NULL);
	h_settle();
	h_wrap_operations(h_xprt);
	h_client_init(h_xprt);
}

void h_recall_put(void *unused)
{
	xprt_put(h_xprt);
}

static void end(void)
{
	h_spawn("the service calls no more", h_recall_put, NULL);
	h_settle();
	h_serve_end();
}

/* Starts a call with the flags that nfsd uses in NFSv4.1. */
static struct h_rpc *call(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, RPC_TASK_SOFT | RPC_TASK_NOCONNECT);
	h_live(0);
	return rpc;
}

static void check_ended(struct h_rpc *rpc)
{
	h_expect(rpc->released, "the connection has ended, and the call over it has not");
	h_expect(rpc->status == -ENOTCONN, "the call ends with %d", rpc->status);
	h_rpc_free(rpc);
}

/* The credits that a reply grants, and the bytes by which it is shorter than its results. */
static u32 granted = 64, cut;

void h_recall_reply(const struct h_rpc *rpc)
{
	const u32 head[] = { rpc->xid, 1, granted, 0, 0, 0, 0, rpc->xid, 1, 0, 0, 0, 0 };
	u8 message[512];
	struct h_writer out = { message };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(head); i++)
		h_put(&out, head[i]);
	for (i = 0; i < rpc->kind->reply_head / 4 - 1; i++)
		h_put(&out, rpc->xid);
	h_put(&out, 0);
	h_arrive(h_qp, message, out.len - cut, 0);
}

/* Answers a call, and checks that it ends. */
static void answered(struct h_rpc *rpc)
{
	h_recall_reply(rpc);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
}

/* A call is answered. */
void h_recall(void)
{
	begin();
	answered(call());
	h_expect(h_called_back == 1, "the requester has received %u calls", h_called_back);
	end();
}

/* The requester is gone before it replies. No call is sent after that. */
void h_recall_lost(void)
{
	struct h_rpc *rpc;

	begin();
	rpc = call();
	h_cm_disconnected();
	h_settle();
	check_ended(rpc);
	check_ended(call());
	h_expect(h_called_back == 1, "the requester has received %u calls", h_called_back);
	end();
}

/* The device is removed while no thread of the service is free. */
void h_recall_removed_while_busy(void)
{
	struct h_rpc *rpc;

	begin();
	rpc = call();
	h_serve_threads(0);
	h_settle();
	h_spawn("a removal", h_device_remove, NULL);
	h_settle();
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	check_ended(rpc);
	check_ended(call());
	end();
}

/* The calls for which a connection has credits, and milliseconds from one look of the watch on. */
#define UNANSWERED	2
#define LOOK		10000

/* Makes as many calls as there are credits, and ends them as rpc_shutdown_client() does. */
static void shut_down(struct h_rpc *late)
{
	struct h_rpc *rpc[UNANSWERED];
	unsigned int i;

	answered(call());
	for (i = 0; i < UNANSWERED; i++)
		rpc[i] = call();
	h_expect(h_called_back == 1 + UNANSWERED, "the requester has received %u calls",
		 h_called_back);
	for (i = 0; i < UNANSWERED; i++) {
		h_rpc_cancel(rpc[i]);
		late[i] = *rpc[i];
		h_rpc_free(rpc[i]);
	}
	h_expect(h_qp && !h_qp->broken, "a connection in use is closed");
}

/*
 * nfsd ends all calls over a connection that is in use when the requester adds another one to its
 * session. The connection stays, and the replies that arrive late return the credits.
 */
void h_recall_shut_down(void)
{
	struct h_rpc late[UNANSWERED], *next;
	unsigned int i;

	begin();
	shut_down(late);
	next = call();
	h_expect(h_called_back == 1 + UNANSWERED, "a call is sent without a credit");
	for (i = 0; i < UNANSWERED; i++)
		h_recall_reply(&late[i]);
	h_live(0);
	h_expect(h_called_back == 2 + UNANSWERED, "a credit that returns is not used");
	answered(next);
	h_check_breaches();
	end();
}

/* The requester never answers. The connection is closed, so that it can make another one. */
void h_recall_unanswered(void)
{
	struct h_rpc late[UNANSWERED];
	unsigned int i;

	h_requester_breach = "slow";
	begin();
	shut_down(late);
	for (i = 0; i < 6 && h_qp; i++)
		h_live(LOOK);
	h_expect(!h_qp, "a connection without credits for callbacks stays");
	end();
}

static struct h_qp *connect(void)
{
	h_cm_request();
	h_settle();
	return h_qp;
}

/* Sends a call whose payload the device does not fetch for now. */
static u32 ask_late(struct h_qp *qp, enum h_kind_number kind)
{
	u32 xid;

	qp->late = true;
	h_qp = qp;
	xid = h_ask(kind);
	h_complete_receive(h_qp);
	h_settle();
	return xid;
}

/* The pages that calls may use: those of two WRITEs of 1 MiB, a sixteenth of all. */
#define PAGES	(512 * 16)

/*
 * The replies to calls that nfsd has ended arrive late. When a third connection waits for pages,
 * that connection is closed for its pages as any other is, and not the one that has fewer.
 */
void h_recall_shut_down_and_short(void)
{
	struct h_rpc late[UNANSWERED];
	struct h_qp *less;
	u32 number, first, third;
	unsigned int i;

	h_requester_breach = "slow";
	atomic_long_set(&_totalram_pages, PAGES);
	begin();
	shut_down(late);
	for (i = 0; i < UNANSWERED; i++)
		h_recall_reply(&late[i]);
	h_live(0);
	ask_late(h_qp, H_WRITE_1M_SCATTERED);
	less = connect();
	number = less->ib.qp_num;
	first = ask_late(less, H_WRITE_4K);
	third = ask_late(connect(), H_WRITE_1M_SCATTERED);
	h_qp->late = false;
	h_live(0);
	h_expect(!h_answered(third), "no call waits for pages");
	h_live(3 * LOOK + LOOK / 2);
	h_expect(h_answered(third), "the call that waits for pages is not answered");
	h_expect(h_qp_find(number) == less, "the connection with fewer pages is closed");
	less->late = false;
	h_qp_execute(less);
	h_qp = less;
	h_live(0);
	h_expect(h_answered(first), "a call is not answered");
	end();
}

static void reply_with_chunks(u32 xid)
{
	const u32 words[] = {
		xid, 1, 64, 0, 0, 1, 1, 0x1234, 8, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0,
	};

	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	h_live(0);
}

/* A reply that has chunks is dropped and counted. Its call waits for another one. */
void h_recall_answered_with_chunks(void)
{
	struct h_rpc *rpc;

	h_requester_breach = "backward_form";
	begin();
	rpc = call();
	reply_with_chunks(rpc->xid);
	h_expect(strstr(h_file_read("requester_breaches"), "backward_form 1\n"),
		 "a reply with chunks is not counted");
	answered(rpc);
	end();
}

/* The bytes of an RPC reply, those before its results, and those of its XID and direction. */
#define WHOLE	136
#define HEAD	24
#define LEAST	8

/* Answers a call with a reply that ends too early, until it ends. */
static void answer_shortly(u32 len)
{
	struct h_rpc *rpc = call();
	unsigned int i;

	cut = WHOLE - len;
	for (i = 0; i < 8 && !rpc->released; i++) {
		h_recall_reply(rpc);
		h_live(0);
	}
	cut = 0;
	h_expect(rpc->released && rpc->status < 0, "a call ends with %d after a reply of %u bytes",
		 rpc->status, len);
	h_rpc_free(rpc);
}

/* A reply ends before its results. Its call fails, and all credits and Receives return. */
void h_recall_shortly_answered(void)
{
	unsigned int i;
	u32 len;

	begin();
	for (i = 0; i < 10; i++)
		for (len = LEAST; len < HEAD; len++)
			answer_shortly(len);
	answered(call());
	h_expect(h_qp && !h_qp->broken, "the connection is closed");
	end();
}

/* Makes calls, and returns how many of them are sent. Answers all. */
static unsigned int calls_at_once(unsigned int count)
{
	struct h_rpc *rpc[8];
	unsigned int i, sent, before = h_called_back;

	for (i = 0; i < count; i++)
		rpc[i] = call();
	sent = h_called_back - before;
	for (i = 0; i < count; i++) {
		h_recall_reply(rpc[i]);
		h_live(0);
		h_rpc_check(rpc[i]);
		h_rpc_free(rpc[i]);
	}
	return sent;
}

/* The requester grants no credit for a while, which counts as one. */
void h_recall_grants(void)
{
	static const struct { u32 granted, sent; } cases[] = {
		{ 64, UNANSWERED }, { 0, 1 }, { 0, 1 }, { 1, 1 }, { 64, UNANSWERED },
	};
	unsigned int i, sent;

	begin();
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		granted = cases[i].granted;
		answered(call());
		sent = calls_at_once(4);
		h_expect(sent == cases[i].sent, "%u credits are granted, and %u calls are sent",
			 granted, sent);
	}
	end();
}

/* Checks that a call which the requester does not accept ends, and with it the connection. */
static void check_refused(enum h_kind_number kind)
{
	struct h_rpc *rpc = h_rpc_new(kind), *killed = h_rpc_new(kind);

	h_serve_threads(0);
	h_rpc_start(rpc, RPC_TASK_SOFT | RPC_TASK_NOCONNECT);
	h_rpc_start(killed, RPC_TASK_SOFT | RPC_TASK_NOCONNECT);
	h_live(LOOK);
	h_expect(!rpc->released, "the call ends with %d while nfsd has no thread that closes",
		 rpc->status);
	/* nfsd shuts its client down, and waits for the calls. */
	h_rpc_cancel(killed);
	h_settle();
	h_expect(killed->released, "a call that waits for the close cannot be ended");
	h_rpc_free(killed);
	h_serve_threads(1);
	h_live(LOOK);
	h_expect(!h_called_back, "the requester receives the call");
	h_expect(!h_qp, "the connection stays");
	check_ended(rpc);
}

/* The service has a call that is longer than the Receives of its requester. */
void h_recall_too_long(void)
{
	begin();
	check_refused(H_WRITE_4K);
	end();
}

/* A requester of version two says that it takes no calls. */
static void forbid(void)
{
	/* UPD_XCHAR: Backward Request Support is NONE. */
	const u32 words[] = { 0x5150, 2, 1, H_TWO_OPTIONAL, 0, 4, 16, 3, 4, 1, 0 };

	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	h_live(0);
}

static void begin_two(void)
{
	h_answer.two = true;
	h_answer.bare = true;
	h_requester_two = true;
}

/* It says so while the service can call it. */
void h_recall_forbidden_later(void)
{
	begin_two();
	begin();
	forbid();
	check_refused(H_INLINE);
	end();
}

static void want_refusal(void *unused)
{
	struct rpc_xprt *xprt = make();

	h_expect(xprt == ERR_PTR(-EOPNOTSUPP), "the service may call a requester that forbids it");
}

/* It says so before, and nfsd gets no backchannel. */
void h_recall_forbidden(void)
{
	begin_two();
	h_serve_begin();
	forbid();
	h_spawn("the service calls back", want_refusal, NULL);
	h_settle();
	h_serve(H_INLINE);
	h_serve_end();
}
