/* SPDX-License-Identifier: GPL-2.0 */
/* The kinds of RPC, and their payloads. harness.h includes this header. */
#ifndef HARNESS_KINDS_H
#define HARNESS_KINDS_H

struct h_kind {
	const char *name;
	u32 send_pages, receive_pages;	/* payloads, in bytes */
	u32 call_head;			/* bytes of arguments without the payload */
	u32 call_tail;			/* bytes of arguments behind the payload */
	u32 reply_head;			/* bytes of results without the payload */
	bool scattered;
	bool marked;			/* the payload is DDP-eligible */
	u32 offset;			/* that of the client's payload in its first page */
	bool silent;			/* there is no reply */
	bool counted;			/* the last word of the arguments is the payload's length */
	bool link;			/* nfsd marks it as it does the text of a link */
};

enum h_kind_number {
	H_INLINE, H_READ_4K, H_WRITE_4K, H_READ_1M_ADJACENT, H_READ_1M_SCATTERED,
	H_WRITE_1M_ADJACENT, H_WRITE_1M_SCATTERED, H_READDIR, H_LONG_CALL, H_LONG_READ, H_KINDS
};

/* Those of the fuzzer follow. */
#define H_ODD		H_KINDS
#define H_ODD_KINDS	16
#define H_ALL_KINDS	(H_ODD + H_ODD_KINDS)

extern struct h_kind h_kinds[H_ALL_KINDS];
extern struct rpc_procinfo h_procedures[H_ALL_KINDS];
/* Makes a kind. Returns its number, or H_INLINE if there are too many. */
u32 h_odd_kind(const struct h_kind *kind);
/* Writes a part of a payload; returns whether bytes are that part. */
void h_payload_fill(u8 *to, u32 offset, u32 len, u32 seed);
bool h_payload_is(const u8 *bytes, u32 offset, u32 len, u32 seed);
/* A sum of bytes, which changes if any eight of them change. */
#define H_SUM_FACTOR	0x100000001b3ull
u64 h_sum(const void *bytes, size_t len);

#endif /* HARNESS_KINDS_H */
