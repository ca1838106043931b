// SPDX-License-Identifier: GPL-2.0
/*
 * The passive side of the connection manager: listening and accepting; and connections between the
 * module's client and its server.
 */
#include <linux/inet.h>
#include <rdma/ib_cm.h>
#include "cm.h"
#include "limits.h"

/* --- The passive side --- */

int rdma_set_afonly(struct rdma_cm_id *id, int afonly)
{
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_in *from = (struct sockaddr_in *)addr;

	h_driver_allocates("an address is bound", __builtin_return_address(0));
	memcpy(&id->route.addr.src_addr, addr, sizeof(struct sockaddr_in));
	if (h_step_error(H_STEP_BIND))
		return h_faults.error;
	if (from->sin_addr.s_addr != INADDR_ANY && !h_cm_find_port(id))
		return -EADDRNOTAVAIL;
	if (h_faults.removed && h_faults.removed == id->port_num)
		h_handler_start(h_cm_event(h_identifier_of(id), RDMA_CM_EVENT_DEVICE_REMOVAL, 0));
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	h_driver_allocates("an identifier listens", __builtin_return_address(0));
	if (h_faults.listen)
		return h_faults.listen;
	h_identifier_of(id)->listening = true;
	return 0;
}

static struct identifier *listener(void)
{
	struct identifier *self;

	list_for_each_entry(self, &h_identifiers, all)
		if (self->listening)
			return self;
	return NULL;
}

int h_cm_listener_class(void)
{
	return listener()->class;
}

/* Reports a request of a peer that has, and serves, this many RDMA Reads at a time. */
static struct event *report_request(struct identifier *self, u8 reads, u8 serves)
{
	struct event *event = h_cm_event(self, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	self->reads = reads;
	self->serves = serves;
	event->event.param.conn.responder_resources = reads;
	event->event.param.conn.initiator_depth = serves;
	return event;
}

/* Makes the request of the stand-in. */
static void make_request(struct identifier *self)
{
	u8 serves = h_answer.no_reads ? 0 : h_answer.reads ?: 16;
	struct event *event = report_request(self, 16, serves);
	struct rdma_conn_param *parameters = &event->event.param.conn;

	parameters->private_data = event->data;
	parameters->private_data_len = h_private_data(event->data);
}

/* Makes the identifier of a connection request. */
static struct identifier *requested(struct h_device *device)
{
	struct identifier *from = listener(), *self;
	struct sockaddr_in peer = {
		.sin_family = AF_INET, .sin_port = htons(700), .sin_addr.s_addr = htonl(0x0a000003),
	};
	struct rdma_cm_id *id;

	h_expect(from, "nobody listens");
	self = h_cm_create(from->id.event_handler, from->id.context, from->id.ps,
			   from->id.qp_type);
	id = &self->id;
	self->passive = true;
	h_limits_use(id, device);
	id->port_num = 1;
	id->route.addr = from->id.route.addr;
	memcpy(&id->route.addr.dst_addr, &peer, sizeof(peer));
	return self;
}

/* Sends a connection request to the module's listener. */
void h_cm_request(void)
{
	make_request(requested(&h_devices[0]));
}

/* --- Between the module's client and its server --- */

static void copy_parameters(struct event *event, const struct rdma_conn_param *from)
{
	struct rdma_conn_param *to = &event->event.param.conn;

	h_expect(from->private_data_len <= sizeof(event->data), "private data has %u bytes",
		 from->private_data_len);
	memcpy(event->data, from->private_data, from->private_data_len);
	to->private_data = event->data;
	to->private_data_len = from->private_data_len;
	/* What one side serves is what the other side may use. */
	to->responder_resources = from->initiator_depth;
	to->initiator_depth = from->responder_resources;
}

int h_cm_ask(struct identifier *self, const struct rdma_conn_param *parameters)
{
	struct identifier *other;

	if (!h_devices[1].present || !listener()) {
		h_cm_event(self, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		return 0;
	}
	other = requested(&h_devices[1]);
	self->link = h_link_new(&self->id);
	other->link = self->link;
	other->side = H_SERVER;
	self->link->id[H_SERVER] = &other->id;
	copy_parameters(report_request(other, parameters->initiator_depth,
				       parameters->responder_resources), parameters);
	return 0;
}

static int accept(struct identifier *self, const struct rdma_conn_param *parameters)
{
	struct h_link *link = self->link;
	struct identifier *client;

	if (!link->id[H_CLIENT]) {
		h_cm_event(self, RDMA_CM_EVENT_REJECTED, IB_CM_REJ_STALE_CONN);
		return 0;
	}
	client = h_identifier_of(link->id[H_CLIENT]);
	client->connected = true;
	self->connected = true;
	h_connections++;
	h_link_connect(link);
	copy_parameters(h_cm_event(client, RDMA_CM_EVENT_ESTABLISHED, 0), parameters);
	h_cm_event(self, RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

void h_cm_leave(struct identifier *self)
{
	struct h_link *link = self->link;

	if (!link)
		return;
	self->link = NULL;
	link->id[self->side] = NULL;
	link->cut = true;
	if (!link->made && self->side == H_SERVER && link->id[H_CLIENT])
		h_cm_event(h_identifier_of(link->id[H_CLIENT]), RDMA_CM_EVENT_REJECTED,
			   IB_CM_REJ_CONSUMER_DEFINED);
}

/* A connection has no more RDMA Reads at a time than either side offers. */
static void check_offer(const struct identifier *self, const struct rdma_conn_param *parameters)
{
	if (parameters->responder_resources > self->reads ||
	    parameters->initiator_depth > self->serves)
		h_violation("a connection serves %u RDMA Reads and has %u; the peer: %u and %u",
			    parameters->responder_resources, parameters->initiator_depth,
			    self->reads, self->serves);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct identifier *self = h_identifier_of(id);
	struct h_qp *qp;

	h_driver_allocates("a connection is accepted", __builtin_return_address(0));
	h_expect(self->holder == current,
		 "violation: a connection is accepted without the lock of its handler");
	h_limits_reads(id, parameters);
	check_offer(self, parameters);
	if (self->link)
		return accept(self, parameters);
	qp = id->qp ? container_of(id->qp, struct h_qp, ib) : h_qp_find(parameters->qp_num);
	h_expect(id->qp || (qp && qp->state == IB_QPS_RTS),
		 "violation: a connection is accepted before its queue pair can send");
	if (h_faults.early)
		h_faults.early(qp);
	if (h_step_error(H_STEP_ACCEPT))
		return h_faults.error;
	self->connected = true;
	h_connections++;
	h_qp = qp;
	h_qp->class = id->qp ? h_answer.class : qp->class;
	qp->unestablished = h_faults.unestablished;
	if (!qp->unestablished)
		h_cm_conclude(self, H_STEP_ANSWERED, RDMA_CM_EVENT_ESTABLISHED,
			      RDMA_CM_EVENT_UNREACHABLE);
	return 0;
}

unsigned int h_cm_listeners(void)
{
	struct identifier *self;
	unsigned int count = 0;

	list_for_each_entry(self, &h_identifiers, all)
		count += self->listening;
	return count;
}

unsigned int h_cm_unanswered(void)
{
	struct identifier *self;
	unsigned int count = 0;

	list_for_each_entry(self, &h_identifiers, all)
		count += self->passive && !self->connected;
	return count;
}
