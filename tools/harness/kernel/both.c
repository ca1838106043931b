// SPDX-License-Identifier: GPL-2.0
/*
 * The module's client and the module's server, in one program. They share the module's object, as
 * on a host that mounts its own export, but each has a device of its own.
 */
#include <linux/mm.h>
#include "both.h"

/* Few slots keep the number of states small. */
#define SLOTS	4

/* The largest payload of a setting's RPCs, or a page. */
static u32 largest(const struct h_pairing *pairing)
{
	u32 i, len = PAGE_SIZE;

	for (i = 0; i < pairing->count; i++) {
		const struct h_kind *kind = &h_kinds[pairing->kinds[i]];

		len = max3(len, kind->send_pages, kind->receive_pages);
		len = max(len, round_up(kind->call_head, PAGE_SIZE));
	}
	return len;
}

/* A process that runs orders has little memory, because each child copies what it writes to. */
void h_both_begin(const struct h_pairing *pairing)
{
	h_serve_size = largest(pairing);
	h_region_depth = pairing->count ? 32 : h_region_depth;
	h_both = true;
	h_slots = SLOTS;
	h_load();
	h_tune("max_requests", SLOTS);
	h_spawn("the server's device", h_device_add, &h_devices[H_SERVER]);
	h_settle();
	if (pairing->version)
		h_tune_text("rdma_version", pairing->version == 1 ? "1" : "2");
	/* Each call may come again while its first execution waits. */
	h_serve_start(2 * pairing->count);
	h_mount();
}

/* Lets one event of a queue pair happen. Returns false if there is none. */
static bool deliver(struct h_link *link, enum h_side side)
{
	struct h_qp *qp = link->qp[side];

	if (h_link_untold(link, side)) {
		h_link_tell(link, side);
		return true;
	}
	if (!qp)
		return false;
	if (h_link_open(link) && h_qp_awaiting(qp)) {
		h_link_step(link, side);
		return true;
	}
	return h_complete_send(qp) || h_complete_receive(qp);
}

static bool deliver_any(void)
{
	unsigned int i, side;

	for (i = 0; i < h_link_count; i++)
		for (side = 0; side < H_SIDES; side++)
			if (deliver(&h_links[i], side))
				return true;
	return false;
}

void h_both_live(unsigned int ms)
{
	for (;;) {
		h_settle();
		if (deliver_any())
			continue;
		if (!ms)
			return;
		h_pass(min(ms, 100u));
		ms -= min(ms, 100u);
	}
}

void h_both_check_rpc(const struct h_rpc *rpc, bool killed)
{
	u32 executed = h_executed(rpc->seed);

	h_expect(rpc->released, "%s: the RPC does not end", rpc->kind->name);
	if (killed && rpc->status)
		return;
	h_expect(!rpc->status, "%s: the RPC ends with %d", rpc->kind->name, rpc->status);
	h_expect(executed, "violation: %s: an RPC ends that was not executed", rpc->kind->name);
	h_expect(rpc->serial == executed,
		 "violation: %s: the answer is that of execution %u, not of %u", rpc->kind->name,
		 rpc->serial, executed);
	h_expect(rpc->received == rpc->kind->receive_pages, "violation: %s: %u bytes were read",
		 rpc->kind->name, rpc->received);
}

void h_both_end(void)
{
	h_umount();
	h_both_live(0);
	h_serve_end();
}

/* Runs a first call: it establishes the connection, and its reply grants the credits. */
void h_both_connect(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, 0);
	h_both_live(0);
	h_both_check_rpc(rpc, false);
	h_rpc_free(rpc);
}

static void each_kind(unsigned int version)
{
	const struct h_pairing pairing = {
		.count = 1, .kinds = { H_READ_1M_SCATTERED }, .version = version,
	};
	unsigned int kind;

	h_both_begin(&pairing);
	for (kind = 0; kind < H_KINDS; kind++) {
		struct h_rpc *rpc = h_rpc_new(kind);

		h_rpc_start(rpc, 0);
		h_both_live(0);
		h_both_check_rpc(rpc, false);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_expect(!h_replays, "%u calls came twice", h_replays);
	h_expect(h_connections == 1, "%u connections were made", h_connections);
	h_both_end();
}

/* One RPC of each kind. */
void h_both_kinds(void)
{
	each_kind(1);
}

void h_both_kinds_two(void)
{
	each_kind(2);
}
