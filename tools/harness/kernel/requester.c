// SPDX-License-Identifier: GPL-2.0
/*
 * The requester: it encodes calls in RPC-over-RDMA version one (RFC 8166), has the memory that
 * their chunks describe, and checks every field of the replies. As many calls may wait for replies
 * as it requests credits.
 */
#include "wire.h"

#define KEY		0x5e1700	/* R_key of the memory of calls[0]; next: calls[1] */
#define CREDITS		64
#define CALL_HEAD	40	/* bytes of an RPC call before its arguments, with AUTH_NULL */
#define REPLY_HEAD	24	/* bytes of an RPC reply before its results */
#define REFUSAL		20	/* bytes of ERR_CHUNK */

struct call {
	const struct h_kind *kind;
	u32 xid;
	u32 writable;	/* bytes of the memory that an RDMA Write may use */
	u32 readable;	/* bytes of the memory that an RDMA Read may use */
	bool answered;
	bool replied;	/* it is answered over its own connection */
	bool refused;	/* the answer was ERR_CHUNK */
	bool honest;	/* it is as it should be, and no other message has its XID */
	bool shared;	/* the server may be using its memory for a former call */
	const struct h_qp *qp;
	u8 *memory;	/* that of the chunks */
	u8 *stale;	/* where bytes of other calls and inputs begin in it; NULL: nowhere */
};

static u8 memory[CREDITS][2 << 20] __aligned(PAGE_SIZE) H_SCRATCH;
static struct call calls[CREDITS];
static u32 last;	/* the XID of the last call */

/* Returns the last call of an XID, or NULL. */
static struct call *call_of(u32 xid)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].kind && calls[i].xid == xid)
			return &calls[i];
	return NULL;
}

/*
 * Whether the server is done with a call, so that another one may have its memory. What answers a
 * call that is not honest may be the answer to another message with its XID.
 */
static bool is_over(const struct call *call)
{
	return call->answered && (!h_hostile || (call->honest && call->replied));
}

static struct call *spare(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (!calls[i].kind || is_over(&calls[i]))
			return &calls[i];
	h_expect(h_hostile, "the requester has too many calls");
	return &calls[last % ARRAY_SIZE(calls)];
}

void h_requester_doubt(const struct h_qp *qp, const u8 *message, u32 len)
{
	u32 xid = get_unaligned_be32(message), at, n;
	struct call *call = call_of(xid);

	if (call && (call->qp != qp || h_heard(qp, xid)))
		call->honest = false;
	for (at = 0; at + 4 <= len; at += 4) {
		n = get_unaligned_be32(message + at) - KEY;
		if (n >= ARRAY_SIZE(calls) || (calls[n].kind && calls[n].xid == xid))
			continue;
		calls[n].honest = false;
		/* No call gets this memory later. */
		calls[n].kind = calls[n].kind ?: h_kinds;
	}
}

bool h_vouched(u32 xid)
{
	const struct call *call = call_of(xid);

	return call && call->honest;
}

static u32 key_of(const struct call *call)
{
	return KEY + (call - calls);
}

enum h_offer h_offer;
bool h_requester_two;

/* Results that are not DDP-eligible are all in the reply chunk. */
static bool has_write_chunk(const struct call *call)
{
	return h_offer == H_OFFER_BOTH ||
	       (h_offer == H_OFFER_NEEDED && call->kind->receive_pages && call->kind->marked);
}

static bool has_reply_chunk(const struct call *call)
{
	return h_offer == H_OFFER_REPLY_CHUNK || h_offer == H_OFFER_BOTH ||
	       (h_offer == H_OFFER_NEEDED && call->kind->receive_pages && !call->kind->marked);
}

/* Returns whether the reply is in the reply chunk: a payload does not fit inline. */
static bool is_long(const struct call *call)
{
	return has_reply_chunk(call) && call->kind->receive_pages;
}

u32 h_split;

static u32 segments(void)
{
	return h_split ?: 1;
}

/* Encodes the n-th segment of a chunk of `len` bytes. */
static void put_segment(struct h_writer *out, const struct call *call, u32 n, u32 len)
{
	u32 each = len / segments();
	u64 addr = (u64)call->memory + n * each;

	h_put(out, key_of(call));
	h_put(out, n + 1 < segments() ? each : len - n * each);
	h_put(out, addr >> 32);
	h_put(out, (u32)addr);
}

static void put_chunk(struct h_writer *out, const struct call *call, bool present)
{
	u32 i;

	h_put(out, present);
	if (!present)
		return;
	h_put(out, segments());
	for (i = 0; i < segments(); i++)
		put_segment(out, call, i, call->writable);
}

