// SPDX-License-Identifier: GPL-2.0
/* The fuzzer's server: a requester that may say anything, and a service that may be slow. */
#include <linux/mm.h>
#include <linux/sunrpc/sched.h>
#include "fuzz.h"

#define REQUESTS	8
#define RPCS		2
#define THREADS		2
/* The largest payload of the service; the most segments of a chunk. */
#define MOST_BYTES	32768
#define MOST_SEGMENTS	16
/* The part of all pages that calls may use, and the number of these pages in one target. */
#define SHARE		16
#define FEW		12
/* Time in milliseconds in which a server has noticed all that has happened. */
#define PATIENCE	120000

/* Calls of the service to its requester. */
static struct h_rpc *rpcs[RPCS];
static bool calling;
static u32 last_xid;

static void start(void)
{
	h_serve_size = MOST_BYTES;
	h_tune("max_requests", REQUESTS);
	h_serve_start(THREADS);
	h_cm_request();
	h_settle();
	h_expect(h_qp, "the connection is not accepted");
	h_ready = true;
}

/* A page of a file, which replies may have. */
static struct page *file;

static void begin(void)
{
	file = alloc_page(GFP_KERNEL);
	h_load();
	start();
}

static void begin_one(void)
{
	begin();
}

static void begin_two(void)
{
	h_fuzz_two = true;
	h_answer.two = true;
	begin();
}

/* Each RDMA Read needs a region. */
static void begin_iwarp(void)
{
	h_iwarp = true;
	h_answer.remote_invalidation = false;
	begin();
}

/* Calls may use few pages. */
static void begin_short(void)
{
	atomic_long_set(&_totalram_pages, SHARE * FEW);
	begin();
}

/* A requester of RFC 5666, which reads replies. The driver sleeps while it maps a region. */
static void begin_old(void)
{
	file = alloc_page(GFP_KERNEL);
	h_slow_mapping = true;
	h_answer.send = 0;
	h_load();
	h_tune("read_chunks", 1);
	start();
}

static bool can_send(void)
{
	return h_qp && !h_qp->broken && h_qp->passive;
}

static void ask(void)
{
	static const enum h_kind_number kinds[] = {
		H_INLINE, H_READ_4K, H_WRITE_4K, H_LONG_CALL, H_INLINE, H_READ_4K, H_LONG_READ,
		H_READDIR,
	};
	u8 how = h_input_byte();

	if (!can_send())
		return;
	h_offer = how >> 6 == 1 ? H_OFFER_NOTHING :
		  how >> 6 == 2 ? H_OFFER_REPLY_CHUNK : H_OFFER_NEEDED;
	h_event("a call: %s, offer %u", h_kinds[kinds[how % 8]].name, h_offer);
	last_xid = h_ask(kinds[how % 8]);
}

/* A call with any sizes and any number of segments. */
static void ask_with_sizes(void)
{
	u32 len = h_input_number() % (MOST_BYTES + 1);
	u8 how = h_input_byte(), more = h_input_byte();
	struct h_kind kind = {
		"odd", .send_pages = how & 1 ? len : 0, .receive_pages = how & 2 ? len : 0,
		.call_head = 64 + (how & 4 && !(how & 1) ? 16 * more : 0),
		.reply_head = 104 + (how & 8 ? 4 * more : 0), .marked = how & 16,
	};

	if (!can_send())
		return;
	h_offer = how >> 6 == 1 ? H_OFFER_NOTHING :
		  how >> 6 == 2 ? H_OFFER_REPLY_CHUNK : H_OFFER_NEEDED;
	h_split = 1 + more % MOST_SEGMENTS;
	h_event("a call: %u bytes, %#x, %u, offer %u", len, how, more, h_offer);
	if (h_fuzz_two && how & 32)
		h_message_two();
	last_xid = h_ask(h_odd_kind(&kind));
	h_alter = NULL;
	h_split = 0;
}

/* A call that offers chunks of both kinds, which may be too short for its results. */
static void ask_for_both(void)
{
	u32 len = h_input_number() % (MOST_BYTES + 1);
	u8 more = h_input_byte(), segments = h_input_byte();
	struct h_kind kind = {
		"both", .receive_pages = len, .call_head = 64, .reply_head = 104 + 8 * more,
		.marked = segments & 1,
	};

	if (!can_send())
		return;
	h_offer = H_OFFER_BOTH;
	h_split = 1 + (segments >> 1) % MOST_SEGMENTS;
	h_event("a call: %u bytes, %u more, %u segments in each chunk", len, more, h_split);
	last_xid = h_ask(h_odd_kind(&kind));
	h_offer = H_OFFER_NEEDED;
	h_split = 0;
}

