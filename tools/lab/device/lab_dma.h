/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device side of the DMA API, for software RDMA devices.
 */
#ifndef LAB_DMA_H
#define LAB_DMA_H

#include <linux/types.h>

struct device;
struct ib_device;
struct page;

/* Returns the device that memory is mapped for, or NULL without QEMU's edu device. */
struct device *lab_dma_device(void);

/*
 * Returns the device for which memory of user space is pinned. It has no DMA device: the kernel
 * refuses to map such memory to bounce buffers, and regions reach it by its pages.
 */
struct ib_device *lab_dma_user(void);

/* Returns the page at a device address that an access will use later. */
struct page *lab_dma_page(u64 addr);

/*
 * Returns the page that the device accesses now: @len bytes from @addr, which do not
 * cross a page. Reports an access without a translation, without a mapping, or against
 * the direction of the mapping; such an access reaches a page of the module.
 */
struct page *lab_dma_access(u64 addr, unsigned int len, bool write);

/* Reads @len bytes of memory from @addr, page by page. */
void lab_dma_read(void *to, u64 addr, unsigned int len);

/* As lab_dma_access() for a page of a memory region: user space's regions have no address. */
static inline struct page *lab_dma_region(struct page *page, u64 addr,
					  unsigned int offset, unsigned int len,
					  bool write)
{
	return addr ? lab_dma_access(addr + offset, len, write) : page;
}

#endif
