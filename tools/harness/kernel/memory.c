// SPDX-License-Identifier: GPL-2.0
/* kmalloc() and pages. All memory lies in one range, which has a struct page for each page. */
#include <linux/gfp.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/wait.h>
#include <linux/folio_batch.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "harness.h"

unsigned long page_offset_base = U_MEMORY;
unsigned long vmemmap_base = U_PAGES;
unsigned long phys_base;
/* 1 GiB, as a guest of the lab has. */
atomic_long_t _totalram_pages = ATOMIC_LONG_INIT(1 << 18);
kmem_buckets kmalloc_caches[NR_KMALLOC_TYPES];

static void *take(size_t size, gfp_t flags, const void *owner)
{
	void *p = u_alloc(size, owner);

	if (gfpflags_allow_blocking(flags))
		h_may_sleep("an allocation that may sleep", owner);
	memset(p, flags & __GFP_ZERO ? 0 : 0xa5, size);
	return p;
}

static void give(const void *p)
{
	h_dma_check_free(p, u_size(p));
	u_free((void *)p);
}

void *__kmalloc_noprof(size_t size, gfp_t flags)
{
	return take(size, flags, __builtin_return_address(0));
}

void *__kmalloc_node_noprof(DECL_KMALLOC_PARAMS(size, b, token), gfp_t flags, int node)
{
	return take(size, flags, __builtin_return_address(0));
}

void *__kmalloc_cache_noprof(struct kmem_cache *cache, gfp_t flags, size_t size)
{
	return take(size, flags, __builtin_return_address(0));
}

void *__kmalloc_cache_node_noprof(struct kmem_cache *cache, gfp_t flags, int node, size_t size)
{
	return take(size, flags, __builtin_return_address(0));
}

struct h_allocations h_allocations;
size_t h_refused_size;
unsigned int h_contiguous;
unsigned int h_failing_allocation;
unsigned int h_sleeping_allocation;
static bool asleep;
static DECLARE_WAIT_QUEUE_HEAD(allocating);

/*
 * An allocation that starts I/O may wait for a file system, which may wait for a connection of the
 * client. Connecting may need the same mutex. So may the connection manager, whose handlers run one
 * after the other on an ordered queue: no event would follow that makes the connection.
 */
static void check_io(gfp_t flags, const void *owner)
{
	if (gfpflags_allow_blocking(flags) && current_gfp_context(flags) & __GFP_FS &&
	    h_in_client_work())
		u_fail("violation: a file system may wait for an allocation, at <%p>", owner);
	if (!gfpflags_allow_blocking(flags) || !(current_gfp_context(flags) & __GFP_IO))
		return;
	if (h_holds_mutex())
		u_fail("violation: an allocation may start I/O with a mutex held, at <%p>", owner);
	if (current->flags & PF_WQ_WORKER)
		u_fail("violation: an allocation in a handler may start I/O, at <%p>", owner);
}

static void sleep_in_allocator(gfp_t flags)
{
	if (!h_sleeping_allocation || !gfpflags_allow_blocking(flags) || --h_sleeping_allocation)
		return;
	asleep = true;
	wait_event(allocating, !asleep);
}

bool h_allocation_sleeps(void)
{
	return asleep;
}

void h_allocation_go(void)
{
	asleep = false;
	wake_up_all(&allocating);
}

/* Rust's allocator, which the module alone uses, calls this function for everything. */
static void *resize(const void *old, size_t size, gfp_t flags, const void *owner)
{
	void *p;

	h_rust = true;
	if (!size) {
		if (!ZERO_OR_NULL_PTR(old))
			give(old);
		return ZERO_SIZE_PTR;
	}
	if (h_refused_size && size >= h_refused_size)
		return NULL;
	if (h_failing_allocation && !--h_failing_allocation)
		return NULL;
	check_io(flags, owner);
	sleep_in_allocator(flags);
	h_allocations.count++;
	h_allocations.bytes += size;
	h_allocations.largest = max(h_allocations.largest, size);
	p = take(size, flags, owner);
	if (!ZERO_OR_NULL_PTR(old)) {
		memcpy(p, old, min(size, (size_t)u_size(old)));
		give(old);
	}
	return p;
}

void *krealloc_node_align_noprof(const void *old, size_t size, unsigned long align, gfp_t flags,
				 int node)
{
	if (h_contiguous && size > h_contiguous * PAGE_SIZE)
		return NULL;
	return resize(old, size, flags, __builtin_return_address(0));
}

/* More than a page may be memory of vmalloc(), and vfree() may sleep. */
void *kvrealloc_node_align_noprof(const void *old, size_t size, unsigned long align, gfp_t flags,
				  int node)
{
	if (!size && !ZERO_OR_NULL_PTR(old) && u_size(old) > PAGE_SIZE && h_holds_spinlock())
		u_fail("violation: memory of vmalloc() is freed with a spinlock held, at <%p>",
		       __builtin_return_address(0));
	return resize(old, size, flags, __builtin_return_address(0));
}

