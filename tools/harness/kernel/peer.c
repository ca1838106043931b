// SPDX-License-Identifier: GPL-2.0
/*
 * The responder's receive path: it decodes RPC-over-RDMA version one (RFC 8166), and version two if
 * the responder supports it, and checks every field. A wrong field is a violation.
 */
#include "wire.h"

unsigned int h_backward_replies, h_dones;
static LIST_HEAD(calls);
bool h_replies_ascend;
/* The XID of the last reply to a call of the server. */
static u32 answered;

static void segment(struct h_cursor *cursor, struct h_chunk *chunk, u32 position)
{
	unsigned int n = chunk->count++;

	h_expect(n < H_SEGMENTS, "violation: a chunk has more than %u segments", n);
	chunk->segments[n].position = position;
	chunk->segments[n].key = h_word(cursor);
	chunk->segments[n].len = h_word(cursor);
	chunk->segments[n].addr = (u64)h_word(cursor) << 32;
	chunk->segments[n].addr |= h_word(cursor);
	h_expect(chunk->segments[n].addr <= U64_MAX - chunk->segments[n].len,
		 "violation: a segment of %u bytes begins at %#llx", chunk->segments[n].len,
		 chunk->segments[n].addr);
}

static void write_chunk(struct h_cursor *cursor, struct h_chunk *chunk)
{
	u32 count = h_word(cursor);

	while (count--)
		segment(cursor, chunk, 0);
}

static void lists(struct h_cursor *cursor, struct h_call *call)
{
	while (h_word(cursor)) {
		u32 position = h_word(cursor);

		segment(cursor, &call->read, position);
	}
	while (h_word(cursor)) {
		h_expect(!call->write.count, "violation: a message has two write chunks");
		write_chunk(cursor, &call->write);
	}
	if (h_word(cursor))
		write_chunk(cursor, &call->reply);
}

/* Fetches a read chunk into `to` by RDMA Read. Returns its length. */
static u32 pull(struct h_call *call, u8 *to, u32 room)
{
	u32 len = 0;
	unsigned int i;

	for (i = 0; i < call->read.count; i++) {
		u32 n = call->read.segments[i].len;

		if (h_fuzzed && h_mr_is_given_up(call->qp, call->read.segments[i].key)) {
			call->useless = true;
			return 0;
		}
		h_expect(len + n <= room, "violation: a read chunk has %u bytes", len + n);
		h_peer_access(call->qp, call->read.segments[i].key, call->read.segments[i].addr,
			      to + len, n, false);
		len += n;
	}
	return len;
}

static void check_payload(struct h_call *call, const u8 *payload, u32 len)
{
	u32 seed = get_unaligned_be32(call->message + 40), i;

	for (i = 0; i < len && h_payloads; i++)
		if (payload[i] != h_payload_byte(i, seed))
			h_violation("byte %u of a payload of %u bytes is wrong", i, len);
	call->payload = len;
}

/* Assembles the RPC message: the inline part, or a read chunk at position zero. */
static void message(struct h_call *call, struct h_cursor *inline_part)
{
	static u8 payload[2 << 20] H_SCRATCH;
	u32 len;

	if (call->proc == 1) {
		call->message_len = pull(call, call->message, sizeof(call->message));
		if (call->useless)
			return;
	} else {
		memcpy(call->message, inline_part->p, inline_part->left);
		call->message_len = inline_part->left;
	}
	h_expect(call->message_len >= 44, "violation: an RPC message has %u bytes",
		 call->message_len);
	h_expect(get_unaligned_be32(call->message) == call->xid,
		 "violation: the XIDs of header and call differ");
	call->kind = get_unaligned_be32(call->message + 20);
	if (call->proc == 0 && call->read.count) {
		len = pull(call, payload, sizeof(payload));
		if (call->useless)
			return;
		check_payload(call, payload, len);
	}
}

static bool is_backward_reply(const struct h_call *call, const struct h_cursor *cursor)
{
	return call->proc == 0 && cursor->left >= 8 && get_unaligned_be32(cursor->p + 4) == 1;
}

void h_peer_receive(struct h_qp *qp, const void *bytes, u32 len)
{
	struct h_cursor cursor = { bytes, len };
	struct h_call *call = u_alloc(sizeof(*call), NULL);
	u32 direction;

	if (qp->asked && len > qp->asked)
		h_violation("a message of %u bytes is sent after a request for Receives of %u", len,
			    qp->asked);
	memset(call, 0, offsetof(struct h_call, bytes));
	call->qp = qp;
	call->xid = h_word(&cursor);
	call->version = h_word(&cursor);
	h_expect(call->version == 1 || (call->version == 2 && (h_answer.two || h_fuzzed)),
		 "violation: a message has version %u", call->version);
	call->credits = h_word(&cursor);
	call->proc = h_word(&cursor);
	if (call->version == 1 && call->proc == H_DONE) {
		h_expect(!cursor.left, "violation: an RDMA_DONE has %u further bytes", cursor.left);
		h_dones++;
		u_free(call);
		return;
	}
	if (call->version == 2 && call->proc == H_TWO_OPTIONAL) {
		u_free(call);
		h_two_receive(qp, &cursor);
		return;
	}
	/* A hostile peer may be told of its errors. */
	if (call->proc == 4 && h_fuzzed)
		return u_free(call);
	direction = call->version == 2 ? h_word(&cursor) : 0;
	h_expect(call->proc <= 1, "violation: a message has type %u", call->proc);
	lists(&cursor, call);
	call->header = len - cursor.left;
	if (call->version == 2)
		h_expect(direction == is_backward_reply(call, &cursor),
			 "violation: a message has direction %u", direction);
	if (is_backward_reply(call, &cursor)) {
		h_expect(!h_replies_ascend || call->xid > answered,
			 "violation: a reply has XID %#x after %#x", call->xid, answered);
		answered = call->xid;
		h_backward_replies++;
		u_free(call);
		return;
	}
	message(call, &cursor);
	if (call->useless) {
		u_free(call);
		h_qp_error(qp);
		return h_cm_disconnected();
	}
	list_add_tail(&call->list, &calls);
}

struct h_call *h_peer_call(u32 xid)
{
	struct h_call *call;

	list_for_each_entry(call, &calls, list)
		if (call->xid == xid)
			return call;
	return NULL;
}

void h_peer_drop(struct h_call *call)
{
	list_del(&call->list);
	u_free(call);
}

/* Drops the calls that arrived over a connection which is gone. */
void h_peer_forget(const struct h_qp *qp)
{
	struct h_call *call, *next;

	list_for_each_entry_safe(call, next, &calls, list)
		if (call->qp == qp)
			h_peer_drop(call);
}

void h_peer_drop_all(void)
{
	struct h_call *call, *next;

	list_for_each_entry_safe(call, next, &calls, list)
		h_peer_drop(call);
}

/* Returns the n-th R_key of write chunk, reply chunk and read list; 0 if there are fewer. */
u32 h_call_key(const struct h_call *call, unsigned int n)
{
	if (n < call->write.count)
		return call->write.segments[n].key;
	n -= call->write.count;
	if (n < call->reply.count)
		return call->reply.segments[n].key;
	n -= call->reply.count;
	return n < call->read.count ? call->read.segments[n].key : 0;
}