/* Many calls at once. */
static void burst(void)
{
	u8 how = h_input_byte(), i;

	h_offer = H_OFFER_NEEDED;
	h_event("%u calls", how % 32);
	for (i = 0; i < how % 32 && can_send(); i++)
		last_xid = h_ask(how & 32 ? H_READ_4K : how & 64 ? H_WRITE_4K : H_INLINE);
	for (i = 0; i < how % 32 && h_qp; i++)
		h_complete_receive(h_qp);
}

static void altered(void)
{
	h_message_alter();
	ask();
	h_alter = NULL;
}

static void words(void)
{
	if (can_send())
		h_message_words(h_input_byte() & 1 ? last_xid : ++last_xid);
}

static void bytes(void)
{
	if (can_send())
		h_message_bytes();
}

/* A segment in memory that the requester has, or elsewhere. */
static void put_segment(struct h_writer *out, u32 key, u64 addr)
{
	u8 how = h_input_byte();

	h_put(out, how & 0x80 ? h_input_number() : key);
	h_put(out, how & 0x40 ? h_input_number() : (how & 15) * 512);
	addr += how & 0x20 ? h_input_number() : 0;
	h_put(out, addr >> 32);
	h_put(out, (u32)addr);
}

static void put_chunk(struct h_writer *out, u32 key, u64 addr)
{
	u32 n = h_input_below(5);

	h_put(out, n);
	while (n--)
		put_segment(out, key, addr);
}

/* The position of a payload in a WRITE of 4 KiB. */
#define POSITION	128

/* Encodes lists of chunks: up to 7 read segments, 3 write chunks, and a reply chunk. */
static void put_lists(struct h_writer *out, u32 key, u64 addr)
{
	u8 how = h_input_byte();
	u32 n;

	for (n = how & 7; n; n--) {
		h_put(out, 1);
		h_put(out, h_input_byte() & 1 ? h_input_number() : POSITION);
		put_segment(out, key, addr);
	}
	h_put(out, 0);
	for (n = (how >> 3) & 3; n; n--) {
		h_put(out, 1);
		put_chunk(out, key, addr);
	}
	h_put(out, 0);
	h_put(out, (how >> 5) & 1);
	if (how >> 5 & 1)
		put_chunk(out, key, addr);
}

/* Message type RDMA_MSGP of RFC 5666, with an alignment and a threshold. */
#define PADDED		2

/* A call with any chunks. */
static void ask_oddly(void)
{
	static const enum h_kind_number kinds[] = {
		H_INLINE, H_READ_4K, H_WRITE_4K, H_LONG_READ, H_READDIR,
	};
	enum h_kind_number kind = kinds[h_input_below(ARRAY_SIZE(kinds))];
	const u32 head[] = { ++last_xid, 0, 2, 100003, 3, kind, 0, 0, 0, 0 };
	u8 message[4096], type = h_input_byte();
	struct h_writer out = { message };
	u64 addr;
	u32 key, i;

	if (!can_send())
		return;
	h_event("an odd call: %#x, %s, type %u", last_xid, h_kinds[kind].name, type);
	addr = h_requester_expose(last_xid, 1 << 20, 1 << 20, &key);
	h_put(&out, last_xid);
	h_put(&out, 1);
	h_put(&out, 1 + (type >> 4));
	h_put(&out, type & 15);
	if ((type & 15) == PADDED) {
		h_put(&out, h_input_number());
		h_put(&out, h_input_number());
	}
	put_lists(&out, key, addr);
	if (type & 0x80)
		h_put(&out, h_input_number());
	for (i = 0; i < ARRAY_SIZE(head); i++)
		h_put(&out, head[i]);
	for (i = 0; i < min(h_kinds[kind].call_head, 1024u) / 4; i++)
		h_put(&out, last_xid);
	h_message_alter();
	h_arrive(h_qp, message, out.len, 0);
	h_alter = NULL;
}

/* A call of the Connection Configuration Protocol. */
static void configure(void)
{
	const u32 xid = ++last_xid, list[] = {
		xid, 1, 8, 0, 0, 0, 0,
		xid, 0, 2, 100417, 1, 1, 0, 0, 0, 0, 4096, 4096, h_input_byte(),
	};
	u8 message[sizeof(list) + 4];
	struct h_writer out = { message };
	u32 i;

	if (!can_send())
		return;
	h_event("CONF_RDMA: %u", list[ARRAY_SIZE(list) - 1]);
	for (i = 0; i < ARRAY_SIZE(list); i++)
		h_put(&out, list[i]);
	h_message_alter();
	h_arrive(h_qp, message, out.len, 0);
	h_alter = NULL;
}

