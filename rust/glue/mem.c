// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of the page map, of page references and of allocation
 * scopes that Rust cannot call, and a member of a structure that it cannot see. Each
 * wrapper is named after what it calls or reads.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <rpcrdma/glue_mem.h>

struct page *rr_virt_to_page(const void *addr)
{
	return virt_to_page(addr);
}

void *rr_page_to_virt(const struct page *page)
{
	return page_to_virt(page);
}

void rr_put_page(struct page *page)
{
	put_page(page);
}

unsigned long rr_alloc_pages_bulk(gfp_t flags, int n, struct page **pages)
{
	return alloc_pages_bulk(flags, n, pages);
}

void rr_release_pages(struct page **pages, int n)
{
	release_pages(pages, n);
}

u64 rr_net_cookie(const struct net *net)
{
	return net->net_cookie;
}

struct net *rr_get_net(struct net *net)
{
	return get_net(net);
}

void rr_put_net(struct net *net)
{
	put_net(net);
}

unsigned int rr_memalloc_flags_save(unsigned int flags)
{
	return memalloc_flags_save(flags);
}

void rr_memalloc_flags_restore(unsigned int flags)
{
	memalloc_flags_restore(flags);
}
