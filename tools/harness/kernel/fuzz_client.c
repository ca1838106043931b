// SPDX-License-Identifier: GPL-2.0
/* The fuzzer's client: RPCs, and a responder that may say anything. */
#include <linux/sunrpc/auth.h>
#include <linux/sunrpc/sched.h>
#include "both.h"
#include "fuzz.h"

#define RPCS	4
#define SLOTS	8
#define REGION_DEPTH	8
/* A payload has fewer bytes: it takes several regions, and fits in a reply of the responder. */
#define MOST_BYTES	49152
/* The time in which a client has connected again, in steps of 5 s. */
#define PATIENCE	24

static struct h_rpc *rpcs[RPCS];

/* Whether the callback service is there, as it is for an NFSv4.1 mount. */
static bool calls_back;

/* Little memory is used, because all of it is copied for each input. */
static void prepare(void)
{
	h_slots = SLOTS;
	h_grant = SLOTS;
	h_region_depth = REGION_DEPTH;
	h_begin();
}

static void begin_one(void)
{
	prepare();
	h_connect();
}

/* The mount has not been connected yet. */
static void begin_first(void)
{
	prepare();
}

/* Over iWARP, and on a device without regions for memory with gaps. */
static void begin_iwarp(void)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
	prepare();
	h_devices[0].ib.attrs.kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	h_connect();
}

static void begin_two(void)
{
	h_fuzz_two = true;
	h_answer.two = true;
	prepare();
	h_connect();
}

/* The driver sleeps while it maps a region. */
static void begin_slow(void)
{
	h_slow_mapping = true;
	prepare();
	h_connect();
}

/* The responder is one of RFC 5666. */
static void begin_old(void)
{
	h_answer.send = 0;
	prepare();
	h_tune("rdma_read_chunks", 1);
	h_connect();
}

/* Returns whether an RPC may start in a place, after one that has ended. */
static bool is_vacant(u32 i)
{
	if (rpcs[i] && rpcs[i]->released) {
		h_rpc_free(rpcs[i]);
		rpcs[i] = NULL;
	}
	return !rpcs[i];
}

static void start(void)
{
	static const enum h_kind_number kinds[] = {
		H_INLINE, H_READ_4K, H_WRITE_4K, H_LONG_CALL, H_INLINE, H_READ_4K, H_LONG_READ,
		H_READDIR,
	};
	static const unsigned int flags[] = {
		0, RPC_TASK_SOFT, RPC_TASK_SOFT | RPC_TASK_TIMEOUT, RPC_TASK_NOCONNECT,
	};
	u32 i = h_input_below(RPCS), how = h_input_byte();

	if (!is_vacant(i))
		return;
	h_event("call %u: %s", i, h_kinds[kinds[how % 8]].name);
	rpcs[i] = h_rpc_new(kinds[how % 8]);
	rpcs[i]->hold = how & 8;
	h_rpc_start(rpcs[i], flags[how >> 6]);
}

/* An RPC with any sizes, whose payload may begin within a page. */
static void start_oddly(void)
{
	u32 i = h_input_below(RPCS), len = h_input_number() % MOST_BYTES;
	u8 how = h_input_byte(), more = h_input_byte();
	struct h_kind kind = {
		"odd", .send_pages = how & 1 ? len : 0, .receive_pages = (how & 3) == 2 ? len : 0,
		.call_head = 64 + (how & 4 ? 32 * more : 0),
		.reply_head = 104 + (how & 8 ? 32 * more : 0),
		.scattered = how & 16, .marked = how & 32, .counted = how & 1 && how & 64,
		.offset = how & 128 ? 16 * more + 3 : 0,
	};

	if (!is_vacant(i))
		return;
	h_event("call %u: %u bytes, %#x, %u", i, len, how, more);
	rpcs[i] = h_rpc_new(h_odd_kind(&kind));
	h_rpc_start(rpcs[i], 0);
}

/* An RPC whose procedure has no reply. */
static void start_silent(void)
{
	static const struct h_kind kind = {
		"silent", .call_head = 64, .reply_head = 104, .silent = true,
	};
	u32 i = h_input_below(RPCS);

	if (!is_vacant(i))
		return;
	h_event("call %u: there is no reply", i);
	rpcs[i] = h_rpc_new(h_odd_kind(&kind));
	h_rpc_start(rpcs[i], 0);
}

