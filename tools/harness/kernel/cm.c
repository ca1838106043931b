// SPDX-License-Identifier: GPL-2.0
/*
 * The connection manager. Each event is handled in a thread of its own; the events of a cm_id are
 * handled one at a time. h_answer has how the peer answers a connection request, unless the peer is
 * the module's other role.
 */
#include <linux/inet.h>
#include <linux/sunrpc/rpc_rdma_cid.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <rdma/ib_cm.h>
#include "both.h"
#include "limits.h"

struct identifier {
	struct rdma_cm_id id;
	struct list_head all;
	bool listening;
	bool passive;	/* made for a connection request */
	bool routed;	/* its route has been, or is being, resolved */
	bool connected;
	bool busy;	/* its event handler is running */
	int class;	/* the traffic class that was set; -1: none was */
	u8 ack_timeout;	/* what was set after the route was resolved, before which it changes it */
	struct h_link *link;	/* the connection, if both its sides are the module */
	enum h_side side;
};

struct event {
	struct list_head list;
	struct identifier *identifier;
	struct rdma_cm_event event;
	u8 data[56];
};

unsigned int h_connections, h_orderly_closes;

static LIST_HEAD(identifiers);
static LIST_HEAD(events);
static DECLARE_WAIT_QUEUE_HEAD(handled);

static struct identifier *identifier_of(struct rdma_cm_id *id)
{
	return container_of(id, struct identifier, id);
}

struct rdma_cm_id *__rdma_create_kernel_id(struct net *net, rdma_cm_event_handler handler,
					   void *context, enum rdma_ucm_port_space ps,
					   enum ib_qp_type type, const char *caller)
{
	struct identifier *self;

	if (h_faults.identifier)
		return ERR_PTR(h_faults.identifier);
	self = u_alloc(sizeof(*self), __builtin_return_address(0));
	memset(self, 0, sizeof(*self));
	self->id.event_handler = handler;
	self->id.context = context;
	self->id.ps = ps;
	self->id.qp_type = type;
	self->class = -1;
	list_add(&self->all, &identifiers);
	return &self->id;
}

static struct event *report(struct identifier *self, enum rdma_cm_event_type type, int status)
{
	struct event *event = u_alloc(sizeof(*event), NULL);

	memset(event, 0, sizeof(*event));
	event->identifier = self;
	event->event.event = type;
	event->event.status = status;
	list_add_tail(&event->list, &events);
	return event;
}

/* Reports the end of a step. It may have failed, or be late. */
static void conclude(struct identifier *self, enum h_step step, enum rdma_cm_event_type good,
		     enum rdma_cm_event_type bad)
{
	if (h_faults.step != step)
		report(self, good, 0);
	else if (h_faults.error)
		report(self, bad, h_faults.error);
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

static void leave(struct identifier *self);

void rdma_destroy_id(struct rdma_cm_id *id)
{
	struct identifier *self = identifier_of(id);

	leave(self);
	forget_events(self);
	wait_event(handled, !self->busy);
	forget_events(self);
	h_expect(!id->qp, "violation: an identifier is destroyed before its queue pair");
	h_limits_leave(id);
	list_del(&self->all);
	u_free(self);
}

static void handle(void *argument)
{
	struct event *event = argument;
	struct identifier *self = event->identifier;
	struct rdma_cm_id *id = &self->id;
	int error;

	/* The connection manager's worker. */
	current->flags |= PF_WQ_WORKER;
	error = id->event_handler(id, &event->event);
	current->flags &= ~PF_WQ_WORKER;
	self->busy = false;
	if (error)
		rdma_destroy_id(id);
	wake_up_all(&handled);
	u_free(event);
}

bool h_cm_waits;

/* Returns the next event of a device's identifiers, or of all if it is NULL. */
static struct event *next_event(const struct ib_device *device)
{
	struct event *event;

