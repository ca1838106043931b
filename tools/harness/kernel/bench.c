// SPDX-License-Identifier: GPL-2.0
/*
 * Repeats each kind of RPC. u_count_begin() and u_count_end() mark the counted part for callgrind.
 * Payloads are transferred, but not compared.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include "harness.h"

#define WARM 20	/* RPCs before the count: they make all allocations that are kept */
/* The same for the server, whose inline replies share a completion: one in 150 has it. */
#define WARM_SERVED 512

struct benchmark {
	const char *name;
	enum h_kind_number kind;
	enum h_invalidate how;
	bool two;	/* the peer supports version two; the kernel's own module does not */
	bool cached;	/* the payload lies in the page cache, as that of a file does */
	u32 together;	/* the calls whose payloads are being read at one time; 0: one */
};

static const struct benchmark benchmarks[] = {
	{ "inline", H_INLINE },
	{ "read_4k", H_READ_4K, H_INV_OWN },
	{ "read_4k_local", H_READ_4K },
	{ "write_4k", H_WRITE_4K, H_INV_OWN },
	{ "read_1m_adjacent", H_READ_1M_ADJACENT, H_INV_OWN },
	{ "read_1m_scattered", H_READ_1M_SCATTERED, H_INV_OWN },
	{ "write_1m_adjacent", H_WRITE_1M_ADJACENT, H_INV_OWN },
	{ "write_1m_scattered", H_WRITE_1M_SCATTERED, H_INV_OWN },
	{ "readdir", H_READDIR, H_INV_OWN },
	{ "long_call", H_LONG_CALL, H_INV_OWN },
	{ "inline_two", H_INLINE, .two = true },
	{ "read_4k_two", H_READ_4K, H_INV_OWN, .two = true },
	{ "write_4k_two", H_WRITE_4K, H_INV_OWN, .two = true },
	{ "readdir_two", H_READDIR, H_INV_OWN, .two = true },
};

/* The kinds that the module's server answers. */
static const struct benchmark served[] = {
	{ "srv_getattr", H_INLINE },
	{ "srv_read_4k", H_READ_4K },
	{ "srv_read_4k_cached", H_READ_4K, .cached = true },
	{ "srv_write_4k", H_WRITE_4K },
	{ "srv_read_1m", H_READ_1M_SCATTERED },
	{ "srv_write_1m", H_WRITE_1M_SCATTERED },
	{ "srv_write_1m_64", H_WRITE_1M_SCATTERED, .together = 64 },
	{ "srv_readdir", H_READDIR },
	{ "srv_long_call", H_LONG_CALL },
};

void h_bench_list(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(benchmarks); i++)
		u_say("%s", benchmarks[i].name);
	u_say("callback");
	u_say("abandoned");
	for (i = 0; i < ARRAY_SIZE(served); i++)
		u_say("%s", served[i].name);
}

static void run_kind(const struct benchmark *what, unsigned int count)
{
	struct h_reply how = { .how = what->how };
	struct h_rpc *rpc;

	while (count--) {
		rpc = h_rpc_new(what->kind);
		h_rpc_run(rpc, &how);
		h_rpc_free(rpc);
	}
}

static void run_callbacks(unsigned int count)
{
	while (count--) {
		h_call_back(count);
		h_live(0);
		h_expect(h_callback_answer(), "the callback service received no call");
		h_live(0);
	}
}

/* Runs calls that are killed while they wait for the reply. The reply arrives after that. */
static void run_abandoned(unsigned int count)
{
	while (count--) {
		struct h_rpc *rpc = h_rpc_new(H_READ_4K);
		u32 xid;

		h_rpc_start(rpc, 0);
		xid = rpc->xid;
		h_rpc_cancel(rpc);
		h_live(0);
		h_peer_drop_all();
		h_answer_unknown(xid, 0);
		h_live(0);
		h_rpc_free(rpc);
	}
}

/* Returns the client's benchmark with this name, or NULL. */
static const struct benchmark *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(benchmarks); i++)
		if (!strcmp(name, benchmarks[i].name))
			return &benchmarks[i];
	return NULL;
}

static void run(const char *name, unsigned int count)
{
	const struct benchmark *what = find(name);

	if (what)
		return run_kind(what, count);
	if (!strcmp(name, "callback"))
		return run_callbacks(count);
	if (!strcmp(name, "abandoned"))
		return run_abandoned(count);
	u_fail("there is no kind %s", name);
}

static void serve(enum h_kind_number kind, unsigned int count)
{
	while (count--)
		h_serve(kind);
}

/*
 * Sends calls, none of which is answered before the last one has arrived: the device reads their
 * payloads late.
 */
static void serve_together(enum h_kind_number kind, u32 calls)
{
	u32 xid = 0;

	h_qp->late = true;
	while (calls--) {
		xid = h_ask(kind);
		h_complete_receive(h_qp);
		h_settle();
	}
	h_expect(!h_answered(xid), "a call is answered whose payload was not read");
	h_qp->late = false;
	h_qp_execute(h_qp);
	h_live(0);
	h_expect(h_answered(xid), "a call is not answered");
}

/* Lets the grant grow to the number of calls that are then sent at a time. */
static void warm(const struct benchmark *what)
{
	serve(H_INLINE, WARM_SERVED);
	serve(what->kind, WARM);
	while (h_granted < what->together)
		serve_together(what->kind, h_granted);
	if (what->together)
		serve_together(what->kind, what->together);
}

static void serve_benchmark(const struct benchmark *what, unsigned int count)
{
	if (!what->together)
		return serve(what->kind, count);
	for (; count >= what->together; count -= what->together)
		serve_together(what->kind, what->together);
	h_expect(!count, "the number of RPCs is no multiple of %u", what->together);
}

/* Counts the cost of a kind in the module's server. Returns false if no kind has that name. */
static bool bench_server(const char *name, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(served) && strcmp(name, served[i].name); i++)
		;
	if (i == ARRAY_SIZE(served))
		return false;
	if (served[i].cached)
		h_cached = alloc_page(GFP_KERNEL);
	/* More memory than the calls that are in flight may use half of. */
	atomic_long_set(&_totalram_pages, 1 << 20);
	h_serve_begin();
	warm(&served[i]);
	u_count_begin();
	serve_benchmark(&served[i], count);
	u_count_end();
	return true;
}

int h_bench(const char *name, unsigned int count)
{
	const struct benchmark *what = find(name);

	h_payloads = false;
	if (bench_server(name, count))
		return 0;
	h_answer.two = what && what->two;
	h_begin();
	h_connect();
	if (!strcmp(name, "callback"))
		h_callbacks_begin();
	run(name, WARM);
	u_count_begin();
	run(name, count);
	u_count_end();
	return 0;
}
