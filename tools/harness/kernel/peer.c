// SPDX-License-Identifier: GPL-2.0
/*
 * The responder's receive path: it decodes RPC-over-RDMA version one (RFC 8166), and version two if
 * the responder supports it, and checks every field. A wrong field is a violation.
 */
#include "fuzz.h"

/* Message type RDMA_MSGP of RFC 5666, and the alignment of the last one. */
#define PADDED		2
static u32 alignment;
/* Bytes of an RPC call before its arguments, with AUTH_NULL. */
#define CALL_HEAD	40
/* The program of the Connection Configuration Protocol. */
#define CONF_RDMA	100417

unsigned int h_backward_replies, h_dones;
u32 h_configures;
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
	u32 seed = get_unaligned_be32(call->message + 40);
	const struct h_kind *kind = &h_kinds[call->kind % H_ALL_KINDS];

	h_expect(len == kind->send_pages, "violation: a payload of %u bytes has %u",
		 kind->send_pages, len);
	if (!h_payload_is(payload, 0, len, seed))
		h_violation("a payload of %u bytes is wrong", len);
	call->payload = len;
}

/*
 * Finds the payload of RDMA_MSGP, which begins at a multiple of the alignment behind a head that
 * ends with its length. Returns the length of the head.
 */
static u32 aligned(struct h_call *call, const struct h_cursor *in)
{
	const struct h_kind *kind = &h_kinds[get_unaligned_be32(in->p + 20) % H_ALL_KINDS];
	u32 head = CALL_HEAD + kind->call_head;
	u32 at = round_up(call->header + head, alignment) - call->header;

	h_expect(in->left >= at + kind->send_pages, "violation: RDMA_MSGP is truncated");
	memcpy(call->message, in->p, head);
	call->kind = get_unaligned_be32(call->message + 20);
	check_payload(call, in->p + at, kind->send_pages);
	return head;
}

/* Checks the arguments behind a payload in a read chunk. */
static void check_tail(const struct h_call *call)
{
	u32 len = h_kinds[call->kind % H_ALL_KINDS].call_tail, at;

	for (at = call->message_len - len; at < call->message_len; at += 4)
		if (get_unaligned_be32(call->message + at) !=
		    get_unaligned_be32(call->message + 40))
			h_violation("arguments behind a payload are wrong");
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
	} else if (call->version == 1 && call->proc == PADDED) {
		call->message_len = aligned(call, inline_part);
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
		check_tail(call);
	}
}

static bool is_backward_reply(const struct h_call *call, const struct h_cursor *cursor)
{
	return call->proc == 0 && cursor->left >= 8 && get_unaligned_be32(cursor->p + 4) == 1;
}

/* Checks the type of a message that is a call or a reply; reads the further words of RDMA_MSGP. */
static void check_type(const struct h_call *call, struct h_cursor *cursor)
{
	if (call->version == 1 && call->proc == PADDED) {
		alignment = h_word(cursor);
		h_expect(is_power_of_2(alignment) && h_word(cursor),
			 "violation: RDMA_MSGP has alignment %u", alignment);
	} else {
		h_expect(call->proc <= 1, "violation: a message has type %u", call->proc);
	}
}

/* Returns whether a message is CONF_RDMA, which only the fuzzer answers. */
static bool configures(const struct h_call *call)
{
	if (get_unaligned_be32(call->message + 12) != CONF_RDMA)
		return false;
	h_configures = call->xid;
	return true;
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
	check_type(call, &cursor);
	lists(&cursor, call);
	call->header = len - cursor.left;
	if (call->version == 2)
		h_expect(direction == is_backward_reply(call, &cursor),
			 "violation: a message has direction %u", direction);
	if (is_backward_reply(call, &cursor)) {
		h_expect(!h_replies_ascend || call->xid > answered,
			 "violation: a reply has XID %#x after %#x", call->xid, answered);
		if (h_fuzzed && !h_heard(qp, call->xid))
			h_violation("a reply has XID %#x, which no message of this connection has",
				    call->xid);
		answered = call->xid;
		h_backward_replies++;
		u_free(call);
		return;
	}
	message(call, &cursor);
	if (!call->useless && !configures(call))
		return list_add_tail(&call->list, &calls);
	if (call->useless) {
		h_qp_error(qp);
		h_cm_disconnected();
	}
	u_free(call);
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
