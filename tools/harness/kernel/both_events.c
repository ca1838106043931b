// SPDX-License-Identifier: GPL-2.0
/*
 * The events that may occur while the module's client calls the module's server, and the conditions
 * that must hold after each event. SL is a side, c or s, and the number of its connection.
 *
 *   cN		RPC N is called
 *   xSL	the next work request of a send queue reaches the peer
 *   sSL	the next completion of a send queue is handled
 *   rSL	the next message that has arrived is handled
 *   nSL	a side is told that the connection has ended
 *   ySL	a side sends, and nothing acknowledges that: its queue pair fails
 *   fSL	the completions of a queue pair that has failed are handled
 *   mS		the next event of the connection manager is handled
 *   gN		the procedure of RPC N ends
 *   bS		a device returns
 *   t		time passes
 *
 * and the faults:
 *
 *   D		the connection is lost
 *   LS		a device is removed
 *   KN		RPC N is killed
 *   EN		the reply to RPC N times out, and SUNRPC encodes the call again
 */
#include "both.h"

/* What `t` lets pass, in milliseconds, and the most times that it may occur. */
#define WHILE	3000
#define MOST	6

static const struct h_pairing *pairing;
static struct h_rpc *rpcs[H_BOTH_RPCS];
static bool called[H_BOTH_RPCS], killed[H_BOTH_RPCS], again[H_BOTH_RPCS];
static unsigned int faults, times, early;

static char *put(char (*names)[H_EVENT_NAME], unsigned int *n, char letter, char a, char b)
{
	char *name = names[(*n)++];

	h_expect(*n <= H_EVENTS, "too many events may occur");
	name[0] = letter;
	name[1] = a;
	name[2] = b;
	name[3] = 0;
	return name;
}

static const char sides[] = "cs";

/* Whether the head of a queue is there for a choice of the driver. */
static bool is_choice(const struct h_wr *wr)
{
	return wr && (!pairing->flushes || wr->status != IB_WC_WR_FLUSH_ERR);
}

static bool has_flushed(struct h_qp *qp)
{
	return pairing->flushes && qp->broken &&
	       (h_next_signalled(qp) || !list_empty(&qp->arrived));
}

static bool may_to(char event, struct h_link *link, enum h_side side)
{
	struct h_qp *qp = link->qp[side];

	if (event == 'n')
		return h_link_untold(link, side);
	if (!qp || !link->made)
		return false;
	switch (event) {
	case 'x':
		return h_link_open(link) && h_qp_awaiting(qp);
	case 's':
		return is_choice(h_next_signalled(qp));
	case 'r':
		return is_choice(list_first_entry_or_null(&qp->arrived, struct h_wr, list));
	case 'y':
		return !h_link_open(link) && !qp->broken && h_qp_awaiting(qp);
	case 'f':
		return has_flushed(qp);
	default:
		return false;
	}
}

static void happen_to(char event, struct h_link *link, enum h_side side)
{
	struct h_qp *qp = link->qp[side];

	switch (event) {
	case 'n':
		return h_link_tell(link, side);
	case 'x':
		return h_link_step(link, side);
	case 's':
		h_complete_send(qp);
		return;
	case 'r':
		h_complete_receive(qp);
		return;
	case 'y':
		return h_qp_unacknowledged(qp);
	case 'f':
		while (link->qp[side] && (h_complete_send(qp) || h_complete_receive(qp)))
			;
		return;
	}
}

/* Returns the last connection if messages pass over it, or NULL. */
static struct h_link *open_link(void)
{
	struct h_link *last = &h_links[h_link_count - 1];

	return h_link_count && h_link_open(last) ? last : NULL;
}

static bool may_fail(char fault)
{
	return faults < pairing->faults && strchr(pairing->may, fault);
}

