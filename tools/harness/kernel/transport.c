// SPDX-License-Identifier: GPL-2.0
/* The module and one transport of its client: creation, checks, destruction. */
#include <linux/in.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xprt.h>
#include <net/net_namespace.h>
#include "harness.h"

/* Functions of the module and of the kernel objects that are linked in. */
int init_module(void);
void cleanup_module(void);
void wait_bit_init(void);
int rpc_init_mempool(void);
void radix_tree_init(void);
void xprt_force_disconnect_in_sunrpc(struct rpc_xprt *xprt) __asm__("__real_xprt_force_disconnect");
void count_force_disconnect(struct rpc_xprt *xprt) __asm__("__wrap_xprt_force_disconnect");

struct rpc_xprt *h_xprt;
bool h_ready;
unsigned int h_disconnects;
static unsigned long live_before;

/*
 * Counts a call of the module and passes it on to SUNRPC. The call names no connection: without a
 * lock, and without the send lock, it might concern the next one.
 */
void count_force_disconnect(struct rpc_xprt *xprt)
{
	if (!h_holds_spinlock() && !test_bit(XPRT_LOCKED, &xprt->state))
		h_violation("a connection is closed that may have been replaced");
	h_disconnects++;
	xprt_force_disconnect_in_sunrpc(xprt);
}

static void run_init(void *result)
{
	*(int *)result = init_module();
}

static void run_exit(void *unused)
{
	cleanup_module();
}

struct rpc_xprt *h_xprt_create(enum xprtsec_policies policy)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(20049),
		.sin_addr.s_addr = htonl(0x0a000002),
	};
	struct xprt_create args = {
		.ident = XPRT_TRANSPORT_RDMA,
		.net = &init_net,
		.dstaddr = (struct sockaddr *)&address,
		.addrlen = sizeof(address),
		.servername = "server",
		.xprtsec.policy = policy,
	};

	return xprt_create_transport(&args);
}

/* The transports of the mount. */
static LIST_HEAD(transports);

void h_make_xprt(void *unused)
{
	struct rpc_xprt *xprt = h_xprt_create(RPC_XPRTSEC_NONE);

	h_expect(!IS_ERR(xprt), "no transport: error %ld", PTR_ERR(xprt));
	xprt->main = 1;
	INIT_LIST_HEAD(&transports);
	list_add(&xprt->xprt_switch, &transports);
	h_xprt = xprt;
}

int h_insmod(void)
{
	int error = -1;

	wait_bit_init();
	radix_tree_init();
	h_work_init();
	h_device_init();
	h_expect(!rpc_init_mempool(), "SUNRPC does not start");
	live_before = u_live();
	u_mark();
	h_spawn("insmod", run_init, &error);
	h_settle();
	return error;
}

void h_load(void)
{
	int error = h_insmod();

	h_expect(!error, "the module does not start: %d", error);
	h_spawn("a device", h_device_add, NULL);
	h_settle();
}

void h_mount(void)
{
	h_spawn("mount", h_make_xprt, NULL);
	h_settle();
	h_expect(h_xprt, "there is no transport");
	h_ready = true;
	h_wrap_operations(h_xprt);
	h_client_init(h_xprt);
}

void h_begin(void)
{
	h_load();
	h_mount();
}

/* Runs a first call: it establishes the connection, and its reply grants the credits. */
void h_connect(void)
{
	static const struct h_reply plain;
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
	h_expect(h_qp && h_window() == h_grant, "the first reply leaves %u credits", h_window());
}

static void put_xprt(void *unused)
{
	xprt_put(h_xprt);
}

void h_check_nothing_left(void)
{
	if (h_sleepers()) {
		h_print_sleepers();
		u_fail("hang: %u threads sleep endlessly", h_sleepers());
	}
	h_expect(!h_dma_live(), "leak: %u DMA mappings", h_dma_live());
	h_expect(!h_objects(), "leak: %u objects of the device", h_objects());
	h_expect(!h_module_references(), "leak: %d references to the module",
		 h_module_references());
	if (u_live() != live_before) {
		u_print_leaks();
		u_fail("leak: %lu pieces of memory", u_live() - live_before);
	}
}

void h_unload(void)
{
	h_ready = false;
	h_tasks_awaited = 0;
	h_spawn("rmmod", run_exit, NULL);
	h_settle();
	/* A preempted task may have the rest of a function of the module to run. */
	h_expect(h_tasks_awaited || !h_rust,
		 "violation: the module goes while a task may be in it");
	h_check_nothing_left();
}

void h_umount(void)
{
	h_spawn("umount", put_xprt, NULL);
	h_settle();
	h_pass(10000);
	h_xprt = NULL;
}

void h_end(void)
{
	h_peer_drop_all();
	h_umount();
	h_unload();
}

/*
 * Returns a counter of a file of the module with breaches, or the sum of all if `name` is NULL.
 * Without the file the result is 0.
 */
static unsigned long breaches(const char *file, const char *name)
{
	const char *text = h_file_read(file), *line;
	unsigned long sum = 0, n;

	for (line = text; line && *line; line = strchr(line, '\n') + 1) {
		const char *space = strchr(line, ' ');

		h_expect(space, "a line of the file %s has no number: %s", file, line);
		if (name && (strlen(name) != space - line || strncmp(line, name, space - line)))
			continue;
		for (n = 0, space++; *space >= '0' && *space <= '9'; space++)
			n = n * 10 + *space - '0';
		sum += n;
	}
	return sum;
}

unsigned long h_breaches(const char *name)
{
	return breaches("breaches", name);
}

const char *h_requester_breach;

/* Ends the program if the module has counted a breach but that of this name; NULL: any. */
static void check_breaches(const char *file, const char *name)
{
	if (breaches(file, NULL) == (name ? breaches(file, name) : 0))
		return;
	u_say("%s", h_file_read(file));
	u_fail("the module counts in %s a breach of the protocol that did not occur", file);
}

void h_check_breaches(void)
{
	check_breaches("breaches", NULL);
}

void h_check_requester(void)
{
	if (!h_provokes && !h_fuzzed)
		check_breaches("requester_breaches", h_requester_breach);
}

void h_expect_breach(void)
{
	/* Whether the module's own client commits it depends on the order of events. */
	h_expect(!h_requester_breach || h_both ||
		 breaches("requester_breaches", h_requester_breach),
		 "the server does not count the breach %s", h_requester_breach);
}

/* Ends the program if the module has counted a breach or ended the connection. */
void h_check_calm(void)
{
	h_check_breaches();
	h_expect(!h_disconnects, "the connection is closed");
}

u32 h_window(void)
{
	return h_xprt->cwnd >> RPC_CWNDSHIFT;
}

u32 h_window_used(void)
{
	return h_xprt->cong >> RPC_CWNDSHIFT;
}