/* Encodes the transport header: RDMA_NOMSG if the call is in a read chunk at position zero. */
static void put_header(struct h_writer *out, const struct call *call, u32 position)
{
	u32 i;

	h_put(out, call->xid);
	h_put(out, 1 + h_requester_two);
	h_put(out, CREDITS);
	h_put(out, call->readable && !position);
	if (h_requester_two)
		h_put(out, 0);
	for (i = 0; i < segments() && call->readable; i++) {
		h_put(out, 1);
		h_put(out, position);
		put_segment(out, call, i, call->readable);
	}
	h_put(out, 0);
	put_chunk(out, call, has_write_chunk(call));
	if (has_write_chunk(call))
		h_put(out, 0);
	put_chunk(out, call, has_reply_chunk(call));
}

/* Encodes the RPC call up to its payload. */
static void put_call(struct h_writer *out, const struct call *call)
{
	const u32 head[] = { call->xid, 0, 2, 100003, 3, call->kind - h_kinds, 0, 0, 0, 0 };
	u32 i;

	for (i = 0; i < CALL_HEAD / 4; i++)
		h_put(out, head[i]);
	for (i = 0; i < call->kind->call_head / 4; i++)
		h_put(out, call->xid);
}

/* Encodes a payload that is not DDP-eligible, which follows the arguments. */
static void put_payload(struct h_writer *out, const struct call *call)
{
	u32 len = call->kind->send_pages;

	memset(out->p + out->len, 0, round_up(len, 4));
	h_payload_fill(out->p + out->len, 0, len, call->xid);
	out->len += round_up(len, 4);
}

static struct call *begin(const struct h_kind *kind)
{
	struct call *call = spare();
	bool shared = call->kind && !is_over(call);

	*call = (struct call) {
		.shared = shared, .kind = kind, .xid = ++last, .memory = memory[call - calls],
		.writable = kind->receive_pages, .readable = kind->marked ? kind->send_pages : 0,
	};
	if (has_reply_chunk(call) && !has_write_chunk(call))
		call->writable = REPLY_HEAD + kind->reply_head + round_up(call->writable, 4);
	else if (!has_write_chunk(call))
		call->writable = 0;
	h_payload_fill(call->memory, 0, call->readable, call->xid);
	/* Results of an earlier call, perhaps of an earlier input, cannot pass for its own. */
	if (h_payloads && call->writable > call->readable)
		memset(call->memory + call->readable, 0xee, call->writable - call->readable);
	return call;
}

static void send(struct call *call)
{
	u8 message[4096];
	struct h_writer out = { message }, chunk = { call->memory };
	const struct h_kind *kind = call->kind;
	u32 payload = kind->marked ? 0 : kind->send_pages;
	bool longer = kind->call_head + payload > sizeof(message) / 2;

	if (longer) {
		put_call(&chunk, call);
		if (payload)
			put_payload(&chunk, call);
		call->readable = chunk.len;
	}
	put_header(&out, call, longer ? 0 : CALL_HEAD + kind->call_head);
	if (!longer)
		put_call(&out, call);
	if (!longer && payload)
		put_payload(&out, call);
	call->qp = h_qp;
	call->honest = h_hostile && !call->shared && !h_alter &&
		       !h_heard_anywhere(call->xid) && h_offer != H_OFFER_BOTH;
	h_arrive(h_qp, message, out.len, 0);
}

u32 h_ask(u32 number)
{
	struct call *call = begin(&h_kinds[number]);

	send(call);
	return call->xid;
}

void h_ask_again(u32 xid)
{
	send(call_of(xid));
}

u32 h_granted;
bool h_configured;

void h_requester_reset(void)
{
	memset(calls, 0, sizeof(calls));
}

u64 h_requester_expose(u32 which, u32 readable, u32 writable, u32 *key)
{
	struct call *call = &calls[which % ARRAY_SIZE(calls)];

	*call = (struct call) {
		.kind = h_kinds, .xid = ++last, .memory = memory[call - calls],
		.readable = readable, .writable = writable, .stale = memory[call - calls],
	};
	*key = key_of(call);
	return (u64)call->memory;
}

bool h_answered(u32 xid)
{
	const struct call *call = call_of(xid);

	return call && call->answered;
}

bool h_call_refused(u32 xid)
{
	const struct call *call = call_of(xid);

	return call && call->refused;
}

/* The memory has zeros first: the effect of an input does not depend on the inputs before it. */
static void refresh(struct call *call, u8 *end)
{
	if (!call->stale || call->stale >= end)
		return;
	memset(call->stale, 0, end - call->stale);
	call->stale = end;
}