	list_for_each_entry(event, &events, list)
		if (!event->identifier->busy && (!device || event->identifier->id.device == device))
			return event;
	return NULL;
}

static void start(struct event *event)
{
	list_del(&event->list);
	event->identifier->busy = true;
	h_spawn("a handler of connection events", handle, event);
}

bool h_run_cm(void)
{
	struct event *event = h_cm_waits ? NULL : next_event(NULL);

	if (event)
		start(event);
	return event;
}

bool h_cm_event_waits(const struct ib_device *device)
{
	return h_cm_waits && next_event(device);
}

void h_cm_handle_event(const struct ib_device *device)
{
	start(next_event(device));
}

void rdma_set_service_type(struct rdma_cm_id *id, int class)
{
	struct identifier *self = identifier_of(id);

	h_expect(!self->routed && !self->listening,
		 "violation: the traffic class is set after the route was resolved");
	self->class = class;
}

/* Gives an identifier the port that has its local address. Returns whether there is one. */
static bool find_port(struct rdma_cm_id *id)
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
	struct identifier *self = identifier_of(id);
	struct sockaddr_in *from = (struct sockaddr_in *)&id->route.addr.src_addr;

	memcpy(&id->route.addr.dst_addr, dst, sizeof(struct sockaddr_in));
	if (h_step_error(H_STEP_ADDRESS))
		return h_faults.error;
	if (!h_devices[0].present) {
		report(self, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	if (!id->device) {
		*from = (struct sockaddr_in) {
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(H_ADDRESS),
		};
		find_port(id);
	}
	if (h_faults.lonely & BIT(id->port_num))
		report(self, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	else
		conclude(self, H_STEP_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED,
			 RDMA_CM_EVENT_ADDR_ERROR);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, unsigned long timeout_ms)
{
	struct identifier *self = identifier_of(id);

	if (h_step_error(H_STEP_ROUTE))
		return h_faults.error;
	self->routed = true;
	conclude(self, H_STEP_ROUTED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	struct h_qp *qp;

	if (h_most_elements && attr->cap.max_send_wr * attr->cap.max_send_sge > h_most_elements)
		return -ENOMEM;
	if (h_step_error(H_STEP_PAIR))
		return h_faults.error;
	qp = h_qp_create(pd, attr);
	qp->id = id;
	qp->passive = identifier_of(id)->passive;
	id->qp = &qp->ib;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct h_qp *qp = container_of(id->qp, struct h_qp, ib);

	h_qp_await_close(qp);
	h_qp_destroy(qp);
}

static int request(struct identifier *self, const struct rdma_conn_param *parameters);

/* Reports that the peer rejects a connection, or an error at this host. */
static void refuse(struct identifier *self, int why)
{
	report(self, why > 0 ? RDMA_CM_EVENT_REJECTED : why == -ETIMEDOUT ?
	       RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_CONNECT_ERROR, why);
}

u8 h_ack_timeout;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct identifier *self = identifier_of(id);
	struct event *event;

	h_limits_reads(id, parameters);
	if (h_both)
		return request(self, parameters);
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
	event = report(self, RDMA_CM_EVENT_ESTABLISHED, 0);
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

/* --- The passive side --- */

int rdma_set_afonly(struct rdma_cm_id *id, int afonly)
{
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_in *from = (struct sockaddr_in *)addr;

	memcpy(&id->route.addr.src_addr, addr, sizeof(struct sockaddr_in));
	if (h_step_error(H_STEP_BIND))
		return h_faults.error;
	if (from->sin_addr.s_addr != INADDR_ANY && !find_port(id))
		return -EADDRNOTAVAIL;
	if (h_faults.removed && h_faults.removed == id->port_num)
		start(report(identifier_of(id), RDMA_CM_EVENT_DEVICE_REMOVAL, 0));
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	if (h_faults.listen)
		return h_faults.listen;
	identifier_of(id)->listening = true;
	return 0;
}

static struct identifier *listener(void)
{
	struct identifier *self;

	list_for_each_entry(self, &identifiers, all)
		if (self->listening)
			return self;
	return NULL;
}

int h_cm_listener_class(void)
{
	return listener()->class;
}

static void report_request(struct identifier *self)
{
	struct event *event = report(self, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_conn_param *parameters = &event->event.param.conn;

	parameters->responder_resources = 16;
	parameters->initiator_depth = h_answer.no_reads ? 0 : h_answer.reads ?: 16;
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
	id = __rdma_create_kernel_id(&init_net, from->id.event_handler, from->id.context,
				     from->id.ps, from->id.qp_type, NULL);
	self = identifier_of(id);
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
	report_request(requested(&h_devices[0]));
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

/* Sends a client's connection request to the server, which may be out of reach. */
static int request(struct identifier *self, const struct rdma_conn_param *parameters)
{
	struct identifier *other;

	if (!h_devices[1].present || !listener()) {
		report(self, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		return 0;
	}
	other = requested(&h_devices[1]);
	self->link = h_link_new(&self->id);
	other->link = self->link;
	other->side = H_SERVER;
	self->link->id[H_SERVER] = &other->id;
	copy_parameters(report(other, RDMA_CM_EVENT_CONNECT_REQUEST, 0), parameters);
	return 0;
}

static int accept(struct identifier *self, const struct rdma_conn_param *parameters)
{
	struct h_link *link = self->link;
	struct identifier *client;

	if (!link->id[H_CLIENT]) {
		report(self, RDMA_CM_EVENT_REJECTED, IB_CM_REJ_STALE_CONN);
		return 0;
	}
	client = identifier_of(link->id[H_CLIENT]);
	client->connected = true;
	self->connected = true;
	h_connections++;
	h_link_connect(link);
	copy_parameters(report(client, RDMA_CM_EVENT_ESTABLISHED, 0), parameters);
	report(self, RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

/* An identifier of a connection is destroyed. The other side is told, or its request rejected. */
static void leave(struct identifier *self)
{
	struct h_link *link = self->link;

	if (!link)
		return;
	self->link = NULL;
	link->id[self->side] = NULL;
	link->cut = true;
	if (!link->made && self->side == H_SERVER && link->id[H_CLIENT])
		report(identifier_of(link->id[H_CLIENT]), RDMA_CM_EVENT_REJECTED,
		       IB_CM_REJ_CONSUMER_DEFINED);
}

bool h_link_untold(const struct h_link *link, enum h_side side)
{
	return link->made && !h_link_open(link) && !link->told[side] && link->id[side];
}

void h_link_tell(struct h_link *link, enum h_side side)
{
	link->told[side] = true;
	report(identifier_of(link->id[side]), RDMA_CM_EVENT_DISCONNECTED, 0);
}

int rdma_set_ack_timeout(struct rdma_cm_id *id, u8 timeout)
{
	identifier_of(id)->ack_timeout = identifier_of(id)->routed ? timeout : 0;
	return 0;
}

int rdma_notify(struct rdma_cm_id *id, enum ib_event_type event)
{
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	struct identifier *self = identifier_of(id);
	struct h_qp *qp;

	h_limits_reads(id, parameters);
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
		conclude(self, H_STEP_ANSWERED, RDMA_CM_EVENT_ESTABLISHED,
			 RDMA_CM_EVENT_UNREACHABLE);
	return 0;
}

/*
 * Ends a connection. Over iWARP it is closed in order, and the peer answers, unless its queue pair
 * is in the error state: then the connection has been reset.
 */
int rdma_disconnect(struct rdma_cm_id *id)
{
	struct identifier *self = identifier_of(id);
	struct h_qp *qp = container_of(id->qp, struct h_qp, ib);

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
	report(self, RDMA_CM_EVENT_DISCONNECTED, 0);
	return h_faults.modify;
}

/*
 * Reports that the peer has ended the connection. The queue pair keeps its state until the module
 * also disconnects.
 */
void h_cm_disconnected(void)
{
	struct identifier *self;

	list_for_each_entry(self, &identifiers, all) {
		if (!self->connected)
			continue;
		report(self, RDMA_CM_EVENT_DISCONNECTED, 0);
	}
}

void h_cm_report(const struct h_qp *qp, enum rdma_cm_event_type type)
{
	report(identifier_of(qp->id), type, 0);
}

void h_cm_removed(const struct ib_device *device)
{
	struct identifier *self;

	list_for_each_entry(self, &identifiers, all)
		if (self->id.device == device)
			report(self, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void rdma_lock_handler(struct rdma_cm_id *id)
{
}

void rdma_unlock_handler(struct rdma_cm_id *id)
{
}

void h_cm_address_changed(void)
{
	struct identifier *self;

	list_for_each_entry(self, &identifiers, all)
		if (self->connected || self->listening)
			report(self, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

unsigned int h_cm_listeners(void)
{
	struct identifier *self;
	unsigned int count = 0;

	list_for_each_entry(self, &identifiers, all)
		count += self->listening;
	return count;
}

unsigned int h_cm_unanswered(void)
{
	struct identifier *self;
	unsigned int count = 0;

	list_for_each_entry(self, &identifiers, all)
		count += self->passive && !self->connected;
	return count;
}

const char *rdma_reject_msg(struct rdma_cm_id *id, int reason)
{
	return "rejected";
}
