// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of allocations that fail, each of them in turn, and of memory that is not contiguous.
 */
#include <linux/sunrpc/svc_xprt.h>
#include "harness.h"
#include "limits.h"
#include "wire.h"

/* Milliseconds in which a client tries to connect again. */
#define PATIENCE	90000

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

/* Sends a connection request. The n-th allocation fails; returns whether there was one. */
static bool request(unsigned int n, unsigned int *refused)
{
	unsigned int before = h_connections;
	bool reached;

	h_failing_allocation = n;
	h_cm_request();
	h_settle();
	reached = !h_failing_allocation;
	h_failing_allocation = 0;
	h_expect(!h_cm_unanswered(), "allocation %u: a request has no answer", n);
	*refused += h_connections == before;
	h_cm_disconnected();
	h_settle();
	h_expect(!h_objects(), "allocation %u: %u objects are left", n, h_objects());
	return reached;
}

/* Each connection request is accepted or rejected, whichever allocation fails. */
void h_request_without_memory(void)
{
	unsigned int n = 0, refused = 0;

	h_load();
	h_serve_start(1);
	while (request(++n, &refused))
		;
	u_say("%u allocations, %u requests are rejected", n - 1, refused);
	h_expect(refused > 20, "only %u requests are rejected", refused);
	h_cm_request();
	h_settle();
	h_serve(H_READ_4K);
	h_serve_end();
}

/* The same over iWARP, where a connection has memory regions. */
void h_request_without_regions(void)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
	h_request_without_memory();
}

/* Starts an RPC for which the client connects. The n-th allocation fails. */
static bool connect(unsigned int n)
{
	struct h_rpc *rpc = h_rpc_new(H_READ_4K);
	bool reached;

	h_failing_allocation = n;
	h_rpc_start(rpc, 0);
	h_live(0);
	reached = !h_failing_allocation;
	h_failing_allocation = 0;
	if (!h_peer_call(rpc->xid))
		h_live(PATIENCE);
	h_expect(h_peer_call(rpc->xid), "allocation %u: the call is not sent", n);
	h_answer_call(h_peer_call(rpc->xid), &remote);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	return reached;
}

/*
 * A client connects again, whichever allocation fails. It has kept no memory of the connection
 * before, which was idle for long.
 */
void h_connect_without_memory(void)
{
	unsigned int n = 0, connections;
	bool reached;

	h_begin();
	h_connect();
	do {
		h_live(400000);
		h_expect(!h_dma_live(), "the idle connection is not closed");
		connections = h_connections;
		reached = connect(++n);
		h_expect(h_connections > connections, "no connection is made");
	} while (reached);
	u_say("%u allocations", n - 1);
	h_expect(n > 20, "only %u allocations", n - 1);
	h_check_breaches();
	h_end();
}

/* The same in version two, where a connection has a session. */
void h_connect_without_memory_two(void)
{
	h_answer.two = true;
	h_connect_without_memory();
}