void *vrealloc_node_align_noprof(const void *old, size_t size, unsigned long align, gfp_t flags,
				 int node)
{
	return resize(old, size, flags, __builtin_return_address(0));
}

void kfree(const void *p)
{
	if (!ZERO_OR_NULL_PTR(p))
		give(p);
}

void kvfree(const void *p)
{
	kfree(p);
}

/* Frees at once: no thread is inside an RCU read-side section while another thread runs. */
void kvfree_call_rcu(struct kvfree_rcu_head *head, void *p)
{
	kfree(p);
}

bool is_vmalloc_addr(const void *p)
{
	return false;
}

char *kstrdup(const char *s, gfp_t flags)
{
	size_t size = strlen(s) + 1;

	return memcpy(take(size, flags, __builtin_return_address(0)), s, size);
}

void __percpu *pcpu_alloc_noprof(size_t size, size_t align, bool reserved, gfp_t flags)
{
	return (void __percpu *)take(size, flags | __GFP_ZERO, __builtin_return_address(0));
}

void free_percpu(void __percpu *p)
{
	kfree((void *)p);
}

/* --- Caches and pools: each stores only a size --- */

struct kmem_cache {
	unsigned int size;
};

struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size,
					    struct kmem_cache_args *args, slab_flags_t flags)
{
	struct kmem_cache *cache = u_alloc(sizeof(*cache), NULL);

	cache->size = size;
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
	u_free(cache);
}

void *kmem_cache_alloc_noprof(struct kmem_cache *cache, gfp_t flags)
{
	return take(cache->size, flags, __builtin_return_address(0));
}

void *kmem_cache_alloc_lru_noprof(struct kmem_cache *cache, struct list_lru *lru, gfp_t flags)
{
	return take(cache->size ?: 1024, flags, __builtin_return_address(0));
}

void kmem_cache_free(struct kmem_cache *cache, void *p)
{
	kfree(p);
}

mempool_t *mempool_create_node_noprof(int min_nr, mempool_alloc_t *alloc_fn,
				      mempool_free_t *free_fn, void *data, gfp_t gfp, int node)
{
	mempool_t *pool = u_alloc(sizeof(*pool), NULL);

	pool->pool_data = data;
	return pool;
}

void mempool_destroy(mempool_t *pool)
{
	u_free(pool);
}

void *mempool_alloc_slab(gfp_t gfp, void *data)
{
	return kmem_cache_alloc_noprof(data, gfp);
}

void mempool_free_slab(void *p, void *data)
{
	kfree(p);
}

void *mempool_alloc_noprof(mempool_t *pool, gfp_t gfp)
{
	return mempool_alloc_slab(gfp, pool->pool_data);
}

void mempool_free(void *p, mempool_t *pool)
{
	kfree(p);
}

/* --- Pages --- */

struct page *alloc_pages_node_noprof(int node, gfp_t flags, unsigned int order)
{
	void *p = take(PAGE_SIZE << order, flags, __builtin_return_address(0));
	struct page *page = virt_to_page(p);

	memset(page, 0, sizeof(*page));
	set_page_count(page, 1);
	u_data(p);
	return page;
}

void __free_pages(struct page *page, unsigned int order)
{
	kfree(page_address(page));
}

void free_pages(unsigned long addr, unsigned int order)
{
	kfree((void *)addr);
}

unsigned long get_free_pages_noprof(gfp_t flags, unsigned int order)
{
	return (unsigned long)page_address(alloc_pages_node_noprof(0, flags, order));
}

void __folio_put(struct folio *folio)
{
	kfree(page_address(&folio->page));
}

struct folio *__folio_alloc_noprof(gfp_t flags, unsigned int order, int node, nodemask_t *mask)
{
	return page_folio(alloc_pages_node_noprof(node, flags, order));
}

/* Fills the empty entries of an array. Returns the number of entries that are not empty. */
unsigned long alloc_pages_bulk_noprof(gfp_t flags, int node, nodemask_t *mask, int count,
				      struct page **pages)
{
	int i;

	for (i = 0; i < count; i++)
		if (!pages[i])
			pages[i] = alloc_pages_node_noprof(node, flags, 0);
	return count;
}

void release_pages(release_pages_arg arg, int count)
{
	int i;

	for (i = 0; i < count; i++)
		folio_put(page_folio(encoded_page_ptr(arg.encoded_pages[i])));
}

void __folio_batch_release(struct folio_batch *batch)
{
	while (batch->nr)
		folio_put(batch->folios[--batch->nr]);
}
