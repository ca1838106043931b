// SPDX-License-Identifier: GPL-2.0
/*
 * The events that may occur while a few RPCs are in flight, and the conditions that must hold after
 * each event.
 *
 *   pN	the peer replies to call N, and invalidates nothing
 *   iN	the peer replies to call N, and invalidates the call's own memory region
 *   aN	the peer replies to call N again
 *   cN	call N is cancelled: it leaves SUNRPC's queues
 *   eN	the reply to call N times out, and SUNRPC encodes the call again
 *   fN	SUNRPC frees the buffers of call N, which has its reply or was cancelled
 *   R	the module handles a message that has arrived
 *   S	the module handles the next completion of the send queue
 *   T	time passes, so that the wait for the replies to cancelled calls ends
 *   D	the peer ends the connection
 *   M	the driver ends the mapping of a region, in which it has slept
 */
#include "both.h"

#define SLOTS 8

static const struct h_setting *setting;
static struct h_rpc *rpcs[H_RPCS];
/* The events that have occurred to each RPC. */
static struct past {
	bool replied, again, given_up, anew;
} past[H_RPCS];
/*
 * lost: the connection has ended. excused: an event ends the connection, so that the module may
 * also end it. late: event T has occurred.
 */
static bool lost, excused, late;

static void setting_begin(const void *chosen)
{
	unsigned int i;

	setting = chosen;
	/* Few slots keep the number of states small. */
	h_slots = SLOTS;
	h_slow_mapping = setting->slow;
	h_grant = SLOTS;
	h_begin();
	h_clnt.cl_noretranstimeo = !setting->anew;
	h_connect();
	for (i = 0; i < setting->count; i++) {
		rpcs[i] = h_rpc_new(setting->kinds[i]);
		rpcs[i]->hold = true;
		h_rpc_start(rpcs[i], 0);
		h_expect(setting->slow || h_peer_call(rpcs[i]->xid), "call %u has not been sent",
			 i);
	}
}

static bool can_arrive(unsigned int i)
{
	return h_qp && !h_qp->broken && h_peer_call(rpcs[i]->xid);
}

static bool untouched(unsigned int i)
{
	return !past[i].replied && !past[i].given_up && !past[i].anew;
}

/* Returns whether call `i` may have an event. Of two equal calls, the first call begins. */
static bool has_turn(unsigned int i)
{
	return !i || !untouched(i) || !untouched(i - 1) ||
	       setting->kinds[i] != setting->kinds[i - 1] || setting->how[i] != setting->how[i - 1];
}

/* Returns whether an event, given by its letter, may occur to call `i`. */
static bool may(char event, unsigned int i)
{
	const struct h_rpc *rpc = rpcs[i];
	bool remote = setting->how[i] == H_INV_OWN;

	if (!has_turn(i))
		return false;
	switch (event) {
	case 'p':
		return !past[i].replied && can_arrive(i) && (setting->either || !remote);
	case 'i':
		return !past[i].replied && can_arrive(i) && (setting->either || remote) &&
		       h_call_key(h_peer_call(rpc->xid), 0);
	case 'a':
		return setting->again && past[i].replied && !past[i].again && can_arrive(i);
	case 'c':
		return !past[i].given_up && !rpc->done && rpc->task;
	case 'e':
		return setting->anew && !past[i].anew && !past[i].given_up && h_rpc_waits(rpc);
	case 'f':
		return rpc->held && !rpc->go;
	default:
		return false;
	}
}

/* Returns whether a call has not ended although buf_free() no longer stops it. */
static bool is_waited_for(void)
{
	unsigned int i;

	for (i = 0; i < setting->count; i++)
		if (rpcs[i]->go && !rpcs[i]->released)
			return true;
	return false;
}

static bool may_now(char event)
{
	switch (event) {
	case 'R':
		return !setting->at_once && h_qp && !list_empty(&h_qp->arrived);
	case 'S':
		return h_qp && h_next_signalled(h_qp);
	case 'T':
		/* A completion of a LOCAL_INV comes first: the device needs little time for it. */
		return !late && !may_now('S') && is_waited_for();
	case 'D':
		return setting->disconnect && !lost && h_qp;
	case 'M':
		return h_map_waits();
	default:
		return false;
	}
}

static unsigned int events(char names[H_EVENTS][H_EVENT_NAME])
{
	unsigned int i, n = 0;
	const char *event;

	for (i = 0; i < setting->count; i++) {
		for (event = "piacef"; *event; event++) {
			if (!may(*event, i))
				continue;
			names[n][0] = *event;
			names[n][1] = '0' + i;
			names[n++][2] = 0;
		}
	}
	for (event = "RSTDM"; *event; event++) {
		if (!may_now(*event))
			continue;
		names[n][0] = *event;
		names[n++][1] = 0;
	}
	return n;
}

static void reply(unsigned int i, enum h_invalidate how)
{
	struct h_reply reply = { .how = how, .keep = setting->again && !past[i].replied };

	if (!h_answer_call(h_peer_call(rpcs[i]->xid), &reply)) {
		/* The peer has used a key that was invalidated before. */
		excused = true;
		lost = true;
		h_peer_drop_all();
	} else if (setting->at_once) {
		h_complete_receive(h_qp);
	}
}

