// SPDX-License-Identifier: GPL-2.0
/*
 * The requester: it encodes calls in RPC-over-RDMA version one (RFC 8166), has the memory that
 * their chunks describe, and checks every field of the replies. It has one call at a time.
 */
#include "wire.h"

#define KEY		0x5e1700
#define CREDITS		64
#define CALL_HEAD	40	/* bytes of an RPC call before its arguments, with AUTH_NULL */
#define REPLY_HEAD	24	/* bytes of an RPC reply before its results */

/* The memory of the chunks. */
static u8 memory[2 << 20] __aligned(PAGE_SIZE);
static u32 writable;	/* bytes of it that an RDMA Write may use */
static u32 readable;	/* bytes of it that an RDMA Read may use */
static const struct h_kind *kind;
static u32 xid;
static bool answered;

static void put_segment(struct h_writer *out, u32 len)
{
	h_put(out, KEY);
	h_put(out, len);
	h_put(out, (u64)memory >> 32);
	h_put(out, (u32)(u64)memory);
}

static void put_chunk(struct h_writer *out, bool present, u32 len)
{
	h_put(out, present);
	if (!present)
		return;
	h_put(out, 1);
	put_segment(out, len);
}

/* Encodes the transport header: RDMA_NOMSG if the call is in a read chunk at position zero. */
static void put_header(struct h_writer *out, u32 position)
{
	bool write = kind->receive_pages && kind->marked, reply = kind->receive_pages && !write;

	h_put(out, xid);
	h_put(out, 1);
	h_put(out, CREDITS);
	h_put(out, readable && !position);
	if (readable) {
		h_put(out, 1);
		h_put(out, position);
		put_segment(out, readable);
	}
	h_put(out, 0);
	put_chunk(out, write, writable);
	if (write)
		h_put(out, 0);
	put_chunk(out, reply, writable);
}

/* Encodes the RPC call up to its payload. */
static void put_call(struct h_writer *out)
{
	const u32 head[] = { xid, 0, 2, 100003, 3, kind - h_kinds, 0, 0, 0, 0 };
	u32 i;

	for (i = 0; i < CALL_HEAD / 4; i++)
		h_put(out, head[i]);
	for (i = 0; i < kind->call_head / 4; i++)
		h_put(out, xid);
}

static void fill(u32 len)
{
	u32 i;

	for (i = 0; i < len && h_payloads; i++)
		memory[i] = h_payload_byte(i, xid);
}

void h_ask(enum h_kind_number number)
{
	u8 message[4096];
	struct h_writer out = { message }, call = { memory };
	bool longer = h_kinds[number].call_head > sizeof(message) / 2;

	kind = &h_kinds[number];
	xid++;
	answered = false;
	/* The results that are not DDP-eligible are all in the reply chunk. */
	writable = kind->receive_pages;
	if (!kind->marked)
		writable += REPLY_HEAD + kind->reply_head;
	readable = kind->send_pages;
	fill(readable);
	if (longer) {
		put_call(&call);
		readable = call.len;
	}
	put_header(&out, longer ? 0 : CALL_HEAD + kind->call_head);
	if (!longer)
		put_call(&out);
	h_arrive(h_qp, message, out.len, 0);
}

bool h_answered(void)
{
	return answered;
}

void h_requester_access(u32 key, u64 addr, void *data, u32 len, bool write)
{
	u64 offset = addr - (u64)memory;
	u32 room = write ? writable : readable;

	if (key != KEY)
		h_violation("the responder uses R_key %#x, which no call has", key);
	if (offset > room || len > room - offset)
		h_violation("%u bytes at offset %llu are not all in the chunk", len, offset);
	if (write)
		memcpy(memory + offset, data, len);
	else
		memcpy(data, memory + offset, len);
}

static void expect(struct h_cursor *in, u32 value, const char *what)
{
	u32 word = h_word(in);

	if (word != value)
		h_violation("%s of a reply is %#x instead of %#x", what, word, value);
}

static void check_chunk(struct h_cursor *in, bool present, u32 len)
{
	expect(in, present, "the presence of a chunk");
	if (!present)
		return;
	expect(in, 1, "the number of segments");
	expect(in, KEY, "an R_key");
	expect(in, len, "the length of a segment");
	expect(in, (u64)memory >> 32, "an address");
	expect(in, (u32)(u64)memory, "an address");
}

/* Checks the RPC reply up to its payload. */
static void check_results(struct h_cursor *in)
{
	u32 i;

	expect(in, xid, "the XID");
	expect(in, 1, "the direction");
	for (i = 2; i < REPLY_HEAD / 4; i++)
		expect(in, 0, "the state or the verifier");
	for (i = 1; i < kind->reply_head / 4; i++)
		expect(in, xid, "a result");
	expect(in, kind->receive_pages, "the length of the payload");
}

static void check_payload(const u8 *payload)
{
	u32 i;

	for (i = 0; i < kind->receive_pages && h_payloads; i++)
		if (payload[i] != h_payload_byte(i, xid))
			h_violation("byte %u of a payload of %u bytes is wrong", i,
				    kind->receive_pages);
}

void h_requester_receive(const void *message, u32 len, u32 invalidated)
{
	bool write = kind->receive_pages && kind->marked, reply = kind->receive_pages && !write;
	struct h_cursor in = { message, len }, room = { memory, writable };
	u32 all = REPLY_HEAD + kind->reply_head + kind->receive_pages;

	if (answered)
		h_violation("a call is answered twice");
	answered = true;
	expect(&in, xid, "the header's XID");
	expect(&in, 1, "the version");
	if (!h_word(&in))
		h_violation("a reply grants no credit");
	expect(&in, reply, "the type");
	expect(&in, 0, "the read list");
	check_chunk(&in, write, kind->receive_pages);
	if (write)
		expect(&in, 0, "the end of the write list");
	check_chunk(&in, reply, all);
	check_results(reply ? &room : &in);
	if (in.left)
		h_violation("a reply has %u bytes too many", in.left);
	if (kind->receive_pages)
		check_payload(reply ? room.p : memory);
	if (invalidated && (invalidated != KEY || !(readable || writable)))
		h_violation("a reply invalidates R_key %#x, which the call does not have",
			    invalidated);
}
