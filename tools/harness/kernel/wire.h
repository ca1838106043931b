/* SPDX-License-Identifier: GPL-2.0 */
/* Reads and writes the words of a message. A message that ends too early is a violation. */
#ifndef HARNESS_WIRE_H
#define HARNESS_WIRE_H

#include "harness.h"

/* Message type RDMA_DONE of RFC 5666. */
#define H_DONE 3
/* Message type RDMA2_OPTIONAL of version two. */
#define H_TWO_OPTIONAL 5

/* The XID of a call of the Connection Configuration Protocol, and whether it was answered. */
#define H_CONF_XID 0xc0ffee
extern bool h_configured;

/* The requester speaks version two, and ignores operations. */
extern bool h_requester_two;

/* The position in a message that is being decoded. */
struct h_cursor {
	const u8 *p;
	u32 left;
};

static inline u32 h_word(struct h_cursor *cursor)
{
	u32 value;

	h_expect(cursor->left >= 4, "violation: a message is truncated");
	value = get_unaligned_be32(cursor->p);
	cursor->p += 4;
	cursor->left -= 4;
	return value;
}

/* A message that is being encoded. The caller provides enough memory. */
struct h_writer {
	u8 *p;
	u32 len;
};

static inline void h_put(struct h_writer *out, u32 value)
{
	put_unaligned_be32(value, out->p + out->len);
	out->len += 4;
}

/* Delivers a message of these words. */
void h_arrive_words(struct h_qp *qp, const u32 *words, u32 count);

#endif /* HARNESS_WIRE_H */