/* A WRITE with further arguments behind its payload. */
static void start_tailed(void)
{
	u32 i = h_input_below(RPCS), len = h_input_number() % MOST_BYTES;
	u8 more = h_input_byte();
	struct h_kind kind = {
		"tailed", .send_pages = len, .marked = true, .call_head = 88,
		.call_tail = 4 * more, .reply_head = 112,
	};

	if (!is_vacant(i))
		return;
	h_event("call %u: %u bytes, and %u behind them", i, len, kind.call_tail);
	rpcs[i] = h_rpc_new(h_odd_kind(&kind));
	h_rpc_start(rpcs[i], 0);
}

/* The transport is one that was added to a mount; or is the mount's first. */
static void add(void)
{
	h_xprt->main = !h_xprt->main;
	h_event("the transport %s", h_xprt->main ? "is the first" : "was added");
}

/* Another mount: its transport is made, unless memory is short, and is given up. */
static void mount_another(void *unused)
{
	struct rpc_xprt *xprt = h_xprt_create(RPC_XPRTSEC_NONE);

	if (!IS_ERR(xprt))
		xprt_put(xprt);
}

static void mount(void)
{
	h_event("another mount");
	h_spawn("another mount", mount_another, NULL);
	h_settle();
}

/* Calls are sent again after a timeout, as those of NFSv3; or over another connection only. */
static void resend(void)
{
	h_clnt.cl_noretranstimeo = !h_clnt.cl_noretranstimeo;
	h_event("calls are sent again after a timeout: %u", !h_clnt.cl_noretranstimeo);
}

/* The security flavour begins, or ceases, to encrypt payloads of calls. */
static void encrypt(void)
{
	h_encrypts = !h_encrypts;
	h_event("payloads are encrypted: %u", h_encrypts);
}

/* The security flavour begins, or ceases, to need all data of a message (RPCSEC_GSS). */
static void protect(void)
{
	struct rpc_auth *auth = h_clnt.cl_auth;

	auth->au_flags ^= BIT(RPCAUTH_AUTH_DATATOUCH);
	h_event("messages are protected: %u", !!auth->au_flags);
}

/* The peer has sent a message that may be the reply to any call, also to a later one. */
static bool doubtful;

/* What the peer has sent or written may be part of the reply to any call that there is. */
static void doubt(void)
{
	u32 i;

	for (i = 0; i < RPCS; i++)
		if (rpcs[i])
			rpcs[i]->doubted = true;
}

/* Returns a call that the responder has, or NULL. */
static struct h_call *pick(void)
{
	u32 i = h_input_below(RPCS);
	struct h_call *call = rpcs[i] ? h_peer_call(rpcs[i]->xid) : NULL;

	return call && !call->qp->broken ? call : NULL;
}

/* Notes whether the RPC of a call gets the reply that it should get. */
static void trust(const struct h_call *call, const struct h_reply *how)
{
	bool plain = !doubtful && !how->error && !how->shorter && !how->claimed && !how->exposed;
	u32 i;

	for (i = 0; i < RPCS; i++) {
		if (!rpcs[i] || rpcs[i]->xid != call->xid)
			continue;
		rpcs[i]->trusted = plain;
		rpcs[i]->doubted = rpcs[i]->doubted || !plain;
	}
}

static void reply(void)
{
	struct h_call *call = pick();
	u8 flags = h_input_byte();
	struct h_reply how = {
		.how = flags % 3, .unused = flags & 8, .error = (flags & 0x30) == 0x30,
		.exposed = (flags & 0x30) == 0x20, .keep = flags & 0x40,
	};

	if (!call)
		return;
	if (how.how == H_INV_KEY)
		how.key = h_input_number() << 8;
	if (flags & 0x80) {
		u32 most = h_kinds[call->kind].receive_pages;

		how.credits = h_input_number();
		how.shorter = most ? h_input_number() % (most + 1) : 0;
		how.claimed = h_input_number();
	}
	h_event("reply %#x: %#x, %u credits, -%u, +%u", call->xid, flags, how.credits, how.shorter,
		how.claimed);
	trust(call, &how);
	h_answer_call(call, &how);
}

/* The reply is correct but for some words or bytes. */
static void altered(void)
{
	h_message_alter();
	doubtful = true;
	doubt();
	reply();
	h_alter = NULL;
}

static u32 known_xid(void)
{
	u32 i = h_input_below(RPCS + 1);

	return i < RPCS && rpcs[i] ? rpcs[i]->xid : 0x4711;
}

static void words(void)
{
	u32 xid = known_xid();

	doubt();
	if (h_qp && !h_qp->broken)
		h_message_words(xid);
}

static void bytes(void)
{
	doubtful = true;
	doubt();
	if (h_qp && !h_qp->broken)
		h_message_bytes();
}

