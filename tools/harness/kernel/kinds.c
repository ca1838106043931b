// SPDX-License-Identifier: GPL-2.0
/*
 * The kinds of RPC. Their sizes are similar to those of NFSv3. The arguments begin with a seed,
 * which determines the contents of a payload in the call. The XID determines the contents of a
 * payload in the reply. The fuzzer makes further kinds, each of which has the sizes of one call.
 */
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/xdr.h>
#include "harness.h"

#define MIB (1u << 20)

struct h_kind h_kinds[H_ALL_KINDS] = {
	[H_INLINE] = { "inline", .call_head = 64, .reply_head = 112 },
	[H_READ_4K] = {
		"read_4k", .receive_pages = 4096, .marked = true,
		.call_head = 80, .reply_head = 104,
	},
	[H_WRITE_4K] = {
		"write_4k", .send_pages = 4096, .marked = true,
		.call_head = 88, .reply_head = 112,
	},
	[H_READ_1M_ADJACENT] = {
		"read_1m_adjacent", .receive_pages = MIB, .marked = true,
		.call_head = 80, .reply_head = 104,
	},
	[H_READ_1M_SCATTERED] = {
		"read_1m_scattered", .receive_pages = MIB, .marked = true, .scattered = true,
		.call_head = 80, .reply_head = 104,
	},
	[H_WRITE_1M_ADJACENT] = {
		"write_1m_adjacent", .send_pages = MIB, .marked = true,
		.call_head = 88, .reply_head = 112,
	},
	[H_WRITE_1M_SCATTERED] = {
		"write_1m_scattered", .send_pages = MIB, .marked = true, .scattered = true,
		.call_head = 88, .reply_head = 112,
	},
	/* The results of READDIR are not DDP-eligible. */
	[H_READDIR] = {
		"readdir", .receive_pages = 32768, .scattered = true,
		.call_head = 96, .reply_head = 104,
	},
	/* For example a SYMLINK or CREATE with a long name or label. */
	[H_LONG_CALL] = { "long_call", .call_head = 6000, .reply_head = 112 },
	/* For example a READ behind operations with long arguments. */
	[H_LONG_READ] = {
		"long_read", .receive_pages = 4096, .marked = true,
		.call_head = 3000, .reply_head = 104,
	},
};

bool h_payloads = true;

#define ROW	(1u << 16)

/*
 * A payload consists of pieces of this row of pseudo-random bytes, one for each page of the
 * payload: bytes that are displaced, in their page or to another one, are wrong.
 */
static const u8 *row(void)
{
	static u64 words[ROW / sizeof(u64)] H_SCRATCH;
	u64 word = 1;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(words) && !words[ARRAY_SIZE(words) - 1]; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		words[i] = word;
	}
	return (const u8 *)words;
}

/* Returns the bytes of a payload from an offset on, and how many follow in the same page. */
static const u8 *piece(u32 offset, u32 seed, u32 *len)
{
	u32 mixed = (offset >> PAGE_SHIFT) * 0x85ebca6bu + seed * 0x9e3779b1u;

	*len = min_t(u32, *len, PAGE_SIZE - offset % PAGE_SIZE);
	return row() + (mixed >> 8) % (ROW - PAGE_SIZE) + offset % PAGE_SIZE;
}

void h_payload_fill(u8 *to, u32 offset, u32 len, u32 seed)
{
	u32 n = len;

	for (; len && h_payloads; len -= n, offset += n, to += n, n = len) {
		const u8 *from = piece(offset, seed, &n);

		memcpy(to, from, n);
	}
}

bool h_payload_is(const u8 *bytes, u32 offset, u32 len, u32 seed)
{
	u32 n = len;

	for (; len && h_payloads; len -= n, offset += n, bytes += n, n = len) {
		const u8 *wanted = piece(offset, seed, &n);

		if (memcmp(bytes, wanted, n))
			return false;
	}
	return true;
}

/* Four sums, each of every fourth word, take less time than one: none waits for another. */
u64 h_sum(const void *bytes, size_t len)
{
	u64 sums[4] = { len, 1, 2, 3 };
	const u8 *p = bytes;
	unsigned int i;

	for (; len >= sizeof(sums); len -= sizeof(sums), p += sizeof(sums))
		for (i = 0; i < ARRAY_SIZE(sums); i++)
			sums[i] = (sums[i] ^ get_unaligned((const u64 *)p + i)) * H_SUM_FACTOR;
	while (len--)
		sums[0] = (sums[0] ^ *p++) * H_SUM_FACTOR;
	for (i = 1; i < ARRAY_SIZE(sums); i++)
		sums[0] = (sums[0] ^ sums[i]) * H_SUM_FACTOR;
	return sums[0];
}

static unsigned int odd_count;
static int decode(struct rpc_rqst *request, struct xdr_stream *xdr, void *data);

u32 h_odd_kind(const struct h_kind *kind)
{
	u32 number = H_ODD + odd_count;

	if (odd_count == H_ODD_KINDS)
		return H_INLINE;
	odd_count++;
	h_kinds[number] = *kind;
	h_procedures[number] = h_procedures[H_INLINE];
	h_procedures[number].p_proc = number;
	h_procedures[number].p_decode = kind->silent ? NULL : decode;
	h_procedures[number].p_statidx = number;
	h_procedures[number].p_arglen = (kind->call_head + kind->call_tail) / 4;
	h_procedures[number].p_replen = kind->reply_head / 4 + 1;
	return number;
}

