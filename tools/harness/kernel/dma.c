// SPDX-License-Identifier: GPL-2.0
/*
 * DMA mappings. A DMA address equals the virtual address, so that the device can use it directly.
 * Each mapping is recorded until it is unmapped with the same address, length and direction.
 */
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>
#include "harness.h"

#define BUCKETS		4096
#define LIMIT		(1u << 20)

struct mapping {
	struct mapping *next;
	u64 addr;
	size_t len;
	enum dma_data_direction way;
	bool checked;	/* the caller has looked whether the mapping failed */
	bool by_piece;	/* the first of a scatterlist whose pieces were mapped one by one */
	size_t synced;	/* bytes that were made visible to a device that reads them */
	u64 sum;	/* of these bytes, as they were then */
};

static struct device_dma_parameters parameters = {
	.max_segment_size = SZ_2G,
	.segment_boundary_mask = DMA_BIT_MASK(64),
};
static u64 mask = DMA_BIT_MASK(64);

struct device h_dma_device = {
	.dma_parms = &parameters,
	.dma_mask = &mask,
	.coherent_dma_mask = DMA_BIT_MASK(64),
};

static struct mapping *buckets[BUCKETS];
static struct mapping *spare;
static unsigned int live;
unsigned int h_refused_mappings;
size_t h_least_refused;
bool h_no_long_room;
bool h_by_piece;
/* The number of mappings that begin in each page. */
static u16 in_page[U_MEMORY_SIZE >> PAGE_SHIFT] H_SCRATCH;

void k_keep_pages(unsigned long first, unsigned long count)
{
	u_keep(&in_page[first], count * sizeof(*in_page));
}

static u16 *page_count_of(u64 addr)
{
	h_expect(addr >= U_MEMORY && addr < U_MEMORY + U_MEMORY_SIZE,
		 "violation: %#llx is mapped for DMA, but is no address of memory", addr);
	return &in_page[(addr - U_MEMORY) >> PAGE_SHIFT];
}

static struct mapping **bucket(u64 addr)
{
	return &buckets[(addr >> 7) % BUCKETS];
}

/* Makes the first bytes of a mapping visible to a device that reads them. */
static void synchronize(struct mapping *mapping, size_t len)
{
	if (mapping->way != DMA_TO_DEVICE || !h_payloads)
		return;
	mapping->synced = len;
	mapping->sum = h_sum((void *)mapping->addr, len);
}

static struct mapping *beginning_at(u64 addr, enum dma_data_direction way)
{
	struct mapping *m = *bucket(addr);

	while (m && (m->addr != addr || m->way != way))
		m = m->next;
	return m;
}

/*
 * Ends the program if a Send or an RDMA Write reads bytes that were written after the last
 * synchronization. A device behind a bounce buffer would send the bytes that were there before.
 */
void h_dma_check_sent(u64 addr, size_t len)
{
	const struct mapping *m = beginning_at(addr, DMA_TO_DEVICE);

	if (m && h_payloads && (len > m->synced || h_sum((void *)addr, m->synced) != m->sum))
		h_violation("%zu bytes are sent that were not made visible to the device", len);
}

static struct mapping *map(u64 addr, size_t len, enum dma_data_direction way)
{
	struct mapping *mapping = spare;

	if (mapping)
		spare = mapping->next;
	else
		mapping = u_alloc(sizeof(*mapping), NULL);
	*mapping = (struct mapping) { *bucket(addr), addr, len, way };
	/* Only a kernel with DMA_API_DEBUG records that the caller has checked. */
	mapping->checked = !IS_ENABLED(CONFIG_DMA_API_DEBUG);
	synchronize(mapping, len);
	*bucket(addr) = mapping;
	(*page_count_of(addr))++;
	u_data((void *)addr);
	live++;
	return mapping;
}

static void unmap(u64 addr, size_t len, enum dma_data_direction way)
{
	struct mapping **link, *mapping;

	for (link = bucket(addr); (mapping = *link); link = &mapping->next) {
		if (mapping->addr != addr || mapping->len != len || mapping->way != way)
			continue;
		h_expect(mapping->checked,
			 "violation: %#llx is unmapped, but was not checked for an error", addr);
		*link = mapping->next;
		mapping->next = spare;
		spare = mapping;
		(*page_count_of(addr))--;
		live--;
		return h_qp_check_unmap(addr, len, way);
	}
	h_violation("DMA unmap of %zu bytes at %#llx, which no mapping matches", len, addr);
}

#ifdef CONFIG_IOMMU_DMA
/* The device is not behind an IOMMU. */
bool dma_iova_try_alloc(struct device *dev, struct dma_iova_state *state, phys_addr_t phys,
			size_t size)
{
	*state = (struct dma_iova_state){};
	return false;
}
#endif

#ifdef CONFIG_DMA_API_DEBUG
void debug_dma_map_single(struct device *dev, const void *addr, unsigned long len)
{
	page_count_of((u64)addr);
	page_count_of((u64)addr + len - 1);
}

/* As in the kernel, a call is about one mapping of those that begin at the address. */
void debug_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	struct mapping *m = *bucket(addr);

	while (m && (m->addr != addr || m->checked))
		m = m->next;
	if (m)
		m->checked = true;
}
#endif

