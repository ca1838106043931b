/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Glue for rust/rdma/: wrappers of inline functions of <rdma/ib_verbs.h> and other
 * headers, which bindgen cannot call.
 */
#ifndef _RPCRDMA_GLUE_IB_H
#define _RPCRDMA_GLUE_IB_H

#include <linux/scatterlist.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>

int rr_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr);
int rr_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr);

u64 rr_ib_dma_map_single(struct ib_device *dev, void *addr, size_t len,
			 enum dma_data_direction dir);
int rr_ib_dma_mapping_error(struct ib_device *dev, u64 addr);
void rr_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t len,
			    enum dma_data_direction dir);
void rr_ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t len,
				   enum dma_data_direction dir);
void rr_ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t len,
				      enum dma_data_direction dir);
u64 rr_ib_dma_map_page(struct ib_device *dev, struct page *page, unsigned int offset,
		       unsigned int len, enum dma_data_direction dir);
void rr_ib_dma_unmap_page(struct ib_device *dev, u64 addr, unsigned int len,
			  enum dma_data_direction dir);
bool rr_ib_uses_virt_dma(struct ib_device *dev);
bool rr_ib_is_iwarp(const struct ib_device *dev);
bool rr_ib_port_has_link(struct ib_device *dev, u32 port);
bool rr_ib_uses_iommu(const struct ib_device *dev);
int rr_ib_dma_map_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
		     enum dma_data_direction dir);
void rr_ib_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
			enum dma_data_direction dir);
unsigned int rr_ib_dma_longest(struct ib_device *dev);

void rr_ib_renew_key(struct ib_mr *mr);

bool rr_rdma_is_roce(const struct rdma_cm_id *id);
int rr_ibdev_to_node(struct ib_device *dev);

#endif /* _RPCRDMA_GLUE_IB_H */