static bool may_rpc(char event, unsigned int i)
{
	const struct h_rpc *rpc = rpcs[i];

	switch (event) {
	case 'c':
		return !called[i] &&
		       (!i || called[i - 1] || pairing->kinds[i] != pairing->kinds[i - 1]);
	case 'g':
		return h_execution_waits(rpc->seed);
	case 'K':
		return may_fail('K') && called[i] && !killed[i] && !rpc->done && rpc->task;
	case 'E':
		return may_fail('E') && called[i] && !killed[i] && !again[i] && h_rpc_waits(rpc);
	default:
		return false;
	}
}

static void happen_rpc(char event, unsigned int i)
{
	switch (event) {
	case 'c':
		called[i] = true;
		return h_rpc_start(rpcs[i], 0);
	case 'g':
		return h_execution_go(rpcs[i]->seed);
	case 'K':
		/* Its memory is invalidated before the server has replied. */
		h_links_may_break = true;
		faults++;
		killed[i] = true;
		return h_rpc_cancel(rpcs[i]);
	case 'E':
		faults++;
		again[i] = true;
		return h_rpc_time_out(rpcs[i]);
	}
}

static bool may_side(char event, enum h_side side)
{
	switch (event) {
	case 'b':
		return !h_devices[side].present;
	case 'L':
		return may_fail('L') && h_devices[side].present;
	case 'm':
		return h_cm_event_waits(&h_devices[side].ib);
	default:
		return false;
	}
}

static void happen_side(char event, enum h_side side)
{
	switch (event) {
	case 'b':
		return h_spawn("a device", h_device_add, &h_devices[side]);
	case 'L':
		faults++;
		return h_spawn("a removal", h_device_remove, &h_devices[side]);
	case 'm':
		return h_cm_handle_event(&h_devices[side].ib);
	}
}

static bool all_ended(void)
{
	unsigned int i;

	for (i = 0; i < pairing->count; i++)
		if (!called[i] || !rpcs[i]->released)
			return false;
	return true;
}

/* The events of queue pairs. Returns the number of those found so far. */
static unsigned int of_links(char (*names)[H_EVENT_NAME], unsigned int n)
{
	unsigned int i, side;
	const char *event;

	for (i = 0; i < h_link_count; i++)
		for (side = 0; side < H_SIDES; side++)
			for (event = "xsrnyf"; *event; event++)
				if (may_to(*event, &h_links[i], side))
					put(names, &n, *event, sides[side], '0' + i);
	return n;
}

static unsigned int of_rpcs(char (*names)[H_EVENT_NAME], unsigned int n)
{
	const char *event;
	unsigned int i;

	for (i = 0; i < pairing->count; i++)
		for (event = "cgKE"; *event; event++)
			if (may_rpc(*event, i))
				put(names, &n, *event, '0' + i, 0);
	return n;
}

static unsigned int of_sides(char (*names)[H_EVENT_NAME], unsigned int n)
{
	const char *event;
	unsigned int side;

	for (side = 0; side < H_SIDES; side++)
		for (event = "bLm"; *event; event++)
			if (may_side(*event, side))
				put(names, &n, *event, sides[side], 0);
	return n;
}

/*
 * An order ends with its RPCs, and what is left is delivered at once. The server may still be at
 * work for an RPC that was killed.
 */
static bool is_over(unsigned int events)
{
	return all_ended() && (!events || !h_links_may_break);
}

/* Whether time passes: while nothing else happens, or a few times before that. */
static bool may_pass(unsigned int others)
{
	return times < MOST && !all_ended() && (!others || early < pairing->early);
}

static unsigned int both_events(char names[H_EVENTS][H_EVENT_NAME])
{
	unsigned int n = of_sides(names, of_rpcs(names, of_links(names, 0))), i, others = 0;

	for (i = 0; i < n; i++)
		others += names[i][0] >= 'a';
	if (may_fail('D') && open_link() && !all_ended())
		put(names, &n, 'D', 0, 0);
	if (may_pass(others))
		put(names, &n, 't', 0, 0);
	return is_over(n) ? 0 : n;
}

