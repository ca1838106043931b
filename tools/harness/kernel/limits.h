/* SPDX-License-Identifier: GPL-2.0 */
/* The limits of a device: each of these checks ends the program if the module exceeds one. */
#ifndef HARNESS_LIMITS_H
#define HARNESS_LIMITS_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

struct h_device;
struct h_qp;

/* The lengths and SGEs of a queue pair that is being made; its work requests and completions. */
void h_limits_pair(const struct ib_device *device, const struct ib_qp_cap *cap);
void h_limits_elements(const struct h_qp *qp, const struct ib_send_wr *wr);
void h_limits_completions(const struct h_qp *qp);
/* The room that a drain needs for its markers. */
void h_limits_drain(const struct h_qp *qp, bool sends, bool receives);
void h_limits_entries(const struct ib_device *device, int entries);
void h_limits_region(const struct ib_device *device, enum ib_mr_type type, u32 depth);
/* The RDMA Reads of a connection that is being made. */
void h_limits_reads(const struct rdma_cm_id *id, const struct rdma_conn_param *parameters);

/*
 * Returns the limits that the first device will have, for a change. It gets them when nothing uses
 * it and a connection begins, as if it had been replaced.
 */
struct ib_device_attr *h_limits_next(void);
/* A connection begins to use a device; the identifier of a connection is destroyed. */
void h_limits_use(struct rdma_cm_id *id, struct h_device *device);
void h_limits_leave(const struct rdma_cm_id *id);

#endif /* HARNESS_LIMITS_H */
