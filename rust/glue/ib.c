// SPDX-License-Identifier: GPL-2.0
/*
 * Glue for rust/rdma/: short wrappers of inline functions.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu-dma.h>
#include <linux/netdevice.h>
#include <rdma/ib_cache.h>
#include <rpcrdma/glue_ib.h>

int rr_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr)
{
	return ib_post_send(qp, wr, bad_wr);
}

int rr_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr)
{
	return ib_post_recv(qp, wr, bad_wr);
}

u64 rr_ib_dma_map_single(struct ib_device *dev, void *addr, size_t len,
			 enum dma_data_direction dir)
{
	return ib_dma_map_single(dev, addr, len, dir);
}

int rr_ib_dma_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

void rr_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t len,
			    enum dma_data_direction dir)
{
	ib_dma_unmap_single(dev, addr, len, dir);
}

void rr_ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t len,
				   enum dma_data_direction dir)
{
	ib_dma_sync_single_for_cpu(dev, addr, len, dir);
}

void rr_ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t len,
				      enum dma_data_direction dir)
{
	ib_dma_sync_single_for_device(dev, addr, len, dir);
}

u64 rr_ib_dma_map_page(struct ib_device *dev, struct page *page, unsigned int offset,
		       unsigned int len, enum dma_data_direction dir)
{
	return ib_dma_map_page(dev, page, offset, len, dir);
}

void rr_ib_dma_unmap_page(struct ib_device *dev, u64 addr, unsigned int len,
			  enum dma_data_direction dir)
{
	ib_dma_unmap_page(dev, addr, len, dir);
}

bool rr_ib_uses_virt_dma(struct ib_device *dev)
{
	return ib_uses_virt_dma(dev);
}

/* All ports of a device speak the same protocol, or iWARP is not one of them. */
bool rr_ib_is_iwarp(const struct ib_device *dev)
{
	return rdma_protocol_iwarp(dev, rdma_start_port(dev));
}

/*
 * No event renews the cached state of a port when an iWARP port gets an address, or when a port has
 * joined a bond while it was down. Asking the driver may take rtnl, whose holder may be waiting for
 * a file of a mount.
 */
bool rr_ib_port_has_link(struct ib_device *dev, u32 port)
{
	struct net_device *ndev = ib_device_get_netdev(dev, port);
	enum ib_port_state state = IB_PORT_DOWN;

	if (ndev)
		state = ib_get_curr_port_state(ndev);
	else
		ib_get_cached_port_state(dev, port, &state);
	dev_put(ndev);
	return state == IB_PORT_ACTIVE;
}

/* A driver that maps memory itself, like those of software devices, has no dma_device. */
bool rr_ib_uses_iommu(const struct ib_device *dev)
{
	return dev->dma_device && use_dma_iommu(dev->dma_device);
}

/*
 * The DMA layer marks a list whose elements it maps one by one, and unmaps it accordingly. It never
 * removes the mark, which a list that is used again may have from another mapping.
 */
int rr_ib_dma_map_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
		     enum dma_data_direction dir)
{
#ifdef CONFIG_NEED_SG_DMA_FLAGS
	sg->dma_flags = 0;
#endif
	return ib_dma_map_sg(dev, sg, nents, dir);
}

void rr_ib_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
			enum dma_data_direction dir)
{
	ib_dma_unmap_sg(dev, sg, nents, dir);
}

/*
 * Length of the longest piece that can be mapped: that of the device, or that of the
 * bounce buffers if it is less.
 */
unsigned int rr_ib_dma_longest(struct ib_device *dev)
{
	size_t longest = ib_dma_max_seg_size(dev);

	if (!ib_uses_virt_dma(dev))
		longest = min(longest, dma_max_mapping_size(dev->dma_device));
	return longest;
}

void rr_ib_renew_key(struct ib_mr *mr)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
}

bool rr_rdma_is_roce(const struct rdma_cm_id *id)
{
	return rdma_protocol_roce(id->device, id->port_num);
}

int rr_ibdev_to_node(struct ib_device *dev)
{
	return ibdev_to_node(dev);
}
