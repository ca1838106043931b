// SPDX-License-Identifier: GPL-2.0
/*
 * The device side of the DMA API, for software RDMA devices.
 *
 * rxe and siw treat a device address as a kernel pointer, so no memory is ever mapped
 * for them. The lab builds them with calls to this module instead (lab/device.py).
 * Memory is then mapped for QEMU's edu device, and each access is translated when it
 * happens: by the IOMMU's page table, or as a physical address without an IOMMU. With
 * swiotlb=force the address is that of a bounce buffer.
 *
 * The page table of an IOMMU does not contain the direction, and without an IOMMU memory
 * that is no longer mapped is still there. So the module keeps each mapping of the
 * device, by the trace events of the DMA API. It judges syncs by the same table, since
 * DMA debugging may report a sync of memory that is mapped.
 */
#include <linux/debugfs.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/highmem.h>
#include <linux/interval_tree.h>
#include <linux/iommu.h>
#include <linux/mempool.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <rdma/ib_verbs.h>

#include "lab_dma.h"

#define EDU_VENDOR 0x1234
#define EDU_DEVICE 0x11e8

struct mapping {
	struct interval_tree_node range;
	enum dma_data_direction dir;
};

static struct device *edu;
static struct page *nowhere;
static struct dentry *dir;

static DEFINE_SPINLOCK(lock);
static struct rb_root_cached mappings = RB_ROOT_CACHED;
/* Entries for the tree also where a scenario has the allocator fail. */
static mempool_t *spare;

/* Entries that were mapped so far, and entries in the tree. */
static atomic64_t mapped, live;
/* Calls that mapped memory to a bounce buffer, and those whose address is not a physical one. */
static atomic64_t bounced, translated;
/* Accesses of the device and syncs for it, and those of both that were reported. */
static atomic64_t accesses, syncs, reports;

/* --- Mappings ----------------------------------------------------------------- */

static phys_addr_t translate(u64 addr)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(edu);

	return domain ? iommu_iova_to_phys(domain, addr) : dma_to_phys(edu, addr);
}

static void note_address(phys_addr_t phys, u64 addr)
{
	phys_addr_t reached = translate(addr);

	if (reached != phys)
		atomic64_inc(&bounced);
	if (reached != addr)
		atomic64_inc(&translated);
}

static void add(u64 addr, size_t size, enum dma_data_direction direction)
{
	struct mapping *new = mempool_alloc(spare, GFP_ATOMIC);
	unsigned long flags;

	if (WARN_ON(!new))
		return;
	new->range.start = addr;
	new->range.last = addr + size - 1;
	new->dir = direction;
	atomic64_inc(&mapped);
	atomic64_inc(&live);
	spin_lock_irqsave(&lock, flags);
	interval_tree_insert(&new->range, &mappings);
	spin_unlock_irqrestore(&lock, flags);
}

static void remove(u64 addr, size_t size, enum dma_data_direction direction)
{
	u64 last = addr + size - 1;
	struct interval_tree_node *node;
	struct mapping *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	for (node = interval_tree_iter_first(&mappings, addr, last); node;
	     node = interval_tree_iter_next(node, addr, last)) {
		found = container_of(node, struct mapping, range);
		if (node->start == addr && node->last == last && found->dir == direction)
			break;
		found = NULL;
	}
	if (found) {
		interval_tree_remove(&found->range, &mappings);
		atomic64_dec(&live);
	}
	spin_unlock_irqrestore(&lock, flags);
	mempool_free(found, spare);
}

static bool may(u64 addr, unsigned int len, bool write)
{
	enum dma_data_direction needed = write ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
	u64 last = addr + len - 1, next = addr;
	struct interval_tree_node *node;
	struct mapping *found;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	/* By their starts. Two bounce buffers may lie side by side in a page. */
	for (node = interval_tree_iter_first(&mappings, addr, last); node && next <= last;
	     node = interval_tree_iter_next(node, addr, last)) {
		found = container_of(node, struct mapping, range);
		if (node->start <= next && node->last >= next &&
		    (found->dir == needed || found->dir == DMA_BIDIRECTIONAL))
			next = node->last + 1;
	}
	spin_unlock_irqrestore(&lock, flags);
	return next > last;
}

