// SPDX-License-Identifier: GPL-2.0
/*
 * The pages that a security flavour which encrypts provides for the payloads of calls, as
 * alloc_enc_pages() of RPCSEC_GSS does. Their contents are those of the payload. When a call is
 * encoded again, the flavour frees the pages first. So no peer may reach them by then.
 */
#include <linux/mm.h>
#include <linux/sunrpc/xprt.h>
#include "harness.h"

bool h_encrypts;

/* Frees the pages of a call. */
static void release(struct rpc_rqst *request)
{
	void *memory = page_address(request->rq_enc_pages[0]);

	h_mr_check_owner(memory, u_size(memory), "a flavour frees the pages of a call");
	h_dma_check_free(memory, u_size(memory));
	u_free(memory);
	u_free(request->rq_enc_pages);
	request->rq_release_snd_buf = NULL;
}

struct page **h_encrypt(struct rpc_rqst *request, const struct h_rpc *rpc)
{
	unsigned int count = rpc->page_count, i;
	u8 *memory;

	if (request->rq_release_snd_buf)
		request->rq_release_snd_buf(request);
	memory = u_alloc(count * PAGE_SIZE, NULL);
	request->rq_enc_pages = u_alloc(count * sizeof(*request->rq_enc_pages), NULL);
	request->rq_enc_pages_num = count;
	for (i = 0; i < count; i++) {
		request->rq_enc_pages[i] = virt_to_page(memory + i * PAGE_SIZE);
		set_page_count(request->rq_enc_pages[i], 1);
		memcpy(memory + i * PAGE_SIZE, page_address(rpc->pages[i]), PAGE_SIZE);
	}
	request->rq_release_snd_buf = release;
	return request->rq_enc_pages;
}