bool h_requester_access(u32 key, u64 addr, void *data, u32 len, bool write)
{
	struct call *call;
	u64 offset;
	u32 room;

	if (key - KEY >= ARRAY_SIZE(calls) || !calls[key - KEY].kind) {
		if (h_hostile)
			return false;
		h_violation("the responder uses R_key %#x, which no call has", key);
	}
	call = &calls[key - KEY];
	offset = addr - (u64)call->memory;
	room = write ? call->writable : call->readable;
	if (offset > room || len > room - offset) {
		if (h_hostile)
			return false;
		h_violation("%u bytes at offset %llu are not all in the chunk", len, offset);
	}
	if (write && call->replied && (!h_hostile || call->honest))
		h_violation("an RDMA Write follows the reply to its call");
	refresh(call, call->memory + offset + len);
	if (write)
		memcpy(call->memory + offset, data, len);
	else
		memcpy(data, call->memory + offset, len);
	return true;
}

static void expect(struct h_cursor *in, u32 value, const char *what)
{
	u32 word = h_word(in);

	if (word != value)
		h_violation("%s of a reply is %#x instead of %#x", what, word, value);
}

static void check_chunk(struct h_cursor *in, const struct call *call, bool present, u32 len)
{
	expect(in, present, "the presence of a chunk");
	if (!present)
		return;
	expect(in, 1, "the number of segments");
	expect(in, key_of(call), "an R_key");
	expect(in, len, "the length of a segment");
	expect(in, (u64)call->memory >> 32, "an address");
	expect(in, (u32)(u64)call->memory, "an address");
}

/* Checks the RPC reply up to its payload. */
static void check_results(struct h_cursor *in, const struct call *call)
{
	u32 i;

	expect(in, call->xid, "the XID");
	expect(in, 1, "the direction");
	for (i = 2; i < REPLY_HEAD / 4; i++)
		expect(in, 0, "the state or the verifier");
	for (i = 1; i < call->kind->reply_head / 4; i++)
		expect(in, call->xid, "a result");
	expect(in, call->kind->receive_pages, "the length of the payload");
}

static void check_payload(const struct call *call, const u8 *payload)
{
	if (!h_payload_is(payload, 0, call->kind->receive_pages, call->xid))
		h_violation("a payload of %u bytes is wrong", call->kind->receive_pages);
}

/* The payload of a call without a chunk follows the results. */
static void check_inline_payload(struct h_cursor *in, const struct call *call)
{
	u32 len = call->kind->receive_pages;

	if (in->left < len)
		h_violation("a reply has %u bytes of a payload of %u", in->left, len);
	check_payload(call, in->p);
	in->left -= min(in->left, round_up(len, 4));
}

static struct call *answer(u32 xid)
{
	struct call *call = call_of(xid);

	if (!call)
		h_violation("a reply has XID %#x, which no call has", xid);
	if (call->answered)
		h_violation("a call is answered twice");
	call->answered = true;
	call->replied = true;
	return call;
}

/* Checks the transport header of a reply. */
static void check_header(struct h_cursor *in, const struct call *call)
{
	const struct h_kind *kind = call->kind;

	expect(in, 1 + h_requester_two, "the version");
	h_granted = h_word(in);
	if (!h_granted)
		h_violation("a reply grants no credit");
	expect(in, is_long(call), "the type");
	if (h_requester_two)
		expect(in, 1, "the direction");
	expect(in, 0, "the read list");
	check_chunk(in, call, has_write_chunk(call), kind->receive_pages);
	if (has_write_chunk(call))
		expect(in, 0, "the end of the write list");
	check_chunk(in, call, has_reply_chunk(call), is_long(call) ? call->writable : 0);
}

u32 h_pulled_key;

/* Whether a reply is in read chunks: RDMA_NOMSG with a read list. */
static bool is_exposed(const u8 *message, u32 len)
{
	return len > REFUSAL && get_unaligned_be32(message + 12) == 1 &&
	       get_unaligned_be32(message + 16);
}

/* Reads a reply whose read chunks are at position zero. */
static void pull(struct h_cursor *in, const struct call *call)
{
	static u8 reply[2 << 20] H_SCRATCH;
	struct h_cursor pulled = { reply };
	u64 addr;
	u32 len;

	expect(in, 1, "the version");
	h_granted = h_word(in);
	if (!h_granted)
		h_violation("a reply grants no credit");
	expect(in, 1, "the type");
	while (h_word(in)) {
		expect(in, 0, "the position of a read chunk");
		h_pulled_key = h_word(in);
		len = h_word(in);
		addr = (u64)h_word(in) << 32;
		addr |= h_word(in);
		h_expect(len <= sizeof(reply) - pulled.left, "a reply is too long");
		h_peer_access(h_qp, h_pulled_key, addr, reply + pulled.left, len, false);
		pulled.left += len;
	}
	expect(in, 0, "the write list");
	expect(in, 0, "the reply chunk");
	check_results(&pulled, call);
	check_inline_payload(&pulled, call);
	if (pulled.left || in->left)
		h_violation("a reply has %u bytes too many", pulled.left + in->left);
}