unsigned int h_dma_live(void)
{
	return live;
}

/* Returns whether one mapping in this direction covers the whole range. */
bool h_dma_covers(u64 addr, size_t len, enum dma_data_direction way)
{
	u64 page = addr & PAGE_MASK;
	unsigned int i, line;

	/* The mapping may begin some pages before `addr`. */
	for (i = 0; i < 300 && page >= U_MEMORY; i++, page -= PAGE_SIZE) {
		if (!*page_count_of(page))
			continue;
		for (line = 0; line < PAGE_SIZE >> 7; line++) {
			struct mapping *m = *bucket(page + (line << 7));

			for (; m; m = m->next)
				if (m->addr <= addr && addr + len <= m->addr + m->len &&
				    m->way == way)
					return true;
		}
	}
	return false;
}

/* Ends the program if a part of this memory is still mapped. */
void h_dma_check_free(const void *p, size_t size)
{
	u64 start = (u64)p, page;

	for (page = start & PAGE_MASK; page < start + size; page += PAGE_SIZE) {
		unsigned int line;

		if (!*page_count_of(page))
			continue;
		for (line = 0; line < PAGE_SIZE >> 7; line++) {
			struct mapping *m = *bucket(page + (line << 7));

			for (; m; m = m->next)
				if (m->addr >= start && m->addr < start + size)
					h_violation("memory is freed that is mapped for DMA");
		}
	}
}

static bool refused(size_t size)
{
	return size >= h_least_refused && h_refused_mappings && h_refused_mappings--;
}

static bool refused_piece(size_t size)
{
	return (h_no_long_room && size > PAGE_SIZE) || refused(size);
}

dma_addr_t dma_map_page_attrs(struct device *dev, struct page *page, size_t offset, size_t size,
			      enum dma_data_direction way, unsigned long attrs)
{
	u64 addr = (u64)page_address(page) + offset;

	if (refused_piece(size))
		return DMA_MAPPING_ERROR;
	map(addr, size, way);
	return addr;
}

void dma_unmap_page_attrs(struct device *dev, dma_addr_t addr, size_t size,
			  enum dma_data_direction way, unsigned long attrs)
{
	unmap(addr, size, way);
}

dma_addr_t dma_map_phys(struct device *dev, phys_addr_t phys, size_t size,
			enum dma_data_direction way, unsigned long attrs)
{
	u64 addr = (u64)phys_to_virt(phys);

	if (refused_piece(size))
		return DMA_MAPPING_ERROR;
	map(addr, size, way);
	return addr;
}

void dma_unmap_phys(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction way,
		    unsigned long attrs)
{
	unmap(addr, size, way);
}

unsigned int dma_map_sg_attrs(struct device *dev, struct scatterlist *sgl, int nents,
			      enum dma_data_direction way, unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	if (refused(SIZE_MAX))
		return 0;
	for_each_sg(sgl, sg, nents, i)
		if (h_no_long_room && sg->length > PAGE_SIZE)
			return 0;
	for_each_sg(sgl, sg, nents, i) {
		sg->dma_address = (u64)page_address(sg_page(sg)) + sg->offset;
		sg_dma_len(sg) = sg->length;
		/* The return value shows whether this function failed. */
		map(sg->dma_address, sg->length, way)->checked = true;
	}
	/* As for a device that is not coherent, and a piece too short to share no cache line. */
	if (h_by_piece)
		sg_dma_mark_swiotlb(sgl);
	beginning_at(sgl->dma_address, way)->by_piece = h_by_piece;
	return nents;
}

/* The DMA layer unmaps a scatterlist in the way that its mark says, and never removes the mark. */
static void check_mark(struct scatterlist *sgl, enum dma_data_direction way)
{
	const struct mapping *first = beginning_at(sgl->dma_address, way);

	if (first && first->by_piece != sg_dma_is_swiotlb(sgl))
		h_violation("a scatterlist is unmapped in another way than it was mapped");
}

void dma_unmap_sg_attrs(struct device *dev, struct scatterlist *sgl, int nents,
			enum dma_data_direction way, unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	h_mr_check_unmap(sgl);
	check_mark(sgl, way);
	for_each_sg(sgl, sg, nents, i)
		unmap(sg->dma_address, sg->length, way);
}

size_t dma_max_mapping_size(struct device *dev)
{
	return SIZE_MAX;
}

/*
 * DMA debugging takes a sync of no bytes for one of the memory before, if that is mapped too, and
 * reports that it cannot tell which.
 */
static void check_synced(size_t size)
{
	if (!size)
		h_violation("no bytes are synchronized");
}

void __dma_sync_single_for_cpu(struct device *dev, dma_addr_t addr, size_t size,
			       enum dma_data_direction way)
{
	check_synced(size);
}

void __dma_sync_single_for_device(struct device *dev, dma_addr_t addr, size_t size,
				  enum dma_data_direction way)
{
	struct mapping *mapping = beginning_at(addr, way);

	check_synced(size);
	if (mapping)
		synchronize(mapping, size);
}

const char *dev_driver_string(const struct device *dev)
{
	return "harness";
}
