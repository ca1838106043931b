// SPDX-License-Identifier: GPL-2.0
/* Events of the fuzzer that either role may meet: of the device, of connections and of time. */
#include "fuzz.h"

void h_fuzz_receive(void)
{
	h_event("a Receive completes");
	if (h_qp)
		h_complete_receive(h_qp);
}

void h_fuzz_send(void)
{
	h_event("a work request completes");
	if (h_qp)
		h_complete_send(h_qp);
}

void h_fuzz_all(void)
{
	h_event("all completes");
	h_live(0);
}

void h_fuzz_disconnect(void)
{
	h_event("the peer disconnects");
	h_cm_disconnected();
}

void h_fuzz_move(void)
{
	h_event("an address moves");
	h_cm_address_changed();
}

void h_fuzz_pass(void)
{
	static const unsigned int times[] = { 1, 100, 1100, 2100, 5000, 11000, 31000, 61000 };
	unsigned int ms = times[h_input_below(ARRAY_SIZE(times))];

	h_event("%u ms pass", ms);
	h_pass(ms);
}

/* Whether the device is coming or going; whether it came while memory was scarce. */
static bool changing, poor;

static void change_device(void *unused)
{
	if (h_devices[0].present)
		h_device_remove(NULL);
	else
		h_device_add(NULL);
	changing = false;
}

/* Removes the device, or adds it again when it is gone. */
void h_fuzz_remove(void)
{
	bool there = h_devices[0].present;

	if (changing)
		return;
	h_event("the device %s", there ? "goes" : "comes");
	changing = true;
	poor = !there && (h_failing_allocation || h_refused_size || h_contiguous);
	h_spawn("a change of devices", change_device, NULL);
}

static const enum ib_wc_status errors[] = {
	0, IB_WC_RETRY_EXC_ERR, IB_WC_RNR_RETRY_EXC_ERR, IB_WC_LOC_PROT_ERR, IB_WC_REM_ACCESS_ERR,
};

/* The device or its driver refuses something from now on. */
void h_fuzz_fault(void)
{
	u8 which = h_input_below(8), how = h_input_byte();

	h_event("fault %u, %u", which, how);
	switch (which) {
	case 0:
		h_faults.modify = how & 1 ? -EIO : 0;
		break;
	case 1:
		h_faults.marker = how & 1;
		break;
	case 2:
		h_faults.receives = how & 1;
		break;
	case 3:
		h_faults.invalidation = how & 1;
		break;
	case 4:
		h_faults.write = errors[how % ARRAY_SIZE(errors)];
		break;
	case 5:
		h_faults.identifier = how & 1 ? -ENOMEM : 0;
		h_faults.listen = how & 2 ? -EADDRNOTAVAIL : 0;
		break;
	case 6:
		h_most_regions = how % 16;
		break;
	case 7:
		h_most_elements = how & 1 ? 32u << (how >> 4) : 0;
		break;
	}
}

/* Memory and mappings are scarce from now on. */
void h_fuzz_memory(void)
{
	u8 which = h_input_below(4), how = h_input_byte();

	h_event("shortage %u, %u", which, how);
	switch (which) {
	case 0:
		h_failing_allocation = how;
		break;
	case 1:
		h_refused_mappings = how;
		break;
	case 2:
		h_contiguous = how & 1 ? H_FRAGMENTED : 0;
		h_no_long_room = how & 2;
		break;
	case 3:
		h_refused_size = how & 1 ? 32u << (how >> 4) : 0;
		break;
	}
}

/* A queue pair is slow, or fails. */
void h_fuzz_queue(void)
{
	u8 how = h_input_below(6);

	h_event("the queue pair: %u", how);
	if (!h_qp)
		return;
	switch (how) {
	case 0:
	case 1:
		h_qp->hold = !h_qp->hold;
		break;
	case 2:
		h_qp->late = !h_qp->late;
		break;
	case 3:
		h_qp_unacknowledged(h_qp);
		break;
	case 4:
		h_qp_access_error(h_qp);
		break;
	case 5:
		h_qp_error(h_qp);
		break;
	}
	h_qp_execute(h_qp);
}

/* Changes what the peer says when a connection is made. */
void h_fuzz_answer(void)
{
	u8 flags = h_input_byte(), i;

	h_event("the peer's answer: %#x", flags);
	h_answer.refuse = flags & 1;
	h_answer.silent = flags & 2;
	h_answer.remote_invalidation = flags & 4;
	h_answer.two = flags & 8;
	h_answer.bare = flags & 16;
	h_answer.reads = flags & 32 ? 1 : 16;
	h_answer.no_reads = flags & 64;
	h_answer.send = 1024 * h_input_below(9);
	h_answer.receive = 1024 * (1 + h_input_below(8));
	h_answer.raw = flags & 128 ? h_input_below(sizeof(h_answer.bytes) + 1) : 0;
	for (i = 0; i < h_answer.raw; i++)
		h_answer.bytes[i] = h_input_byte();
}

void h_fuzz_immediate(void)
{
	h_event("an immediate");
	if (h_qp && !h_qp->broken && !list_empty(&h_qp->rq))
		h_arrive_immediate(h_qp, h_input_byte());
}

/* A user reads the files of debugfs and mountstats. */
void h_fuzz_look(void)
{
	static const char *const names[] = {
		"connections", "breaches", "requester_breaches", "peers",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		h_event("  %s: %s", names[i], h_file_read(names[i]) ?: "");
	if (h_xprt)
		h_event("  mountstats: %s; callbacks of %zu bytes", h_statistics(),
			h_xprt->ops->bc_maxpayload ? h_xprt->ops->bc_maxpayload(h_xprt) : 0);
}

/* The peer asks for Receives of another size. */
void h_fuzz_ask(void)
{
	u32 size = h_input_number();

	h_event("the peer asks for Receives of %u bytes", size);
	if (h_qp)
		h_two_ask(size);
}

/* The time in seconds in which a device can be removed. */
#define PATIENCE	60

void h_fuzz_mend(void)
{
	unsigned int i;

	memset(&h_faults, 0, sizeof(h_faults));
	h_failing_allocation = 0;
	h_refused_mappings = 0;
	h_refused_size = 0;
	h_most_regions = 0;
	h_most_elements = 0;
	h_contiguous = 0;
	h_no_long_room = false;
	h_answer = (struct h_answer) {
		.send = 4096, .receive = 4096, .remote_invalidation = true, .two = h_fuzz_two,
	};
	h_alter = NULL;
	h_fuzz_mend_steps();
	h_fuzz_mend_limits();
	h_slow_mapping = false;
	while (h_map_waits()) {
		h_map_go();
		h_settle();
	}
	h_live(0);
	for (i = 0; changing && i < PATIENCE; i++)
		h_live(1000);
	if (changing)
		h_print_sleepers();
	h_expect(!changing, "hang: the device cannot be added or removed");
	/* The module does not use a device for which it had no memory. */
	if (poor)
		h_spawn("the device goes", h_device_remove, NULL);
	h_live(1000);
	if (!h_devices[0].present)
		h_spawn("the device comes", h_device_add, NULL);
	h_settle();
}
