/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the crowd share: its connections, and what they send.
 */
#ifndef CROWD_H
#define CROWD_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define MOST		1024	/* connections */

/* A connection of the crowd. */
struct member {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned char *memory;	/* Receives, then calls */
	const struct kind *kind;
	uint32_t xid;		/* of the next call */
	int depth;		/* calls for which there is room */
	int granted, outstanding, posted, valid, lost;
	double stops;		/* when it ceases to take replies; 0: never */
	double began;		/* when the oldest call that is timed was sent */
	uint32_t timed;		/* its XID */
};

extern struct member members[MOST];
extern int count;

void fatal(const char *what);
double now(void);

/* press.c */
void prepare(const char *kinds, const char *handle);
void equip(struct member *member, int index);
void ask(struct member *member);
int count_valid(void);
int replies(void);
void press(struct rdma_event_channel *events, double seconds);

#endif
