// SPDX-License-Identifier: GPL-2.0
/*
 * The kinds of RPC. Their sizes are similar to those of NFSv3. The arguments begin with a seed,
 * which determines the contents of a payload in the call. The XID determines the contents of a
 * payload in the reply.
 */
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/xdr.h>
#include "harness.h"

#define MIB (1u << 20)

const struct h_kind h_kinds[H_KINDS] = {
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

/* Returns a byte of a payload. The contents differ from page to page. */
u8 h_payload_byte(u32 offset, u32 seed)
{
	return offset * 7 + (offset >> 12) * 31 + seed;
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
	rpc->xid = be32_to_cpu(request->rq_xid);
	rpc->encodings++;
	if (kind->send_pages) {
		xdr_write_pages(xdr, rpc->pages, 0, kind->send_pages);
		if (kind->marked)
			xdr->buf->flags |= XDRBUF_WRITE;
	}
	if (kind->receive_pages) {
		rpc_prepare_reply_pages(request, rpc->pages, 0, kind->receive_pages,
					kind->reply_head / 4);
		if (kind->marked)
			request->rq_rcv_buf.flags |= XDRBUF_READ;
	}
}

static void check_pages(struct h_rpc *rpc, u32 len)
{
	u32 i;

	for (i = 0; i < len && h_payloads; i++) {
		u8 *page = page_address(rpc->pages[i >> PAGE_SHIFT]);

		if (page[i & ~PAGE_MASK] != h_payload_byte(i, rpc->xid + rpc->serial))
			h_violation("byte %u of a payload of %u bytes is wrong", i, len);
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

const struct rpc_procinfo h_procedures[H_KINDS] = {
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