/* Whether a mapping in this direction contains the bytes, of which there is one at least. */
static bool syncable(u64 addr, size_t size, enum dma_data_direction direction)
{
	u64 last = addr + size - 1;
	struct interval_tree_node *node;
	struct mapping *found = NULL;
	unsigned long flags;

	if (!size)
		return false;
	spin_lock_irqsave(&lock, flags);
	/* A mapping that is gone may still have an entry beside that of another one. */
	for (node = interval_tree_iter_first(&mappings, addr, last); node;
	     node = interval_tree_iter_next(node, addr, last)) {
		found = container_of(node, struct mapping, range);
		if (node->start <= addr && node->last >= last &&
		    (found->dir == direction || found->dir == DMA_BIDIRECTIONAL))
			break;
		found = NULL;
	}
	spin_unlock_irqrestore(&lock, flags);
	return found;
}

static void check_sync(u64 addr, size_t size, enum dma_data_direction direction)
{
	atomic64_inc(&syncs);
	if (syncable(addr, size, direction))
		return;
	atomic64_inc(&reports);
	WARN(1, "lab_dma: the driver syncs %zu bytes at %#llx: not mapped in this direction\n",
	     size, addr);
}

/* --- An address that is mapped again at once ---------------------------------------- */

#define PART 216

/*
 * dma_unmap_phys() gives the address back, emits its event, and only then has DMA debugging
 * forget the mapping. For the task `by` the event's probe maps a second page in between.
 */
static struct {
	struct task_struct *by;
	void *page;
	dma_addr_t addr;
	int err;
} reuse;

/* Maps the second page, which should get the address that is free, and syncs a part of it. */
static void map_again(dma_addr_t addr)
{
	WRITE_ONCE(reuse.by, NULL);
	reuse.addr = dma_map_single(edu, reuse.page, PAGE_SIZE, DMA_TO_DEVICE);
	if (dma_mapping_error(edu, reuse.addr)) {
		reuse.err = -ENOMEM;
		return;
	}
	if (reuse.addr == addr) {
		dma_sync_single_for_device(edu, addr, PART, DMA_TO_DEVICE);
		reuse.err = 0;
	}
}

static int map_twice(void *first)
{
	dma_addr_t addr = dma_map_single(edu, first, PAGE_SIZE, DMA_TO_DEVICE);

	if (dma_mapping_error(edu, addr))
		return -ENOMEM;
	reuse.err = -EAGAIN;
	/* Free addresses are kept for each processor. */
	migrate_disable();
	WRITE_ONCE(reuse.by, current);
	dma_unmap_single(edu, addr, PAGE_SIZE, DMA_TO_DEVICE);
	migrate_enable();
	if (WARN_ON(reuse.by))
		return -EINVAL;
	if (reuse.err == -ENOMEM)
		return reuse.err;
	/* By now the second mapping is the only one of its address. */
	dma_sync_single_for_device(edu, reuse.addr, PART, DMA_TO_DEVICE);
	lab_dma_access(reuse.addr, PAGE_SIZE, false);
	dma_unmap_single(edu, reuse.addr, PAGE_SIZE, DMA_TO_DEVICE);
	return reuse.err;
}