/* RDMA_DONE. */
static void done(void)
{
	const u32 xid = last_xid + 1 - h_input_byte() % 4;
	u8 message[16];
	struct h_writer out = { message };

	if (!can_send())
		return;
	h_event("RDMA_DONE: %#x", xid);
	h_put(&out, xid);
	h_put(&out, 1);
	h_put(&out, 8);
	h_put(&out, H_DONE);
	h_arrive(h_qp, message, out.len, 0);
}

/* The driver ends the mapping of a region. */
static void mapped(void)
{
	if (!h_map_waits())
		return;
	h_event("a region is mapped");
	h_map_go();
}

/* Another requester connects; or the same one, again. */
static void request(void)
{
	if (!h_cm_listeners() || h_faults.identifier || !h_devices[0].present || h_connections > 16)
		return;
	h_event("a connection request");
	h_cm_request();
}

static void slow(void)
{
	h_event("procedures %s", h_procedures_wait ? "go on" : "wait");
	if (h_procedures_wait)
		h_procedures_go();
	else
		h_procedures_wait = true;
}

static void tune(void)
{
	u8 which = h_input_byte();

	h_event("tunables: %#x", which);
	h_tune("max_req_size", which & 1 ? 4096 : 8192);
	h_tune("max_requests", 4 + (which >> 4));
	h_tune("max_outbound_read_requests", which & 2 ? 1 : 16);
	h_tune("max_version", which & 4 ? 1 : 2);
	h_tune("read_chunks", which >> 3 & 1);
}

/* An administrator changes a setting. */
static void set(void)
{
	u8 which = h_input_below(5), how = h_input_byte();

	h_event("setting %u: %u", which, how);
	switch (which) {
	case 0:
		return h_tune("inline_auto", how & 1);
	case 1:
		return h_tune("traffic_class", how & 1 ? how : -1);
	case 2:
		return h_tune("max_requests", 4 + how % 124);
	case 3:
		return h_tune("max_req_size", 4096 + 240 * how);
	case 4:
		return h_tune("max_outbound_read_requests", 1 + how % 255);
	}
}

/* The service gets other threads, or none. Those that wait for a procedure cannot end. */
static void change_threads(void)
{
	u32 count = h_input_below(THREADS + 2);

	if (h_threads_change || h_procedures_wait)
		return;
	h_event("%u threads", count);
	h_fuzz_undisturbed();
	h_serve_threads(count);
	h_settle();
}

/* Replies have a page of a file; the service takes payloads out of its replies again. */
static void results(void)
{
	u8 how = h_input_byte();

	h_event("results: %s, %s", how & 1 ? "of a file" : "made up", how & 2 ? "cut" : "whole");
	h_cached = how & 1 ? file : NULL;
	h_truncates = (how & 3) == 3;
}

/* The service loses its listener, or listens again. */
static void listen(void)
{
	h_event("the service %s", h_serve_listens() ? "does not listen" : "listens");
	h_fuzz_undisturbed();
	h_serve_listen(!h_serve_listens());
}

/* --- Calls to the requester --- */

/* Returns whether a call may start in a place, after one that has ended. */
static bool is_vacant(u32 i)
{
	if (rpcs[i] && rpcs[i]->released) {
		h_rpc_free(rpcs[i]);
		rpcs[i] = NULL;
	}
	return !rpcs[i];
}

static void start_call(u32 i, u32 kind)
{
	h_event("the service calls: %s", h_kinds[kind].name);
	rpcs[i] = h_rpc_new(kind);
	h_rpc_start(rpcs[i], RPC_TASK_SOFT | RPC_TASK_NOCONNECT);
}

/* The service makes a backchannel of its newest connection, if it has one. */
static void make_backchannel(void)
{
	h_fuzz_undisturbed();
	if (!h_serve_connection())
		return;
	h_event("a backchannel");
	h_spawn("the service calls back", h_recall_make, NULL);
	h_settle();
	calling = h_xprt;
	if (calling) {
		h_wrap_operations(h_xprt);
		h_client_init(h_xprt);
	}
}

static void call_back(void)
{
	u32 i = h_input_below(RPCS);

	if (!calling)
		make_backchannel();
	if (!calling || !is_vacant(i))
		return;
	start_call(i, h_input_byte() % 8 ? H_INLINE : H_LONG_CALL);
}