/* All chunks of a call have one R_key, so the reply invalidates it if both sides have set R. */
static void check_invalidated(const struct call *call, u32 key)
{
	bool chunks = call->readable || call->writable;

	if (key && !h_answer.remote_invalidation)
		h_violation("a reply invalidates R_key %#x, and the requester does not allow it",
			    key);
	if (key && (key != key_of(call) || !chunks))
		h_violation("a reply invalidates R_key %#x, which the call does not have", key);
	if (!key && chunks && h_answer.remote_invalidation)
		h_violation("a reply leaves the memory of its call valid");
}

unsigned int h_called_back;

/* Returns whether a message is a call of the service: without chunks, in RDMA_MSG. */
static bool calls_back(const u8 *message, u32 len)
{
	/* The header of version two has a word more. */
	u32 direction = len >= 40 && get_unaligned_be32(message + 4) == 2 ? 36 : 32;

	return len >= direction + 4 && !get_unaligned_be32(message + 12) &&
	       !get_unaligned_be32(message + direction);
}

bool h_provokes;
unsigned int h_errors;

/* Returns whether a message is the answer to a message that is no call. */
static bool is_provoked(const u8 *message, u32 len)
{
	return h_provokes && len >= REFUSAL && get_unaligned_be32(message + 12) == 4;
}

/* An error is shorter than any reply: XID, version, credits, RDMA_ERROR, ERR_CHUNK. */
static void check_refusal(struct h_cursor *in)
{
	expect(in, 1, "the version");
	if (!h_word(in))
		h_violation("an error grants no credit");
	expect(in, 4, "the type of an error");
	expect(in, 2, "the error");
}

/* Reads the lists of a reply. Returns the bytes that its write chunk has. */
static u32 written(struct h_cursor *in)
{
	u32 n, sum = 0;

	if (h_word(in) || !h_word(in))
		return 0;
	for (n = h_word(in); n; n--) {
		h_word(in);
		sum += h_word(in);
		h_word(in);
		h_word(in);
	}
	return sum;
}

/*
 * The results of an honest call in its chunk are right, whatever else a hostile requester has sent:
 * those before the payload, and the payload. The answer may be an error, which has no results.
 */
static void check_honest(const struct call *call, struct h_cursor *in, u32 type)
{
	struct h_cursor whole = { call->memory, call->writable };
	u32 payload = call->kind->receive_pages;

	if (!call->honest || h_cached_used || call->answered || !payload)
		return;
	if (type == 0 && call->writable == payload && written(in) == payload)
		return check_payload(call, call->memory);
	/* The results may be in read chunks instead. */
	if (type != 1 || call->writable <= payload || h_word(in))
		return;
	if (get_unaligned_be32(call->memory + 20))
		return;
	check_results(&whole, call);
	check_payload(call, whole.p);
}

/*
 * A hostile requester notes which of its calls are answered. Whatever the module answers, its
 * header grants a credit, in a version that the connection may have.
 */
static void receive_any(const u8 *message, u32 len, const struct h_qp *qp)
{
	struct h_cursor in = { message, len };
	struct call *call = call_of(h_word(&in));
	u32 version = h_word(&in), credits = h_word(&in), type = h_word(&in);

	/* An error has the version of the message that it answers. */
	if (((version < 1 || version > 2) && type != 4) || !credits || type > 5)
		h_violation("a message has version %u, %u credits, type %u", version, credits,
			    type);
	if (calls_back(message, len)) {
		h_called_back++;
	} else if (call) {
		if (version == 2)
			h_word(&in);
		if (call->qp == qp) {
			check_honest(call, &in, type);
			call->replied = true;
		}
		call->answered = true;
	}
}

void h_requester_receive(const struct h_qp *qp, const void *message, u32 len, u32 invalidated)
{
	struct h_cursor in = { message, len };
	struct h_cursor room;
	struct call *call;
	u32 xid = h_word(&in);
	bool whole;

	if (h_hostile)
		return receive_any(message, len, qp);
	if (xid == H_CONF_XID) {
		h_configured = true;
		return;
	}
	if (h_requester_two && get_unaligned_be32(message + 12) == H_TWO_OPTIONAL)
		return;
	if (calls_back(message, len)) {
		h_called_back++;
		return;
	}
	if (is_provoked(message, len)) {
		h_errors++;
		return;
	}
	call = answer(xid);
	if (len == REFUSAL) {
		check_refusal(&in);
		call->refused = true;
		return;
	}
	if (is_exposed(message, len))
		return pull(&in, call);
	room = (struct h_cursor) { call->memory, call->writable };
	whole = is_long(call);
	check_header(&in, call);
	check_results(whole ? &room : &in, call);
	if (call->writable)
		check_payload(call, whole ? room.p : call->memory);
	else
		check_inline_payload(&in, call);
	if (in.left)
		h_violation("a reply has %u bytes too many", in.left);
	check_invalidated(call, invalidated);
}
