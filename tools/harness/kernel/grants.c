// SPDX-License-Identifier: GPL-2.0
/* Scenarios of the numbers of credits that a server grants. recall.c has those of a requester. */
#include "harness.h"

/* The credits that each call asks for. */
#define ASKED	128

static const struct h_reply plain;

static void run(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_run(rpc, &plain);
	h_rpc_free(rpc);
}

/* More credits than a call asks for count as that number, in the first reply as in any other. */
void h_grants_limited(void)
{
	static const u32 grants[] = { ASKED + 1, U32_MAX, 1, 1u << 31, 64, ASKED, U32_MAX };
	unsigned int i;

	h_begin();
	for (i = 0; i < ARRAY_SIZE(grants); i++) {
		h_grant = grants[i];
		run();
		h_expect(h_window() == min(h_grant, (u32)ASKED),
			 "%u credits are used of %u granted", h_window(), h_grant);
	}
	h_grant = ASKED;
	run();
	h_check_calm();
	h_end();
}

/*
 * A server grants no credit for a while, which counts as one: one call is sent at a time. Then it
 * grants more, and the calls that wait are sent.
 */
void h_grants_zero(void)
{
	struct h_rpc *rpcs[6];
	unsigned int i;

	h_begin();
	h_connect();
	h_grant = 0;
	run();
	for (i = 0; i < ARRAY_SIZE(rpcs); i++) {
		rpcs[i] = h_rpc_new(H_READ_4K);
		h_rpc_start(rpcs[i], 0);
	}
	for (i = 0; i < 3; i++) {
		h_expect(h_window() == 1 && h_window_used() == 1, "%u calls of %u are sent",
			 h_window_used(), h_window());
		h_expect(h_peer_call(rpcs[i]->xid), "call %u is not sent", i);
		if (i == 2)
			h_grant = ASKED;
		h_answer_call(h_peer_call(rpcs[i]->xid), &plain);
		h_live(0);
		h_rpc_check(rpcs[i]);
	}
	h_expect(h_window() == ASKED && h_window_used() == 3, "%u calls of %u are sent",
		 h_window_used(), h_window());
	for (; i < ARRAY_SIZE(rpcs); i++) {
		h_answer_call(h_peer_call(rpcs[i]->xid), &plain);
		h_live(0);
		h_rpc_check(rpcs[i]);
	}
	for (i = 0; i < ARRAY_SIZE(rpcs); i++)
		h_rpc_free(rpcs[i]);
	h_expect(h_breaches("bad_credits") == 3, "%lu grants of none are counted",
		 h_breaches("bad_credits"));
	h_expect(!h_disconnects, "the connection is closed");
	h_end();
}