/* The responder reads or writes memory of a call, as it may. */
static void touch(void)
{
	static u8 junk[4096];
	struct h_call *call = pick();
	u8 which = h_input_below(3);
	struct h_chunk *chunk;
	u32 len;

	if (!call)
		return;
	chunk = which == 0 ? &call->write : which == 1 ? &call->reply : &call->read;
	if (!chunk->count || !h_mr_open(call->qp, chunk->segments[0].key))
		return;
	len = min3(h_input_number(), chunk->segments[0].len, (u32)sizeof(junk));
	h_event("%#x: the peer uses %u bytes of chunk %u", call->xid, len, which);
	doubt();
	h_peer_access(call->qp, chunk->segments[0].key, chunk->segments[0].addr, junk, len,
		      which != 2);
}

static void cancel(void)
{
	u32 i = h_input_below(RPCS);

	if (!rpcs[i] || rpcs[i]->done)
		return;
	h_event("call %u is cancelled", i);
	h_rpc_cancel(rpcs[i]);
}

static void time_out(void)
{
	u32 i = h_input_below(RPCS);

	if (!rpcs[i] || !h_rpc_waits(rpcs[i]))
		return;
	h_event("call %u times out", i);
	h_rpc_time_out(rpcs[i]);
}

static void let_go(void)
{
	u32 i = h_input_below(RPCS);

	if (!rpcs[i] || !rpcs[i]->held)
		return;
	h_event("call %u frees its buffers", i);
	h_rpc_let_go(rpcs[i]);
}

static void call_back(void)
{
	const u32 xid = h_input_byte(), len = h_input_below(41);
	const u32 list[] = {
		xid, h_fuzz_two ? 2 : 1, 1, 0, 0, 0, 0, xid, 0, 2, 0x40000000, 1, 0, 0, 0, 0, 0, 0,
	};
	u8 message[sizeof(list) + 4];
	struct h_writer out = { message };
	u32 i;

	if (!calls_back) {
		h_event("a callback service");
		h_fuzz_undisturbed();
		calls_back = h_callbacks_begin();
	}
	if (!h_qp || h_qp->broken)
		return;
	h_event("the peer calls: %#x, %u bytes", xid, len);
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		if (i == 4 && h_fuzz_two)
			h_put(&out, 0);
		h_put(&out, list[i]);
	}
	h_arrive(h_qp, message, (h_fuzz_two ? 32 : 28) + len, 0);
}

static void altered_call_back(void)
{
	doubtful = true;
	doubt();
	h_message_alter();
	call_back();
	h_alter = NULL;
}

static void answer_back(void)
{
	if (!calls_back)
		return;
	h_event("the callback service answers");
	h_callback_answer();
}

/* The same, with a reply of any length up to a page. */
static void answer_long(void)
{
	h_callback_reply = 24 + 16 * h_input_byte();
	answer_back();
}

/* The responder answers CONF_RDMA. */
static void configure(void)
{
	const u32 xid = h_configures, list[] = {
		xid, 1, SLOTS, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0,
		256 * h_input_byte(), 8 * h_input_byte(), h_input_byte() & 3,
	};
	u8 message[sizeof(list) + 4];
	struct h_writer out = { message };
	u32 i;

	if (!xid || !h_qp || h_qp->broken)
		return;
	h_event("the configuration: %u bytes, aligned %u, %u RDMA Reads", list[13], list[14],
		list[15]);
	for (i = 0; i < ARRAY_SIZE(list); i++)
		h_put(&out, list[i]);
	h_message_alter();
	h_arrive(h_qp, message, out.len, 0);
	h_alter = NULL;
}

/* The driver ends the mapping of a region. */
static void mapped(void)
{
	if (!h_map_waits())
		return;
	h_event("a region is mapped");
	h_map_go();
}

static void tune(void)
{
	static const unsigned int sizes[] = { 1024, 2048, 4096, 8192 };
	u8 which = h_input_byte();

	h_event("tunables: %#x", which);
	h_tune("rdma_max_inline_read", sizes[which & 3]);
	h_tune("rdma_max_inline_write", sizes[(which >> 2) & 3]);
	h_tune_text("rdma_version", which >> 4 & 3 ? "auto" : which >> 6 & 1 ? "2" : "1");
	h_tune("rdma_inline_write_padding", which & 0x80 ? 512 : 0);
}

/* An administrator changes a setting. */
static void set(void)
{
	u8 which = h_input_below(7), how = h_input_byte();

	h_event("setting %u: %u", which, how);
	switch (which) {
	case 0:
		return h_tune("rdma_inline_auto", how & 1);
	case 1:
		return h_tune("rdma_traffic_class", how & 1 ? how : -1);
	case 2:
		return h_tune_text("rdma_local_addrs", how & 1 ? "10.0.0.1,10.0.0.2\n" : "\n");
	case 3:
		return h_tune("rdma_read_chunks", how & 1);
	case 4:
		return h_tune("rdma_max_inline_read", 1024 + 256 * how);
	case 5:
		return h_tune("rdma_inline_write_padding", 16 * how);
	case 6:
		return h_tune("rdma_conf", how & 1);
	}
}

