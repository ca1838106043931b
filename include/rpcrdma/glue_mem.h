/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers of rust/glue/mem.c: the page map, references to pages, network
 * namespaces, and allocation scopes. The rooms rust/mem and rust/sunrpc use them.
 */
#ifndef _RPCRDMA_GLUE_MEM_H
#define _RPCRDMA_GLUE_MEM_H

#include <linux/gfp_types.h>
#include <linux/mm_types.h>
#include <net/net_namespace.h>

struct page *rr_virt_to_page(const void *addr);
void *rr_page_to_virt(const struct page *page);
void rr_put_page(struct page *page);
unsigned long rr_alloc_pages_bulk(gfp_t flags, int n, struct page **pages);
void rr_release_pages(struct page **pages, int n);
u64 rr_net_cookie(const struct net *net);
struct net *rr_get_net(struct net *net);
void rr_put_net(struct net *net);

unsigned int rr_memalloc_flags_save(unsigned int flags);
void rr_memalloc_flags_restore(unsigned int flags);

#endif /* _RPCRDMA_GLUE_MEM_H */