/* Fails with EAGAIN if the second page got another address. */
static int overlap(void *unused, u64 value)
{
	static DEFINE_MUTEX(alone);
	void *first = (void *)__get_free_page(GFP_KERNEL);
	int err = -ENOMEM;

	mutex_lock(&alone);
	reuse.page = (void *)__get_free_page(GFP_KERNEL);
	if (first && reuse.page)
		err = map_twice(first);
	free_page((unsigned long)reuse.page);
	mutex_unlock(&alone);
	free_page((unsigned long)first);
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(overlap_file, NULL, overlap, "%llu\n");

/* --- Events of the DMA API -------------------------------------------------------- */

static void on_map_phys(void *data, struct device *dev, phys_addr_t phys, dma_addr_t addr,
			size_t size, enum dma_data_direction direction,
			unsigned long attrs)
{
	if (dev != edu || addr == DMA_MAPPING_ERROR)
		return;
	note_address(phys, addr);
	add(addr, size, direction);
}

static void on_unmap_phys(void *data, struct device *dev, dma_addr_t addr, size_t size,
			  enum dma_data_direction direction, unsigned long attrs)
{
	if (dev != edu)
		return;
	/* Before the entry is removed: a mapping on another processor may come as early. */
	if (READ_ONCE(reuse.by) == current)
		map_again(addr);
	remove(addr, size, direction);
}

/* An IOMMU may merge entries, so only the address of the first belongs to known memory. */
static void on_map_sg(void *data, struct device *dev, struct scatterlist *sgl, int nents,
		      int ents, enum dma_data_direction direction, unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	if (dev != edu)
		return;
	note_address(sg_phys(sgl), sg_dma_address(sgl));
	for_each_sg(sgl, sg, ents, i)
		add(sg_dma_address(sg), sg_dma_len(sg), direction);
}

/* An IOMMU may have merged entries: the first one of length zero ends the list. */
static void each_mapped(struct scatterlist *sgl, int nents, enum dma_data_direction direction,
			void (*act)(u64 addr, size_t size, enum dma_data_direction direction))
{
	struct scatterlist *sg;
	int i;

	for_each_sg(sgl, sg, nents, i) {
		if (!sg_dma_len(sg))
			break;
		act(sg_dma_address(sg), sg_dma_len(sg), direction);
	}
}

static void on_unmap_sg(void *data, struct device *dev, struct scatterlist *sgl, int nents,
			enum dma_data_direction direction, unsigned long attrs)
{
	if (dev == edu)
		each_mapped(sgl, nents, direction, remove);
}

static void on_sync_single(void *data, struct device *dev, dma_addr_t addr, size_t size,
			   enum dma_data_direction direction)
{
	if (dev == edu)
		check_sync(addr, size, direction);
}

static void on_sync_sg(void *data, struct device *dev, struct scatterlist *sgl, int nents,
		       enum dma_data_direction direction)
{
	if (dev == edu)
		each_mapped(sgl, nents, direction, check_sync);
}

static struct {
	const char *name;
	void *probe;
	struct tracepoint *point;
} events[] = {
	{ "dma_map_phys", on_map_phys },
	{ "dma_unmap_phys", on_unmap_phys },
	{ "dma_map_sg", on_map_sg },
	{ "dma_unmap_sg", on_unmap_sg },
	{ "dma_sync_single_for_cpu", on_sync_single },
	{ "dma_sync_single_for_device", on_sync_single },
	{ "dma_sync_sg_for_cpu", on_sync_sg },
	{ "dma_sync_sg_for_device", on_sync_sg },
};

static void note_point(struct tracepoint *point, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(events); i++)
		if (!strcmp(point->name, events[i].name))
			events[i].point = point;
}

static void unwatch(int count)
{
	while (count--)
		tracepoint_probe_unregister(events[count].point, events[count].probe, NULL);
	tracepoint_synchronize_unregister();
}

static int watch(void)
{
	int i, err;

	for_each_kernel_tracepoint(note_point, NULL);
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		err = events[i].point ? tracepoint_probe_register(events[i].point,
								  events[i].probe, NULL)
				      : -ENOENT;
		if (err) {
			pr_err("lab_dma: no trace event %s\n", events[i].name);
			unwatch(i);
			return err;
		}
	}
	return 0;
}

/* --- Accesses of the device --------------------------------------------------------- */

static struct page *page_at(u64 addr)
{
	phys_addr_t phys = translate(addr);

	return phys && pfn_valid(PHYS_PFN(phys)) ? pfn_to_page(PHYS_PFN(phys)) : NULL;
}

struct device *lab_dma_device(void)
{
	return edu;
}
EXPORT_SYMBOL_GPL(lab_dma_device);

struct ib_device *lab_dma_user(void)
{
	static struct ib_device unmapped;

	return &unmapped;
}
EXPORT_SYMBOL_GPL(lab_dma_user);

struct page *lab_dma_page(u64 addr)
{
	return page_at(addr) ?: nowhere;
}
EXPORT_SYMBOL_GPL(lab_dma_page);

struct page *lab_dma_access(u64 addr, unsigned int len, bool write)
{
	struct page *page = page_at(addr);

	atomic64_inc(&accesses);
	if (page && may(addr, len, write))
		return page;
	atomic64_inc(&reports);
	WARN(1, "lab_dma: the device %s %u bytes at %#llx: %s\n", write ? "writes" : "reads", len,
	     addr, page ? "not mapped in this direction" : "no translation");
	return nowhere;
}
EXPORT_SYMBOL_GPL(lab_dma_access);

