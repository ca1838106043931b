// SPDX-License-Identifier: GPL-2.0
/*
 * The connection manager. Each event is handled in a thread of its own; the events of a cm_id are
 * handled one at a time. h_answer has how the peer answers a connection request, unless the peer is
 * the module's other role.
 */
#include <linux/inet.h>
#include <linux/sunrpc/rpc_rdma_cid.h>
#include <rdma/ib_cm.h>
#include "cm.h"
#include "limits.h"

unsigned int h_connections, h_orderly_closes;

LIST_HEAD(h_identifiers);
static LIST_HEAD(events);

struct identifier *h_cm_create(rdma_cm_event_handler handler, void *context,
			       enum rdma_ucm_port_space ps, enum ib_qp_type type)
{
	struct identifier *self = u_alloc(sizeof(*self), __builtin_return_address(0));

	memset(self, 0, sizeof(*self));
	self->id.event_handler = handler;
	self->id.context = context;
	self->id.ps = ps;
	self->id.qp_type = type;
	self->class = -1;
	h_handler_note(self);
	list_add(&self->all, &h_identifiers);
	return self;
}

struct rdma_cm_id *__rdma_create_kernel_id(struct net *net, rdma_cm_event_handler handler,
					   void *context, enum rdma_ucm_port_space ps,
					   enum ib_qp_type type, const char *caller)
{
	h_driver_allocates("an identifier is made", __builtin_return_address(0));
	if (h_faults.identifier)
		return ERR_PTR(h_faults.identifier);
	return &h_cm_create(handler, context, ps, type)->id;
}

struct event *h_cm_event(struct identifier *self, enum rdma_cm_event_type type, int status)
{
	struct event *event = u_alloc(sizeof(*event), NULL);

	memset(event, 0, sizeof(*event));
	event->identifier = self;
	event->event.event = type;
	event->event.status = status;
	list_add_tail(&event->list, &events);
	return event;
}

void h_cm_conclude(struct identifier *self, enum h_step step, enum rdma_cm_event_type good,
		   enum rdma_cm_event_type bad)
{
	if (h_faults.step != step)
		h_cm_event(self, good, 0);
	else if (h_faults.error)
		h_cm_event(self, bad, h_faults.error);
}

static void forget_events(struct identifier *self)
{
	struct event *event, *next;

	list_for_each_entry_safe(event, next, &events, list) {
		if (event->identifier != self)
			continue;
		list_del(&event->list);
		u_free(event);
	}
}

void h_cm_destroy(struct identifier *self)
{
	h_cm_leave(self);
	forget_events(self);
	h_handler_await(self);
	forget_events(self);
	h_expect(!self->id.qp, "violation: an identifier is destroyed before its queue pair");
	h_limits_leave(&self->id);
	list_del(&self->all);
	u_free(self);
}

void rdma_destroy_id(struct rdma_cm_id *id)
{
	h_driver_ends("an identifier is destroyed", __builtin_return_address(0));
	h_cm_destroy(h_identifier_of(id));
}

bool h_cm_waits;

/* Returns the next event of a device's identifiers, or of all if it is NULL. */
static struct event *next_event(const struct ib_device *device)
{
	struct event *event;

	list_for_each_entry(event, &events, list)
		if (h_handler_is_free(event->identifier) &&
		    (!device || event->identifier->id.device == device))
			return event;
	return NULL;
}

bool h_run_cm(void)
{
	struct event *event = h_cm_waits ? NULL : next_event(NULL);

	if (event)
		h_handler_start(event);
	return event;
}

bool h_cm_event_waits(const struct ib_device *device)
{
	return h_cm_waits && next_event(device);
}

void h_cm_handle_event(const struct ib_device *device)
{
	h_handler_start(next_event(device));
}

void rdma_set_service_type(struct rdma_cm_id *id, int class)
{
	struct identifier *self = h_identifier_of(id);

	h_expect(!self->routed && !self->listening,
		 "violation: the traffic class is set after the route was resolved");
	self->class = class;
}