/* Replies to what the responder has, and lets stopped calls go on. */
static bool serve(void)
{
	static const struct h_reply plain;
	bool all = true;
	u32 i;

	for (i = 0; i < RPCS; i++) {
		struct h_call *call;

		if (!rpcs[i] || rpcs[i]->released)
			continue;
		rpcs[i]->hold = false;
		/* It would be sent over one connection after another. */
		if (rpcs[i]->kind->silent)
			h_rpc_cancel(rpcs[i]);
		if (rpcs[i]->held)
			h_rpc_let_go(rpcs[i]);
		call = h_peer_call(rpcs[i]->xid);
		if (call && !call->qp->broken)
			h_answer_call(call, &plain);
		h_live(0);
		all = all && rpcs[i]->released;
	}
	return all;
}

static void wait_for_all(void)
{
	u32 i;

	for (i = 0; !serve() && i < PATIENCE; i++)
		h_live(5000);
	for (i = 0; i < RPCS; i++) {
		if (!rpcs[i])
			continue;
		if (!rpcs[i]->released)
			h_print_sleepers();
		h_expect(rpcs[i]->released, "hang: call %u does not end", i);
		h_expect(h_hostile || !rpcs[i]->status, "after all a call ends with %d",
			 rpcs[i]->status);
		h_rpc_free(rpcs[i]);
		rpcs[i] = NULL;
	}
}

static void answer_all(void)
{
	while (calls_back && h_callback_answer())
		h_live(0);
}

static void end(void)
{
	h_clnt.cl_auth->au_flags = 0;
	h_clnt.cl_noretranstimeo = 1;
	h_xprt->main = 1;
	h_encrypts = false;
	h_tune("rdma_conf", 0);
	h_callback_reply = 24;
	answer_all();
	wait_for_all();
	/* Whatever the peer has done, the next RPC is served. */
	h_hostile = false;
	rpcs[0] = h_rpc_new(H_READ_4K);
	h_rpc_start(rpcs[0], 0);
	wait_for_all();
	answer_all();
	if (calls_back)
		h_callbacks_end();
	h_end();
}

static const struct h_happening events[] = {
	{ "start", start },
	{ "start", start },
	{ "reply", reply },
	{ "reply", reply },
	{ "altered", altered },
	{ "altered", altered },
	{ "words", words },
	{ "bytes", bytes },
	{ "touch", touch },
	{ "cancel", cancel },
	{ "time_out", time_out },
	{ "let_go", let_go },
	{ "call_back", call_back },
	{ "altered_call_back", altered_call_back },
	{ "answer_back", answer_back },
	{ "tune", tune },
	{ "mapped", mapped },
	{ "look", h_fuzz_look },
	{ "receive", h_fuzz_receive },
	{ "send", h_fuzz_send },
	{ "all", h_fuzz_all },
	{ "disconnect", h_fuzz_disconnect },
	{ "move", h_fuzz_move },
	{ "pass", h_fuzz_pass },
	{ "remove", h_fuzz_remove },
	{ "fault", h_fuzz_fault },
	{ "queue", h_fuzz_queue },
	{ "answer", h_fuzz_answer },
	{ "immediate", h_fuzz_immediate },
	{ "memory", h_fuzz_memory },
	{ "resize", h_fuzz_ask },
	{ "start_oddly", start_oddly },
	{ "start_oddly", start_oddly },
	{ "protect", protect },
	{ "answer_long", answer_long },
	{ "set", set },
	{ "configure", configure },
	H_FUZZ_LIMITS,
	H_FUZZ_STEPS,
	{ "start_silent", start_silent },
	{ "mount", mount },
	{ "resend", resend },
	{ "encrypt", encrypt },
	{ "start_tailed", start_tailed },
	{ "add", add },
};

const struct h_target h_client_targets[] = {
	{ "client_one", begin_one, events, ARRAY_SIZE(events), end },
	{ "client_two", begin_two, events, ARRAY_SIZE(events), end },
	{ "client_slow", begin_slow, events, ARRAY_SIZE(events), end },
	{ "client_old", begin_old, events, ARRAY_SIZE(events), end },
	{ "client_iwarp", begin_iwarp, events, ARRAY_SIZE(events), end },
	{ "client_first", begin_first, events, ARRAY_SIZE(events), end },
	{ }
};
