// SPDX-License-Identifier: GPL-2.0
/*
 * A server whose requester says by the Connection Configuration Protocol of RFC 5666 how many RDMA
 * Reads it can have active.
 */
#include "wire.h"

/* Calls CONF_RDMA: this many RDMA Reads may be active. */
static void configure(u32 reads)
{
	const u32 words[] = {
		H_CONF_XID, 1, 64, 0, 0, 0, 0,
		H_CONF_XID, 0, 2, 100417, 1, 1, 0, 0, 0, 0, 4096, 4096, reads,
	};

	h_configured = false;
	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
	h_live(0);
	h_expect(h_configured, "CONF_RDMA is not answered");
}

/* Returns how many RDMA Reads a call takes, and expects that all of them are fenced, or none. */
static unsigned int reads_of(enum h_kind_number kind, bool fenced)
{
	unsigned int reads = h_reads, fences = h_fenced_reads;

	h_serve(kind);
	reads = h_reads - reads;
	fences = h_fenced_reads - fences;
	h_expect(fences == (fenced ? reads : 0), "%u of %u RDMA Reads are fenced", fences, reads);
	return reads;
}

/* A requester that can have one active RDMA Read gets one at a time. */
void h_single_reads(void)
{
	h_serve_begin();
	h_expect(reads_of(H_WRITE_4K, false), "a WRITE takes no RDMA Read");
	configure(64);
	reads_of(H_WRITE_4K, false);
	configure(1);
	h_expect(reads_of(H_WRITE_4K, true), "a WRITE takes no RDMA Read");
	h_expect(reads_of(H_WRITE_1M_SCATTERED, true) > 1, "a long WRITE takes one RDMA Read");
	reads_of(H_LONG_CALL, true);
	h_serve_end();
}