bool h_cm_find_port(struct rdma_cm_id *id)
{
	struct sockaddr_in *from = (struct sockaddr_in *)&id->route.addr.src_addr;
	u32 port = ntohl(from->sin_addr.s_addr) - H_ADDRESS + 1;

	if (port < 1 || port > h_devices[0].ib.phys_port_cnt)
		return false;
	h_limits_use(id, &h_devices[0]);
	id->port_num = port;
	return true;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, const struct sockaddr *dst,
		      unsigned long timeout_ms)
{
	struct identifier *self = h_identifier_of(id);
	struct sockaddr_in *from = (struct sockaddr_in *)&id->route.addr.src_addr;

	h_driver_allocates("an address is resolved", __builtin_return_address(0));
	/* The kernel's own module connects on a workqueue of the system. */
	h_expect(h_in_client_work() || !h_rust,
		 "violation: memory reclaim waits for a connection, whose worker has no rescuer");
	memcpy(&id->route.addr.dst_addr, dst, sizeof(struct sockaddr_in));
	if (h_step_error(H_STEP_ADDRESS))
		return h_faults.error;
	if (!h_devices[0].present) {
		h_cm_event(self, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	if (!id->device) {
		*from = (struct sockaddr_in) {
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(H_ADDRESS),
		};
		h_cm_find_port(id);
	}
	if (h_faults.lonely & BIT(id->port_num))
		h_cm_event(self, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	else
		h_cm_conclude(self, H_STEP_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED,
			      RDMA_CM_EVENT_ADDR_ERROR);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	struct identifier *self = h_identifier_of(id);

	h_driver_allocates("a route is resolved", __builtin_return_address(0));
	if (h_step_error(H_STEP_ROUTE))
		return h_faults.error;
	self->routed = true;
	h_cm_conclude(self, H_STEP_ROUTED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	struct h_qp *qp;

	h_driver_allocates("a queue pair is made", __builtin_return_address(0));
	if (h_most_elements && attr->cap.max_send_wr * attr->cap.max_send_sge > h_most_elements)
		return -ENOMEM;
	if (h_step_error(H_STEP_PAIR))
		return h_faults.error;
	qp = h_qp_create(pd, attr);
	qp->id = id;
	qp->passive = h_identifier_of(id)->passive;
	id->qp = &qp->ib;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct h_qp *qp = container_of(id->qp, struct h_qp, ib);

	h_driver_ends("a queue pair is destroyed", __builtin_return_address(0));
	h_qp_await_close(qp);
	h_qp_destroy(qp);
}

/* Reports that the peer rejects a connection, or an error at this host. */
static void refuse(struct identifier *self, int why)
{
	h_cm_event(self, why > 0 ? RDMA_CM_EVENT_REJECTED : why == -ETIMEDOUT ?
		   RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_CONNECT_ERROR, why);
}

u8 h_ack_timeout;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct identifier *self = h_identifier_of(id);
	struct event *event;

	h_driver_allocates("a connection is made", __builtin_return_address(0));
	h_handler_await(self);
	h_limits_reads(id, parameters);
	if (h_both)
		return h_cm_ask(self, parameters);
	if (h_step_error(H_STEP_CONNECT))
		return h_faults.error;
	if (h_answer.silent)
		return 0;
	if (h_answer.refuse || h_step_error(H_STEP_ANSWERED)) {
		refuse(self, h_answer.refuse ? IB_CM_REJ_CONSUMER_DEFINED : h_faults.error);
		return 0;
	}
	self->connected = true;
	h_connections++;
	h_qp = container_of(id->qp, struct h_qp, ib);
	h_qp->class = self->class;
	h_ack_timeout = self->ack_timeout;
	event = h_cm_event(self, RDMA_CM_EVENT_ESTABLISHED, 0);
	event->event.param.conn.responder_resources = 16;
	event->event.param.conn.initiator_depth = 16;
	event->event.param.conn.private_data = event->data;
	event->event.param.conn.private_data_len = h_private_data(event->data);
	return 0;
}

u64 h_cm_look(void)
{
	struct event *event;
	u64 hash = 0;

	list_for_each_entry(event, &events, list)
		hash = h_mix(hash, (u64)event->identifier + event->event.event);
	return hash;
}

bool h_link_untold(const struct h_link *link, enum h_side side)
{
	return link->made && !h_link_open(link) && !link->told[side] && link->id[side];
}

void h_link_tell(struct h_link *link, enum h_side side)
{
	link->told[side] = true;
	h_cm_event(h_identifier_of(link->id[side]), RDMA_CM_EVENT_DISCONNECTED, 0);
}

int rdma_set_ack_timeout(struct rdma_cm_id *id, u8 timeout)
{
	h_identifier_of(id)->ack_timeout = h_identifier_of(id)->routed ? timeout : 0;
	return 0;
}

int rdma_notify(struct rdma_cm_id *id, enum ib_event_type event)
{
	return 0;
}

/*
 * Ends a connection. Over iWARP it is closed in order, and the peer answers, unless its queue pair
 * is in the error state: then the connection has been reset.
 */
int rdma_disconnect(struct rdma_cm_id *id)
{
	struct identifier *self = h_identifier_of(id);
	struct h_qp *qp = container_of(id->qp, struct h_qp, ib);

	h_driver_ends("a connection is ended", __builtin_return_address(0));
	h_await_establishment(qp);
	if (!self->connected)
		return -EINVAL;
	self->connected = false;
	if (self->link) {
		self->link->cut = true;
		self->link->told[self->side] = true;
	}
	if (h_iwarp && !qp->broken) {
		qp->closing = true;
		h_orderly_closes++;
	}
	if (!h_faults.modify)
		h_qp_error(qp);
	h_cm_event(self, RDMA_CM_EVENT_DISCONNECTED, 0);
	return h_faults.modify;
}

/*
 * Reports that the peer has ended the connection. The queue pair keeps its state until the module
 * also disconnects.
 */
void h_cm_disconnected(void)
{
	struct identifier *self;

	list_for_each_entry(self, &h_identifiers, all) {
		if (!self->connected)
			continue;
		h_cm_event(self, RDMA_CM_EVENT_DISCONNECTED, 0);
	}
}

void h_cm_report(const struct h_qp *qp, enum rdma_cm_event_type type)
{
	h_cm_event(h_identifier_of(qp->id), type, 0);
}

void h_cm_removed(const struct ib_device *device)
{
	struct identifier *self;

	list_for_each_entry(self, &h_identifiers, all)
		if (self->id.device == device)
			h_cm_event(self, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void h_cm_address_changed(void)
{
	struct identifier *self;

	list_for_each_entry(self, &h_identifiers, all)
		if (self->connected || self->listening)
			h_cm_event(self, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

const char *rdma_reject_msg(struct rdma_cm_id *id, int reason)
{
	return "rejected";
}