/* A call of the service whose procedure has no reply. */
static void call_silently(void)
{
	static const struct h_kind kind = { "silent", 0, 0, 64, 0, 104, .silent = true };
	u32 i = h_input_below(RPCS);

	if (calling && is_vacant(i))
		start_call(i, h_odd_kind(&kind));
}

static void cancel(void)
{
	u32 i = h_input_below(RPCS);

	if (!rpcs[i] || rpcs[i]->done)
		return;
	h_event("a call of the service is cancelled");
	h_rpc_cancel(rpcs[i]);
}

static void reply(void)
{
	u32 i = h_input_below(RPCS);

	h_message_alter();
	if (rpcs[i] && rpcs[i]->xid && can_send()) {
		h_event("a reply to the service");
		h_recall_reply(rpcs[i]);
	}
	h_alter = NULL;
}

/* The service calls no more. Its calls end with their connection. */
static void hang_up(void)
{
	u32 i;

	for (i = 0; i < RPCS; i++) {
		if (!rpcs[i])
			continue;
		h_expect(rpcs[i]->released, "hang: call %u of the service does not end", i);
		h_rpc_free(rpcs[i]);
		rpcs[i] = NULL;
	}
	if (!calling)
		return;
	h_spawn("the service calls no more", h_recall_put, NULL);
	h_settle();
	h_xprt = NULL;
	calling = false;
}

/* The same, while its connection goes on. */
static void end_calls(void)
{
	u32 i;

	h_event("the service calls no more");
	h_fuzz_undisturbed();
	for (i = 0; i < RPCS; i++)
		if (rpcs[i] && !rpcs[i]->done)
			h_rpc_cancel(rpcs[i]);
	for (i = 0; i < RPCS; i++)
		if (!is_vacant(i))
			return;
	hang_up();
}

/* --- The end --- */

/* Whatever requesters have done, the next one is served. */
static void serve(void)
{
	h_hostile = false;
	h_offer = H_OFFER_NEEDED;
	h_requester_reset();
	h_cm_request();
	h_settle();
	h_expect(h_qp && !h_qp->broken, "a requester cannot connect any more");
	h_serve(H_READ_4K);
	h_serve(H_WRITE_4K);
}

static void end(void)
{
	h_procedures_go();
	h_settle();
	h_live(5000);
	h_expect(!h_threads_change, "hang: threads of the service do not end");
	h_serve_threads(THREADS);
	h_live(5000);
	h_cached = NULL;
	h_truncates = false;
	h_serve_listen(true);
	h_cm_disconnected();
	h_live(PATIENCE);
	hang_up();
	h_cm_disconnected();
	h_live(1000);
	serve();
	h_serve_end();
	h_expect(page_count(file) == 1, "leak: %d references to a page", page_count(file) - 1);
}

static const struct h_happening events[] = {
	{ "ask", ask },
	{ "ask", ask },
	{ "altered", altered },
	{ "altered", altered },
	{ "ask_oddly", ask_oddly },
	{ "ask_oddly", ask_oddly },
	{ "ask_oddly", ask_oddly },
	{ "words", words },
	{ "bytes", bytes },
	{ "configure", configure },
	{ "done", done },
	{ "request", request },
	{ "slow", slow },
	{ "tune", tune },
	{ "look", h_fuzz_look },
	{ "call_back", call_back },
	{ "call_back", call_back },
	{ "cancel", cancel },
	{ "reply", reply },
	{ "receive", h_fuzz_receive },
	{ "send", h_fuzz_send },
	{ "all", h_fuzz_all },
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
	{ "mapped", mapped },
	{ "ask_with_sizes", ask_with_sizes },
	{ "ask_with_sizes", ask_with_sizes },
	{ "burst", burst },
	{ "set", set },
	{ "threads", change_threads },
	H_FUZZ_LIMITS,
	H_FUZZ_STEPS,
	{ "results", results },
	{ "listen", listen },
	{ "call_silently", call_silently },
	{ "end_calls", end_calls },
	{ "ask_for_both", ask_for_both },
};

const struct h_target h_server_targets[] = {
	{ "server_one", begin_one, events, ARRAY_SIZE(events), end },
	{ "server_two", begin_two, events, ARRAY_SIZE(events), end },
	{ "server_iwarp", begin_iwarp, events, ARRAY_SIZE(events), end },
	{ "server_old", begin_old, events, ARRAY_SIZE(events), end },
	{ "server_short", begin_short, events, ARRAY_SIZE(events), end },
	{ }
};
