/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the connection manager share. */
#ifndef HARNESS_CM_H
#define HARNESS_CM_H

#include <rdma/rdma_cm.h>
#include "both.h"

struct identifier {
	struct rdma_cm_id id;
	struct list_head all;
	bool listening;
	bool passive;	/* made for a connection request */
	bool routed;	/* its route has been, or is being, resolved */
	bool connected;
	bool busy;	/* its event handler is running, or about to */
	struct task_struct *holder;	/* the thread that has the lock of its handler */
	/* What its events are handled with, unless that is changed under the lock. */
	rdma_cm_event_handler handler;
	void *context;
	int class;	/* the traffic class that was set; -1: none was */
	u8 ack_timeout;	/* what was set after the route was resolved, before which it changes it */
	struct h_link *link;	/* the connection, if both its sides are the module */
	enum h_side side;
	u8 reads, serves;	/* the RDMA Reads that a request's peer has, and serves, at most */
};

struct event {
	struct list_head list;
	struct identifier *identifier;
	struct rdma_cm_event event;
	u8 data[56];
};

extern struct list_head h_identifiers;

static inline struct identifier *h_identifier_of(struct rdma_cm_id *id)
{
	return container_of(id, struct identifier, id);
}

struct event *h_cm_event(struct identifier *self, enum rdma_cm_event_type type, int status);
/* Reports the end of a step. It may have failed, or be late. */
void h_cm_conclude(struct identifier *self, enum h_step step, enum rdma_cm_event_type good,
		   enum rdma_cm_event_type bad);

/* Destroys an identifier when its handler has returned. */
void h_cm_destroy(struct identifier *self);
/* Makes an identifier. */
struct identifier *h_cm_create(rdma_cm_event_handler handler, void *context,
			       enum rdma_ucm_port_space ps, enum ib_qp_type type);

/* --- handler.c --- */
/* Notes what an identifier's events are handled with. */
void h_handler_note(struct identifier *self);
bool h_handler_is_free(const struct identifier *self);
void h_handler_start(struct event *event);
/* Waits until no event of an identifier is handled, and nobody has the lock of its handler. */
void h_handler_await(struct identifier *self);

/* --- passive.c --- */
/* Sends a client's connection request to the server, which may be out of reach. */
int h_cm_ask(struct identifier *self, const struct rdma_conn_param *parameters);
/* An identifier of a connection is destroyed. The other side is told, or its request rejected. */
void h_cm_leave(struct identifier *self);
/* Gives an identifier the port that has its local address. Returns whether there is one. */
bool h_cm_find_port(struct rdma_cm_id *id);

#endif /* HARNESS_CM_H */