static void happen_to(char event, unsigned int i)
{
	switch (event) {
	case 'p':
		reply(i, H_INV_NONE);
		past[i].replied = true;
		break;
	case 'i':
		reply(i, H_INV_OWN);
		past[i].replied = true;
		break;
	case 'a':
		reply(i, H_INV_NONE);
		past[i].again = true;
		break;
	case 'c':
		past[i].given_up = true;
		h_rpc_cancel(rpcs[i]);
		break;
	case 'e':
		/* The module ends the connection before it sends a call again. */
		excused = true;
		past[i].anew = true;
		h_rpc_time_out(rpcs[i]);
		break;
	case 'f':
		h_rpc_let_go(rpcs[i]);
		break;
	}
}

static void happen(char event)
{
	switch (event) {
	case 'R':
		h_complete_receive(h_qp);
		break;
	case 'S':
		h_complete_send(h_qp);
		break;
	case 'T':
		late = true;
		h_pass(2100);
		break;
	case 'D':
		excused = true;
		lost = true;
		h_peer_drop_all();
		h_cm_disconnected();
		break;
	case 'M':
		h_map_go();
		break;
	}
}

static void check(void)
{
	h_check_breaches();
	h_expect(excused || !h_disconnects, "the connection is closed");
	h_expect(h_window() || !h_xprt->cwnd, "the window is zero");
}

static void event(const char *name)
{
	unsigned int i = name[1] - '0';
	bool allowed = name[1] ? i < setting->count && may(name[0], i) : may_now(name[0]);

	h_expect(allowed, "event %s cannot occur now", name);
	if (name[1])
		happen_to(name[0], i);
	else
		happen(name[0]);
	h_settle();
	check();
}

/* --- The end of a setting --- */

static bool all_released(void)
{
	unsigned int i;

	for (i = 0; i < setting->count; i++)
		if (!rpcs[i]->released)
			return false;
	return true;
}

/* Lets the driver end the mapping of all regions. */
static void end_mapping(void)
{
	while (h_map_waits()) {
		h_map_go();
		h_settle();
	}
}

/* Replies to all calls, delivers all completions, and lets stopped calls continue. */
static void push(void)
{
	static const struct h_reply plain;
	unsigned int i;

	end_mapping();
	for (i = 0; i < setting->count; i++) {
		if (can_arrive(i) && !h_answer_call(h_peer_call(rpcs[i]->xid), &plain))
			excused = true;
		h_live(0);
		if (rpcs[i]->held)
			h_rpc_let_go(rpcs[i]);
	}
}

static void setting_end(void)
{
	unsigned int i, round;

	for (round = 0; round < 4; round++)
		push();
	for (round = 0; round < 12 && !all_released(); round++) {
		h_live(5000);
		push();
	}
	for (i = 0; i < setting->count; i++) {
		if (!rpcs[i]->released) {
			h_print_sleepers();
			u_fail("hang: call %u does not end", i);
		}
		h_expect(past[i].given_up || !rpcs[i]->status, "call %u ends with %d", i,
			 rpcs[i]->status);
		h_rpc_free(rpcs[i]);
	}
	check();
	if (h_qp && !excused)
		h_expect(h_window() == h_grant && !h_window_used(),
			 "at the end %u credits of %u are left, and %u in use", h_window(), h_grant,
			 h_window_used());
	h_end();
}

/* --- Comparing states --- */

/*
 * Returns a hash of the RPCs, the queues, the windows, the timers and the module's memory. It
 * leaves out the struct rpc_xprt, whose statistics only grow.
 */
static u64 look(void)
{
	u64 hash = h_mix(u_contents(h_xprt), lost | excused << 1 | late << 2);
	struct h_wr *wr;
	unsigned int i;

	for (i = 0; i < setting->count; i++) {
		const struct h_rpc *rpc = rpcs[i];

		hash = h_mix(hash, past[i].replied | past[i].again << 1 | past[i].given_up << 2 |
				 past[i].anew << 3 | rpc->done << 4 | rpc->released << 5 |
				 rpc->held << 6 | rpc->go << 7 | h_rpc_waits(rpc) << 8);
		hash = h_mix(hash, rpc->status);
		hash = h_mix(hash, h_peer_call(rpc->xid) != NULL);
	}
	hash = h_mix(hash, h_window() << 8 | h_window_used() | (u64)h_map_waits() << 32);
	hash = h_mix(hash, h_disconnects << 8 | h_connections);
	hash = h_mix(hash, u_live() << 32 | h_dma_live() << 8 | h_sleepers());
	hash = h_mix(hash, h_work_look());
	if (!h_qp)
		return hash;
	hash = h_mix(hash, h_qp->rq_len);
	list_for_each_entry(wr, &h_qp->sq, list)
		hash = h_mix(hash, wr->opcode << 2 | wr->signalled << 1 | wr->executed) + wr->key;
	list_for_each_entry(wr, &h_qp->arrived, list)
		hash = h_mix(hash, get_unaligned_be32((void *)wr->addr) + wr->wc_key);
	return hash;
}

const struct h_rules h_client_rules = {
	.begin = setting_begin, .events = events, .event = event, .end = setting_end, .look = look,
};
