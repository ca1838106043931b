// SPDX-License-Identifier: GPL-2.0
/* Memory regions, and the peer's access to their memory. */
#include <linux/scatterlist.h>
#include <linux/wait.h>
#include "harness.h"
#include "limits.h"

static LIST_HEAD(regions);
static DECLARE_WAIT_QUEUE_HEAD(mapping);
/* The threads that map a region, and how many of them may go on. */
static unsigned int mapping_threads, released_threads;
bool h_slow_mapping;
u64 h_iova;
unsigned int h_most_regions;
bool h_bounced;
unsigned int h_most_taken;
static unsigned int count;
static u32 last_id;

struct ib_mr *ib_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 depth)
{
	struct h_mr *mr;

	h_driver_ends("a region is made", __builtin_return_address(0));
	if (!(pd->device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return ERR_PTR(-EOPNOTSUPP);
	if (h_most_regions && count >= h_most_regions)
		return ERR_PTR(-ENOMEM);
	mr = u_alloc(sizeof(*mr), __builtin_return_address(0));
	h_expect(type == IB_MR_TYPE_MEM_REG || type == IB_MR_TYPE_SG_GAPS,
		 "a region has type %d", type);
	h_limits_region(pd->device, type, depth);
	memset(mr, 0, sizeof(*mr));
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->ib.type = type;
	mr->ib.res.id = ++last_id;
	mr->ib.rkey = last_id << 8;
	mr->ib.lkey = mr->ib.rkey;
	mr->pd = pd;
	mr->depth = depth;
	list_add(&mr->all, &regions);
	atomic_inc(&pd->usecnt);
	h_object(pd->device, 1);
	count++;
	return &mr->ib;
}

unsigned int h_mr_live(void)
{
	return count;
}

bool h_mr_reachable(const struct h_mr *mr)
{
	return mr->valid && mr->qp && h_qp_in_use(mr->qp);
}

int ib_dereg_mr_user(struct ib_mr *ib, struct ib_udata *udata)
{
	struct h_mr *mr = container_of(ib, struct h_mr, ib);

	h_driver_ends("a region is destroyed", __builtin_return_address(0));
	if (h_mr_reachable(mr))
		h_violation("region %#x is destroyed while the peer can still reach it", mr->key);
	list_del(&mr->all);
	atomic_dec(&mr->pd->usecnt);
	h_object(ib->device, -1);
	count--;
	u_free(mr);
	return 0;
}

/*
 * Returns whether a region can map an element. Without support for gaps, every element but the
 * first must begin at a page boundary, and every element but the last must end at one.
 */
static bool fits(const struct ib_mr *mr, const struct scatterlist *sg, int i, int nents, u32 page)
{
	u64 start = sg_dma_address(sg), end = start + sg_dma_len(sg);

	if (mr->type == IB_MR_TYPE_SG_GAPS)
		return true;
	return (i == 0 || start % page == 0) && (i == nents - 1 || end % page == 0);
}

/*
 * Returns whether a region ends before an element because of the device's addresses. A bounce
 * buffer of at least a page begins at a page boundary, a shorter one anywhere.
 */
static bool ends_before(struct scatterlist *sgl, int i, u32 page)
{
	if (h_most_taken && i >= h_most_taken)
		return true;
	return h_bounced && i && (sg_dma_len(&sgl[i]) < page || sg_dma_len(&sgl[i - 1]) % page);
}

/*
 * Returns the part of a region's depth that an element takes: a region with gaps has an entry for
 * each element, another one for each page.
 */
static u32 entries_of(const struct ib_mr *mr, const struct scatterlist *sg, u32 page)
{
	if (mr->type == IB_MR_TYPE_SG_GAPS)
		return 1;
	return DIV_ROUND_UP(sg_dma_address(sg) % page + sg_dma_len(sg), page);
}

/* A driver that sleeps while it maps a region, until h_map_go() is called. */
static void sleep_in_driver(void)
{
	mapping_threads++;
	wait_event(mapping, released_threads);
	released_threads--;
	mapping_threads--;
}

unsigned int h_map_waits(void)
{
	return mapping_threads;
}

void h_map_go(void)
{
	released_threads++;
	wake_up(&mapping);
}

int ib_map_mr_sg(struct ib_mr *ib, struct scatterlist *sgl, int nents, unsigned int *offset,
		 unsigned int page_size)
{
	struct h_mr *mr = container_of(ib, struct h_mr, ib);
	struct scatterlist *sg;
	u32 entries = 0;
	int i;

	if (h_slow_mapping) {
		/* A thread of a service may wait for a file system. */
		if (h_serving())
			h_may_sleep("a region is mapped", __builtin_return_address(0));
		else
			h_driver_ends("a region is mapped", __builtin_return_address(0));
		sleep_in_driver();
	}
	if (mr->valid && h_mr_reachable(mr))
		h_violation("region %#x is mapped again while the peer can reach it", mr->key);
	h_expect(!offset || !*offset, "a region begins at an offset in its memory");
	if (nents > mr->depth)
		return -EINVAL;
	ib->iova = h_iova ?: sg_dma_address(sgl);
	ib->length = 0;
	for_each_sg(sgl, sg, nents, i) {
		entries += entries_of(ib, sg, page_size);
		if (!fits(ib, sg, i, nents, page_size) || ends_before(sgl, i, page_size) ||
		    entries > mr->depth)
			break;
		ib->length += sg_dma_len(sg);
	}
	mr->sg = sgl;
	mr->nents = i;
	mr->mapped = true;
	return i;
}

struct h_mr *h_mr_find(u32 key)
{
	struct h_mr *mr;

	list_for_each_entry(mr, &regions, all)
		if (mr->valid && mr->key == key)
			return mr;
	return NULL;
}

void h_mr_register(struct h_qp *qp, struct h_mr *mr, u32 key, int access)
{
	if (mr->valid)
		h_violation("region %#x is registered twice", mr->key);
	if (!mr->mapped)
		h_violation("region %#x is registered, but maps nothing", key);
	if (mr->pd != qp->ib.pd)
		h_violation("region %#x belongs to another protection domain", key);
	if (h_mr_find(key))
		h_violation("R_key %#x is in use already", key);
	if (mr->key == key)
		h_violation("a region is registered twice in a row under R_key %#x", key);
	if (access & IB_ACCESS_REMOTE_WRITE && !(access & IB_ACCESS_LOCAL_WRITE))
		h_violation("a region may be written by the peer alone, which no device permits");
	mr->valid = true;
	mr->by_peer = false;
	mr->qp = qp;
	mr->key = key;
	mr->iova = mr->ib.iova;
	mr->length = mr->ib.length;
	mr->access = access;
}

/* Makes all regions of a queue pair unreachable, because it is destroyed. */
void h_mr_forget(struct h_qp *qp)
{
	struct h_mr *mr;

	list_for_each_entry(mr, &regions, all)
		if (mr->qp == qp)
			mr->qp = NULL;
}

/*
 * Invalidates a key. Returns whether a region has that key. It is no error if the key is invalid
 * already: the peer or the module may have invalidated it before.
 */
bool h_mr_invalidate(struct h_qp *qp, u32 key)
{
	struct h_mr *mr;

	list_for_each_entry(mr, &regions, all) {
		if (mr->key != key || mr->pd != qp->ib.pd)
			continue;
		mr->valid = false;
		mr->mapped = false;
		return true;
	}
	return false;
}

static struct h_mr *last_of(const struct h_qp *qp, u32 key)
{
	struct h_mr *mr;

	list_for_each_entry(mr, &regions, all)
		if (mr->key == key && mr->pd == qp->ib.pd)
			return mr;
	return NULL;
}

void h_mr_given_up(const struct h_qp *qp, u32 key)
{
	last_of(qp, key)->by_peer = true;
}

bool h_mr_is_given_up(const struct h_qp *qp, u32 key)
{
	const struct h_mr *mr = last_of(qp, key);

	return mr && mr->by_peer;
}

u32 h_mr_nth(const struct h_qp *qp, u32 n)
{
	const struct h_mr *mr;
	u32 open = 0;

	list_for_each_entry(mr, &regions, all)
		open += mr->valid && mr->pd == qp->ib.pd;
	n = open ? n % open : 0;
	list_for_each_entry(mr, &regions, all)
		if (mr->valid && mr->pd == qp->ib.pd && !n--)
			return mr->key;
	return 0;
}

/* Returns whether the peer may use a key. */
bool h_mr_open(const struct h_qp *qp, u32 key)
{
	const struct h_mr *mr = h_mr_find(key);

	return mr && mr->pd == qp->ib.pd;
}

/* Ends the program if the peer can still reach a scatterlist that is about to be unmapped. */
void h_mr_check_unmap(const struct scatterlist *sg)
{
	struct h_mr *mr;

	list_for_each_entry(mr, &regions, all)
		if (mr->sg == sg && h_mr_reachable(mr))
			h_violation("memory of region %#x is unmapped, "
				    "and the peer can still reach it", mr->key);
}

/* Copies between the peer's data and a region's memory, from offset `skip` on. */
static void copy(struct h_mr *mr, u64 skip, u8 *data, u32 len, bool write)
{
	enum dma_data_direction way = write ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
	struct scatterlist *sg;
	int i;

	for_each_sg(mr->sg, sg, mr->nents, i) {
		u32 n = sg_dma_len(sg);
		u8 *p = (u8 *)sg_dma_address(sg);

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = min_t(u64, n - skip, len);
		if (!h_dma_covers((u64)p + skip, n, way))
			h_violation("the peer accesses memory that is not mapped for this");
		if (write)
			memcpy(p + skip, data, n);
		else
			memcpy(data, p + skip, n);
		skip = 0;
		data += n;
		len -= n;
		if (!len)
			return;
	}
}

void h_peer_access(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write)
{
	struct h_mr *mr = h_mr_find(key);

	if (!mr || mr->pd != qp->ib.pd)
		h_violation("the peer has R_key %#x, which is not registered", key);
	if (!(mr->access & (write ? IB_ACCESS_REMOTE_WRITE : IB_ACCESS_REMOTE_READ)))
		h_violation("the peer has R_key %#x, which does not allow this access", key);
	if (addr < mr->iova || addr + len > mr->iova + mr->length)
		h_violation("%u bytes at %#llx are not all covered by R_key %#x", len, addr, key);
	copy(mr, addr - mr->iova, data, len, write);
}

void h_mr_check_owner(const void *memory, size_t size, const char *when)
{
	u64 start = (u64)memory;
	struct scatterlist *sg;
	struct h_mr *mr;
	int i;

	list_for_each_entry(mr, &regions, all) {
		if (!h_mr_reachable(mr))
			continue;
		for_each_sg(mr->sg, sg, mr->nents, i)
			if (sg_dma_address(sg) < start + size &&
			    start < sg_dma_address(sg) + sg_dma_len(sg))
				h_violation("%s, and the peer can still reach its memory "
					    "by R_key %#x", when, mr->key);
	}
}