static void happen(const char *name, unsigned int others)
{
	unsigned int side = name[1] == 's';

	switch (name[0]) {
	case 'D':
		faults++;
		open_link()->cut = true;
		return;
	case 't':
		times++;
		early += others > 1;
		return h_pass(WHILE);
	case 'c':
	case 'g':
	case 'K':
	case 'E':
		return happen_rpc(name[0], name[1] - '0');
	case 'b':
	case 'L':
	case 'm':
		return happen_side(name[0], side);
	default:
		return happen_to(name[0], &h_links[name[2] - '0'], side);
	}
}

static void check(void)
{
	unsigned int i;

	h_check_breaches();
	/* The server cannot tell a lost connection from one that the requester ends. */
	h_requester_breach = faults || early ? "transfer_lost" : NULL;
	h_check_requester();
	if (faults || early)
		return;
	h_expect(!h_disconnects, "the connection is closed");
	h_expect(h_link_count <= 1, "a second connection is made");
	for (i = 0; i < h_link_count; i++)
		h_expect(!h_links[i].made || h_link_open(&h_links[i]), "the connection is closed");
}

static void both_event(const char *name)
{
	char names[H_EVENTS][H_EVENT_NAME];
	unsigned int n = both_events(names), i;

	for (i = 0; i < n && strcmp(names[i], name); i++)
		;
	h_expect(i < n, "event %s cannot occur now", name);
	happen(name, n);
	h_settle();
	check();
}

static void both_begin(const void *setting)
{
	unsigned int i;

	pairing = setting;
	h_both_begin(pairing);
	h_clnt.cl_noretranstimeo = !strchr(pairing->may ?: "", 'E');
	h_both_connect();
	h_executions_wait = pairing->procedures;
	h_flushes_wait = pairing->flushes;
	h_cm_waits = pairing->unhurried;
	for (i = 0; i < pairing->count; i++)
		rpcs[i] = h_rpc_new(pairing->kinds[i]);
}

/* Ends all waiting, and brings the devices back. */
static void push(void)
{
	unsigned int i;

	h_executions_wait = h_flushes_wait = h_cm_waits = false;
	for (i = 0; i < pairing->count; i++) {
		if (!called[i])
			happen_rpc('c', i);
		if (h_execution_waits(rpcs[i]->seed))
			h_execution_go(rpcs[i]->seed);
	}
	for (i = 0; i < H_SIDES; i++)
		if (!h_devices[i].present)
			happen_side('b', i);
	h_both_live(0);
}

/* Milliseconds within which each RPC ends after the last fault, in steps. */
#define STEP	5000
#define STEPS	40

static void both_end(void)
{
	unsigned int i;

	push();
	for (i = 0; i < STEPS && !all_ended(); i++)
		h_both_live(STEP);
	for (i = 0; i < pairing->count; i++) {
		if (!rpcs[i]->released) {
			h_print_sleepers();
			u_fail("hang: call %u does not end", i);
		}
		h_both_check_rpc(rpcs[i], killed[i]);
	}
	check();
	if (!h_quiet)
		u_say("%u connections, %u calls came again", h_connections, h_replays);
	h_both_end();
	for (i = 0; i < pairing->count; i++)
		h_rpc_free(rpcs[i]);
}

static u64 both_look(void)
{
	u64 hash = h_mix(h_both_look(), faults << 16 | times << 8 | early);
	unsigned int i;

	for (i = 0; i < pairing->count; i++) {
		const struct h_rpc *rpc = rpcs[i];

		hash = h_mix(hash, called[i] | killed[i] << 1 | again[i] << 2 | rpc->done << 3 |
				   rpc->released << 4 | h_rpc_waits(rpc) << 5);
		hash = h_mix(hash, rpc->status) + rpc->sum;
	}
	for (i = 0; i < H_SIDES; i++)
		hash = h_mix(hash, h_devices[i].present);
	return hash;
}

const struct h_rules h_both_rules = {
	.begin = both_begin, .events = both_events, .event = both_event, .end = both_end,
	.look = both_look,
};