/* A client needs no contiguous memory for its connection, nor for a call and its chunks. */
void h_fragmented_calls(void)
{
	unsigned int kind;

	h_contiguous = H_FRAGMENTED;
	h_begin();
	h_connect();
	for (kind = 0; kind < H_KINDS; kind++) {
		struct h_rpc *rpc = h_rpc_new(kind);

		h_rpc_run(rpc, &remote);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_contiguous = 0;
	h_end();
}

/* Nor does a server. */
void h_fragmented_served(void)
{
	unsigned int i;

	h_contiguous = H_FRAGMENTED;
	h_serve_begin();
	h_allocations = (struct h_allocations) {};
	for (i = 0; i < 2 * H_KINDS; i++)
		h_serve(i % H_KINDS);
	h_contiguous = 0;
	h_serve_end();
}

/* The most calls of a connection; connections, and those of them that stay. */
#define MOST	16384
#define MANY	600
#define STAY	5

/* Serves a call over a connection that may have the most calls. */
static void serve_most(void)
{
	h_load();
	h_limits_next()->max_qp_wr = 4 * MOST;
	h_tune("max_requests", MOST);
	h_serve_start(1);
	h_cm_request();
	h_settle();
	h_expect(h_connections == 1, "a connection with %u calls is refused", MOST);
	h_serve(H_READ_4K);
}

/* Nor does a connection with the most calls. */
void h_fragmented_most(void)
{
	h_contiguous = H_FRAGMENTED;
	serve_most();
	h_contiguous = 0;
	h_serve_end();
}

static void put_under_lock(void *xprt)
{
	static DEFINE_SPINLOCK(client_lock);

	spin_lock(&client_lock);
	svc_xprt_put(xprt);
	spin_unlock(&client_lock);
}

/* nfsd may be the last user of a transport, and hold a spinlock then. */
void h_fragmented_last(void)
{
	struct svc_xprt *xprt;

	serve_most();
	xprt = h_serve_connection();
	svc_xprt_get(xprt);
	h_cm_disconnected();
	h_settle();
	h_spawn("nfsd ends a session", put_under_lock, xprt);
	h_settle();
	h_serve_end();
}

/*
 * Nor do the tables of all connections. The latest connections are served, and shown in the file
 * `connections`.
 */
void h_fragmented_many(void)
{
	static struct h_qp *qps[MANY] H_SCRATCH;
	unsigned int i, shown = 0;
	const char *line;

	h_load();
	h_tune("max_requests", 4);
	h_serve_start(1);
	h_contiguous = 1;
	for (i = 0; i < MANY; i++) {
		h_cm_request();
		h_settle();
		h_expect(h_connections == i + 1, "connection %u is refused", i);
		svc_xprt_set_valid(h_serve_connection());
		qps[i] = h_qp;
	}
	h_serve(H_READ_4K);
	for (i = 0; i < MANY - STAY; i++)
		h_cm_report(qps[i], RDMA_CM_EVENT_DISCONNECTED);
	h_settle();
	for (line = h_file_read("connections"); (line = strstr(line, "role=server")); line++)
		shown++;
	h_expect(shown == STAY, "%u connections of %u are shown", shown, STAY);
	h_contiguous = 0;
	h_serve_end();
}

/*
 * Write chunks and a reply chunk, and the segments of each, of which only the first has bytes.
 * Together they take more than eight pages.
 */
#define CHUNKS		9
#define SEGMENTS	233
#define XID		0x4712

/*
 * Nor does a server need it for the chunks of the longest call, from a requester whose chunks have
 * many segments. A device with few SGEs permits that many for payloads of 4 MiB. The header of the
 * reply would have all of them, so the answer is an error.
 */
void h_fragmented_chunks(void)
{
	static u8 message[40000] H_SCRATCH;
	const u32 head[] = { XID, 1, 1, 0, 0 };
	const u32 call[] = { XID, 0, 2, 100003, 3, H_INLINE, 0, 0, 0, 0 };
	struct h_writer out = { message };
	unsigned int i;

	h_provokes = true;
	h_serve_size = 4 << 20;
	h_load();
	h_limits_next()->max_send_sge = 6;
	h_tune("max_req_size", 65536);
	h_serve_start(1);
	h_cm_request();
	h_settle();
	h_ready = true;
	h_serve(H_INLINE);
	for (i = 0; i < ARRAY_SIZE(head); i++)
		h_put(&out, head[i]);
	for (i = 0; i < CHUNKS; i++) {
		/* The write list ends before the reply chunk. */
		if (i == CHUNKS - 1)
			h_put(&out, 0);
		h_put(&out, 1);
		h_put(&out, SEGMENTS);
		h_put(&out, 0x1234);
		h_put(&out, 4);
		out.len += SEGMENTS * 16 - 8;
	}
	for (i = 0; i < ARRAY_SIZE(call); i++)
		h_put(&out, call[i]);
	for (i = 0; i < h_kinds[H_INLINE].call_head / 4; i++)
		h_put(&out, XID);
	h_contiguous = H_FRAGMENTED;
	h_arrive(h_qp, message, out.len, 0);
	h_live(0);
	h_contiguous = 0;
	h_expect(h_qp && !h_qp->broken, "the connection is closed");
	h_expect(h_errors == 1, "%u errors answer the call", h_errors);
	h_serve(H_INLINE);
	h_serve_end();
}

/* Regions of a device that has few of them, more calls than that, and milliseconds they wait. */
#define REGIONS	40
#define CALLS	100
#define RETRY	300

/*
 * A device has fewer regions than there are calls. The others wait until a region is free. Each
 * call is sent once, and none over another connection.
 */
void h_regions_few(void)
{
	struct h_rpc *rpcs[CALLS];
	unsigned int i, sent = 0;

	h_most_regions = REGIONS;
	h_begin();
	h_connect();
	for (i = 0; i < CALLS; i++) {
		rpcs[i] = h_rpc_new(i % 2 ? H_READ_4K : H_WRITE_4K);
		h_rpc_start(rpcs[i], 0);
		sent += !!h_peer_call(rpcs[i]->xid);
	}
	h_expect(sent <= REGIONS, "%u calls are sent with %u regions", sent, REGIONS);
	for (i = 0; i < CALLS; i++) {
		if (!h_peer_call(rpcs[i]->xid))
			h_live(RETRY);
		h_expect(h_peer_call(rpcs[i]->xid), "call %u waits for ever", i);
		h_answer_call(h_peer_call(rpcs[i]->xid), i % 3 ? &plain : &remote);
		h_live(0);
		h_rpc_check(rpcs[i]);
		h_expect(!h_peer_call(rpcs[i]->xid), "call %u is sent twice", i);
	}
	for (i = 0; i < CALLS; i++) {
		h_expect(rpcs[i]->encodings == 1, "call %u is encoded %u times", i,
			 rpcs[i]->encodings);
		h_rpc_free(rpcs[i]);
	}
	h_check_calm();
	h_expect(h_connections == 1, "%u connections are made", h_connections);
	h_end();
}
