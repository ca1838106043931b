// SPDX-License-Identifier: GPL-2.0
/* The responder's send path: it encodes and sends replies and calls. */
#include "wire.h"

u32 h_grant = 128;

static void put_header(struct h_writer *out, const struct h_call *call, const struct h_reply *how,
		       u32 proc)
{
	h_put(out, call->xid);
	h_put(out, how->version ?: call->version);
	h_put(out, how->credits ?: h_grant);
	h_put(out, proc);
	if (call->version == 2)
		h_put(out, 1);
}

/* Encodes the segments of a chunk, with the number of bytes written to each, plus `claimed`. */
static void put_chunk(struct h_writer *out, const struct h_chunk *chunk, u32 written, u32 claimed)
{
	unsigned int i;

	h_put(out, chunk->count);
	for (i = 0; i < chunk->count; i++) {
		u32 n = min(written, chunk->segments[i].len);

		h_put(out, chunk->segments[i].key);
		h_put(out, n + claimed);
		h_put(out, chunk->segments[i].addr >> 32);
		h_put(out, (u32)chunk->segments[i].addr);
		written -= n;
	}
}

static void push(const struct h_call *call, const struct h_chunk *chunk, u8 *data, u32 len)
{
	unsigned int i;

	for (i = 0; i < chunk->count && len; i++) {
		u32 n = min(len, chunk->segments[i].len);

		h_peer_access(call->qp, chunk->segments[i].key, chunk->segments[i].addr, data, n,
			      true);
		data += n;
		len -= n;
	}
	h_expect(!len, "violation: a chunk is %u bytes too short", len);
}

/* Encodes the RPC reply up to its payload: accepted, AUTH_NULL, success, and results. */
static void put_results(struct h_writer *out, const struct h_call *call, const struct h_kind *kind,
			u32 payload)
{
	u32 end;

	h_put(out, call->xid);
	h_put(out, 1);
	h_put(out, 0);
	h_put(out, 0);
	h_put(out, 0);
	h_put(out, 0);
	end = out->len + kind->reply_head;
	while (out->len < end - 4)
		h_put(out, call->xid);
	h_put(out, payload);
}

static u8 payload[2 << 20] H_SCRATCH;

/* --- Replies that are read chunks (RFC 5666) --- */

#define EXPOSED_KEY 0x5666

static u8 exposed[2 << 20] H_SCRATCH;
static u32 exposed_len;

/* Encodes a reply whose RPC message is a read chunk at position zero. */
static void put_exposed(struct h_writer *out, const struct h_call *call, const struct h_reply *how,
			const struct h_writer *message)
{
	memcpy(exposed, message->p, message->len);
	exposed_len = message->len;
	put_header(out, call, how, 1);
	h_put(out, 1);
	h_put(out, 0);
	h_put(out, EXPOSED_KEY);
	h_put(out, exposed_len);
	h_put(out, (u64)exposed >> 32);
	h_put(out, (u32)(u64)exposed);
	h_put(out, 0);
	h_put(out, 0);
	h_put(out, 0);
}

bool h_exposed_read(u32 key, u64 addr, void *data, u32 len)
{
	u64 offset = addr - (u64)exposed;

	bool there = offset <= exposed_len && len <= exposed_len - offset;

	if (h_hostile && (key != EXPOSED_KEY || !there))
		return false;
	if (key != EXPOSED_KEY)
		h_violation("the module reads from R_key %#x, which the peer has not", key);
	if (!there)
		h_violation("%u bytes at offset %llu are not exposed", len, offset);
	memcpy(data, exposed + offset, len);
	return true;
}

/* Encodes the reply. The RPC message follows the header, or goes to the reply chunk. */
static void put_message(struct h_writer *out, const struct h_call *call, const struct h_reply *how)
{
	static u8 room[2 << 20] H_SCRATCH;
	const struct h_kind *kind = &h_kinds[call->kind];
	struct h_writer message = { room };
	u32 len = kind->receive_pages - how->shorter;
	bool chunk = call->write.count && !how->unused;

	h_payload_fill(payload, 0, len, call->xid);
	put_results(&message, call, kind, len);
	if (!chunk) {
		memcpy(room + message.len, payload, len);
		memset(room + message.len + len, 0, 3);
		message.len += round_up(len, 4);
	}
	if (how->exposed)
		return put_exposed(out, call, how, &message);
	put_header(out, call, how, call->reply.count && !how->unused);
	h_put(out, 0);
	if (call->write.count) {
		h_put(out, 1);
		put_chunk(out, &call->write, chunk ? len : 0, how->claimed);
		if (chunk)
			push(call, &call->write, payload, len);
	}
	h_put(out, 0);
	h_put(out, call->reply.count != 0);
	if (!call->reply.count) {
		memcpy(out->p + out->len, room, message.len);
		out->len += message.len;
	} else if (how->unused) {
		put_chunk(out, &call->reply, 0, how->claimed);
		memcpy(out->p + out->len, room, message.len);
		out->len += message.len;
	} else {
		push(call, &call->reply, room, message.len);
		put_chunk(out, &call->reply, message.len, how->claimed);
	}
}

static void put_error(struct h_writer *out, const struct h_call *call, const struct h_reply *how)
{
	put_header(out, call, how, 4);
	h_put(out, 2);
}

static u32 key_of(const struct h_call *call, const struct h_reply *how)
{
	switch (how->how) {
	case H_INV_OWN:
		return h_call_key(call, 0);
	case H_INV_KEY:
		return how->key;
	default:
		return 0;
	}
}

static bool is_open(const struct h_call *call, const struct h_chunk *chunk)
{
	unsigned int i;

	for (i = 0; i < chunk->count; i++)
		if (!h_mr_open(call->qp, chunk->segments[i].key))
			return false;
	return true;
}

bool h_answer_call(struct h_call *call, const struct h_reply *how)
{
	static u8 bytes[2 << 20] H_SCRATCH;
	struct h_writer out = { bytes };
	struct h_qp *qp = call->qp;
	bool writes = !how->error && !how->unused;

	if (writes && (!is_open(call, &call->write) || !is_open(call, &call->reply))) {
		h_peer_drop(call);
		h_qp_access_error(qp);
		return false;
	}
	if (how->error)
		put_error(&out, call, how);
	else
		put_message(&out, call, how);
	h_arrive(qp, bytes, out.len, key_of(call, how));
	if (!how->keep)
		h_peer_drop(call);
	return !qp->broken;
}

/* Sends a reply whose XID belongs to no call. */
void h_answer_unknown(u32 xid, u32 key)
{
	struct h_call call = { .xid = xid, .version = 1 };
	struct h_reply how = {};
	u8 bytes[64];
	struct h_writer out = { bytes };

	put_header(&out, &call, &how, 0);
	h_put(&out, 0);
	h_put(&out, 0);
	h_put(&out, 0);
	h_put(&out, xid);
	h_put(&out, 1);
	while (out.len < sizeof(bytes))
		h_put(&out, 0);
	h_arrive(h_qp, bytes, out.len, key);
}

/* Sends a call of the server, for example CB_NULL. */
void h_call_back(u32 xid)
{
	struct h_call call = { .xid = xid, .version = 1 };
	struct h_reply how = {};
	u8 bytes[80];
	struct h_writer out = { bytes };

	put_header(&out, &call, &how, 0);
	h_put(&out, 0);
	h_put(&out, 0);
	h_put(&out, 0);
	h_put(&out, xid);
	h_put(&out, 0);
	h_put(&out, 2);
	while (out.len < sizeof(bytes))
		h_put(&out, 0);
	h_arrive(h_qp, bytes, out.len, 0);
}