/* Encodes the arguments behind a payload, as those of a GETATTR behind a WRITE. */
static void encode_tail(const struct h_rpc *rpc, struct xdr_stream *xdr)
{
	u32 len = rpc->kind->call_tail, i;
	__be32 *p = len ? xdr_reserve_space(xdr, len) : NULL;

	h_expect(p || !len, "no room for arguments behind a payload");
	for (i = 0; i < len / 4; i++)
		p[i] = cpu_to_be32(rpc->seed);
}

static void encode(struct rpc_rqst *request, struct xdr_stream *xdr, const void *data)
{
	struct h_rpc *rpc = (struct h_rpc *)data;
	const struct h_kind *kind = rpc->kind;
	__be32 *p = xdr_reserve_space(xdr, kind->call_head);
	u32 i;

	h_expect(p, "no room for arguments");
	for (i = 0; i < kind->call_head / 4; i++)
		p[i] = cpu_to_be32(rpc->seed);
	if (kind->counted)
		p[i - 1] = cpu_to_be32(kind->send_pages);
	rpc->xid = be32_to_cpu(request->rq_xid);
	rpc->encodings++;
	if (kind->send_pages) {
		xdr_write_pages(xdr, h_encrypts ? h_encrypt(request, rpc) : rpc->pages,
				kind->offset, kind->send_pages);
		encode_tail(rpc, xdr);
		if (kind->marked)
			xdr->buf->flags |= XDRBUF_WRITE;
	}
	if (kind->receive_pages) {
		rpc_prepare_reply_pages(request, rpc->pages, kind->offset, kind->receive_pages,
					kind->reply_head / 4);
		if (kind->marked)
			request->rq_rcv_buf.flags |= XDRBUF_READ;
	}
}

static void check_pages(struct h_rpc *rpc, u32 len)
{
	u32 done, n;

	for (done = 0; done < len; done += n) {
		const u8 *bytes;

		n = len - done;
		bytes = h_rpc_payload(rpc, done, &n);
		if (!h_payload_is(bytes, done, n, rpc->xid + rpc->serial))
			h_violation("a payload of %u bytes is wrong from byte %u on", len, done);
	}
}

/* Checks the results before the payload. Between both roles, they name the execution. */
static void check_results(struct h_rpc *rpc, const __be32 *p, u32 count)
{
	u32 i;

	if (be32_to_cpu(p[0]) != rpc->xid)
		h_violation("a reply has the results of another call");
	rpc->serial = be32_to_cpu(p[1]) - rpc->xid;
	h_expect(h_both || !rpc->serial, "violation: a result is wrong");
	for (i = 2; i < count; i++)
		if (p[i] != p[1])
			h_violation("result %u of a reply is not of the same execution", i);
}

/* Decodes a reply of a hostile peer, which may say anything. */
static int decode_any(struct h_rpc *rpc, struct xdr_stream *xdr, const __be32 *p)
{
	if (!p)
		return -EIO;
	if (rpc->kind->receive_pages)
		rpc->received = xdr_read_pages(xdr, be32_to_cpu(p[rpc->kind->reply_head / 4 - 1]));
	if (!rpc->trusted || rpc->doubted)
		return 0;
	check_results(rpc, p, rpc->kind->reply_head / 4 - 1);
	h_expect(rpc->received == rpc->kind->receive_pages,
		 "violation: a reply of %u bytes has %u", rpc->kind->receive_pages, rpc->received);
	check_pages(rpc, rpc->received);
	return 0;
}

static int decode(struct rpc_rqst *request, struct xdr_stream *xdr, void *data)
{
	struct h_rpc *rpc = data;
	const struct h_kind *kind = rpc->kind;
	__be32 *p = xdr_inline_decode(xdr, kind->reply_head);
	u32 len;

	h_rpc_check_memory(rpc, "an RPC has its reply");
	if (h_hostile)
		return decode_any(rpc, xdr, p);
	if (!p)
		h_violation("a reply is too short for its results");
	check_results(rpc, p, kind->reply_head / 4 - 1);
	len = be32_to_cpu(p[kind->reply_head / 4 - 1]);
	if (kind->receive_pages) {
		if (xdr_read_pages(xdr, len) != len)
			h_violation("a reply of %u bytes has fewer", len);
		check_pages(rpc, len);
	}
	rpc->received = len;
	return 0;
}

/* A procedure. p_replen has one word more than the results, for the padding of a payload. */
#define PROCEDURE(n, call, reply) [n] = {		\
	.p_proc = n,					\
	.p_encode = encode,				\
	.p_decode = decode,				\
	.p_arglen = (call) / 4,				\
	.p_replen = (reply) / 4 + 1,			\
	.p_statidx = n,					\
	.p_name = #n,					\
}

struct rpc_procinfo h_procedures[H_ALL_KINDS] = {
	PROCEDURE(H_INLINE, 64, 112),
	PROCEDURE(H_READ_4K, 80, 104),
	PROCEDURE(H_WRITE_4K, 88, 112),
	PROCEDURE(H_READ_1M_ADJACENT, 80, 104),
	PROCEDURE(H_READ_1M_SCATTERED, 80, 104),
	PROCEDURE(H_WRITE_1M_ADJACENT, 88, 112),
	PROCEDURE(H_WRITE_1M_SCATTERED, 88, 112),
	PROCEDURE(H_READDIR, 96, 104),
	PROCEDURE(H_LONG_CALL, 6000, 112),
	PROCEDURE(H_LONG_READ, 3000, 104),
};
