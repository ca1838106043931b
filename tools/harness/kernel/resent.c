// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of calls that are encoded again while the peer may reach the memory of their last
 * encoding, of calls without a reply, and of steps of a connection that fail.
 */
#include "harness.h"

static const struct h_reply plain;

static struct h_rpc *start(u32 kind)
{
	struct h_rpc *rpc = h_rpc_new(kind);

	h_rpc_start(rpc, 0);
	return rpc;
}

/* Answers a call over the next connection. */
static void finish(struct h_rpc *rpc)
{
	h_live(30000);
	h_expect(h_peer_call(rpc->xid), "the call was not sent again");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
}

/*
 * An encrypted WRITE of NFSv3 times out. The flavour frees its pages and encrypts the payload
 * again. encrypt.c checks that the peer cannot reach those pages any more.
 */
void h_encrypted_again(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_encrypts = true;
	h_clnt.cl_noretranstimeo = 0;
	rpc = start(H_WRITE_4K);
	h_rpc_time_out(rpc);
	finish(rpc);
	h_expect(rpc->encodings == 2, "the call was encoded %u times", rpc->encodings);
	h_rpc_free(rpc);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_end();
}

/*
 * No reply returns the credit of a call without one, so its connection is closed. The call is sent
 * over one connection after another, with the pauses of a server that closes them, as the kernel's
 * own module does. No call of NFS is of this kind. When it is cancelled, nothing is left of it.
 */
void h_silent_call(void)
{
	static const struct h_kind silent = { "silent", .call_head = 64, .silent = true };
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = start(h_odd_kind(&silent));
	h_live(60000);
	h_expect(h_connections > 1 && h_connections < 60, "%u connections were made",
		 h_connections);
	h_rpc_cancel(rpc);
	h_live(60000);
	h_expect(rpc->released, "the call does not end");
	h_rpc_free(rpc);
	rpc = start(H_READ_4K);
	finish(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* Each step of the first connection fails for a while. The mount waits, and then works. */
void h_steps_fail(void)
{
	static const int errors[] = { -ETIMEDOUT, -ENOMEM };
	unsigned int i;

	h_load();
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		enum h_step step;

		for (step = H_STEP_ADDRESS; step < H_STEP_ACCEPT; step++) {
			struct h_rpc *rpc;

			h_mount();
			h_faults.step = step;
			h_faults.error = errors[i];
			rpc = start(H_INLINE);
			h_live(10000);
			h_faults.step = H_STEP_NONE;
			if (rpc->released) {
				h_rpc_free(rpc);
				rpc = start(H_INLINE);
			}
			finish(rpc);
			h_rpc_free(rpc);
			h_peer_drop_all();
			h_umount();
		}
	}
	h_unload();
}