void lab_dma_read(void *to, u64 addr, unsigned int len)
{
	while (len) {
		unsigned int offset = offset_in_page(addr);
		unsigned int bytes = min_t(unsigned int, len, PAGE_SIZE - offset);

		memcpy_from_page(to, lab_dma_access(addr, bytes, false), offset, bytes);
		to += bytes;
		addr += bytes;
		len -= bytes;
	}
}
EXPORT_SYMBOL_GPL(lab_dma_read);

/* --- A test of the reports ------------------------------------------------------------- */

/* Accesses and syncs a page as it was mapped, against the direction, and after unmapping. */
static int misbehave(void *unused, u64 value)
{
	void *page = (void *)__get_free_page(GFP_KERNEL);
	dma_addr_t addr;

	if (!page)
		return -ENOMEM;
	addr = dma_map_single(edu, page, PAGE_SIZE, DMA_TO_DEVICE);
	if (!dma_mapping_error(edu, addr)) {
		lab_dma_access(addr, PAGE_SIZE, false);
		lab_dma_access(addr, PAGE_SIZE, true);
		dma_sync_single_for_device(edu, addr, PART, DMA_TO_DEVICE);
		dma_sync_single_for_cpu(edu, addr, PART, DMA_FROM_DEVICE);
		dma_unmap_single(edu, addr, PAGE_SIZE, DMA_TO_DEVICE);
		lab_dma_access(addr, PAGE_SIZE, false);
		dma_sync_single_for_device(edu, addr, PART, DMA_TO_DEVICE);
	}
	free_page((unsigned long)page);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(misbehave_file, NULL, misbehave, "%llu\n");

/* --- The device ----------------------------------------------------------------------- */

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	int err = pcim_enable_device(pci);

	err = err ?: dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	dma_set_max_seg_size(&pci->dev, SZ_2G);
	pci_set_master(pci);
	edu = &pci->dev;
	return 0;
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(EDU_VENDOR, EDU_DEVICE) }, {} };

static struct pci_driver driver = {
	.name = "lab_dma",
	.id_table = ids,
	.probe = probe,
};

static int __init lab_dma_init(void)
{
	int err;

	nowhere = alloc_page(GFP_KERNEL);
	spare = mempool_create_kmalloc_pool(4096, sizeof(struct mapping));
	err = nowhere && spare ? pci_register_driver(&driver) : -ENOMEM;
	if (err)
		goto free;
	err = edu ? watch() : -ENODEV;
	if (err)
		goto unregister;
	dir = debugfs_create_dir("lab_dma", NULL);
	debugfs_create_u64("mapped", 0444, dir, (u64 *)&mapped.counter);
	debugfs_create_u64("bounced", 0444, dir, (u64 *)&bounced.counter);
	debugfs_create_u64("translated", 0444, dir, (u64 *)&translated.counter);
	debugfs_create_u64("live", 0444, dir, (u64 *)&live.counter);
	debugfs_create_u64("accesses", 0444, dir, (u64 *)&accesses.counter);
	debugfs_create_u64("syncs", 0444, dir, (u64 *)&syncs.counter);
	debugfs_create_u64("reports", 0444, dir, (u64 *)&reports.counter);
	debugfs_create_file("misbehave", 0200, dir, NULL, &misbehave_file);
	debugfs_create_file("overlap", 0200, dir, NULL, &overlap_file);
	pr_info("lab_dma: memory is mapped for %s, %s\n", dev_name(edu),
		iommu_get_domain_for_dev(edu) ? "behind an IOMMU" : "by physical address");
	return 0;
unregister:
	pci_unregister_driver(&driver);
free:
	mempool_destroy(spare);
	if (nowhere)
		__free_page(nowhere);
	return err;
}

static void __exit lab_dma_exit(void)
{
	struct mapping *left, *next;

	debugfs_remove(dir);
	unwatch(ARRAY_SIZE(events));
	pci_unregister_driver(&driver);
	rbtree_postorder_for_each_entry_safe(left, next, &mappings.rb_root, range.rb)
		mempool_free(left, spare);
	mempool_destroy(spare);
	__free_page(nowhere);
}

module_init(lab_dma_init);
module_exit(lab_dma_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The device side of the DMA API, for software RDMA devices");
