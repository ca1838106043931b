// SPDX-License-Identifier: GPL-2.0
/*
 * The devices: their attributes (similar to those of mlx5), protection domains, completion queues,
 * and the ib_clients that are notified of them. Scenarios with both roles have two devices, the
 * others the first one only.
 */
#include "both.h"
#include "limits.h"

struct h_device h_devices[2];
struct h_faults h_faults;
bool h_iwarp;
bool h_no_netdev;
unsigned int h_most_elements;

int h_step_error(enum h_step step)
{
	return h_faults.step == step ? h_faults.error : 0;
}

unsigned int h_region_depth = 512;
u64 h_page_sizes = PAGE_SIZE;
static struct ib_client *clients[2];

static struct h_device *device_of(struct ib_device *device)
{
	return container_of(device, struct h_device, ib);
}

void h_object(struct ib_device *device, int change)
{
	device_of(device)->objects += change;
}

void h_device_attributes(struct ib_device_attr *attrs)
{
	*attrs = (struct ib_device_attr) {
		.page_size_cap = h_page_sizes,
		.max_qp_wr = 32768,
		.max_send_sge = 30,
		.max_recv_sge = 32,
		.max_sge_rd = 30,
		.max_cqe = 4194303,
		.max_mr = 1 << 24,
		.max_fast_reg_page_list_len = h_region_depth,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.kernel_cap_flags = IBK_SG_GAPS_REG | IBK_LOCAL_DMA_LKEY,
	};
}

static void init(struct h_device *self)
{
	struct ib_device *device = &self->ib;
	u32 port;

	memset(self, 0, sizeof(*self));
	strcpy(device->name, self == h_devices ? "harness0" : "harness1");
	xa_init(&device->client_data);
	device->dma_device = &h_dma_device;
	device->num_comp_vectors = 1;
	device->phys_port_cnt = ARRAY_SIZE(self->ports) - 1;
	rdma_for_each_port(device, port)
		self->ports[port].immutable.core_cap_flags =
			h_iwarp ? RDMA_CORE_PORT_IWARP : RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	device->port_data = self->ports;
	device->ops.post_send = h_post_send;
	device->ops.post_recv = h_post_recv;
	/* The driver of hns sleeps while it maps a region. */
	device->ops.driver_id = h_slow_mapping ? RDMA_DRIVER_HNS : RDMA_DRIVER_MLX5;
	h_device_attributes(&device->attrs);
}

void h_device_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(h_devices); i++)
		init(&h_devices[i]);
}

unsigned int h_objects(void)
{
	return h_devices[0].objects + h_devices[1].objects;
}

static void tell(struct ib_client *client, struct h_device *device, bool added)
{
	if (added && client->add)
		client->add(&device->ib);
	if (added || !client->remove)
		return;
	client->remove(&device->ib, xa_load(&device->ib.client_data, client->client_id));
	xa_erase(&device->ib.client_data, client->client_id);
}

/* Notifies a client of the devices that are there. */
static void tell_all(struct ib_client *client, bool added)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(h_devices); i++)
		if (h_devices[i].present)
			tell(client, &h_devices[i], added);
}

int ib_register_client(struct ib_client *client)
{
	unsigned int i = clients[0] ? 1 : 0;

	h_expect(!clients[i], "more ib_clients than the harness has room for");
	clients[i] = client;
	client->client_id = i;
	tell_all(client, true);
	return 0;
}

void ib_unregister_client(struct ib_client *client)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clients); i++) {
		if (clients[i] != client)
			continue;
		tell_all(client, false);
		clients[i] = NULL;
	}
}

void ib_set_client_data(struct ib_device *device, struct ib_client *client, void *data)
{
	xa_store(&device->client_data, client->client_id, data, GFP_KERNEL);
}

void ib_register_event_handler(struct ib_event_handler *handler)
{
	struct h_device *device = device_of(handler->device);

	h_expect(!device->handler, "more handlers of events than the harness has room for");
	device->handler = handler;
}

void ib_unregister_event_handler(struct ib_event_handler *handler)
{
	struct h_device *device = device_of(handler->device);

	h_expect(device->handler == handler, "violation: a handler is not registered");
	device->handler = NULL;
}

/* The cache lacks the link of a port that has a network interface. */
int ib_get_cached_port_state(struct ib_device *device, u32 port, enum ib_port_state *state)
{
	bool known = h_no_netdev && !device_of(device)->lost[port];

	*state = known ? IB_PORT_ACTIVE : IB_PORT_INIT;
	return 0;
}

struct net_device *ib_device_get_netdev(struct ib_device *device, u32 port)
{
	static struct net_device up, down;
	static int users;

	if (h_no_netdev)
		return NULL;
	h_expect(!users++, "violation: a network interface is in use for ever");
	up.pcpu_refcnt = down.pcpu_refcnt = (int __percpu __force *)&users;
	up.state = BIT(__LINK_STATE_START);
	down.state = BIT(__LINK_STATE_START) | BIT(__LINK_STATE_NOCARRIER);
	return device_of(device)->lost[port] ? &down : &up;
}

static void report_down(void *port)
{
	struct h_device *device = h_devices;
	struct ib_event event = {
		.device = &device->ib, .event = IB_EVENT_PORT_ERR,
		.element.port_num = *(u32 *)port,
	};

	device->handler->handler(device->handler, &event);
}

void h_port_set(u32 port, bool up)
{
	h_devices[0].lost[port] = !up;
	if (!up)
		h_spawn("a port goes down", report_down, &port);
	h_settle();
}

/* Adds a device, and notifies the clients in the order of their registration. */
void h_device_add(void *which)
{
	struct h_device *device = which ?: h_devices;
	unsigned int i;

	device->present = true;
	for (i = 0; i < ARRAY_SIZE(clients); i++)
		if (clients[i])
			tell(clients[i], device, true);
}

/* Removes a device. The client that registered last is notified first, the CM after all. */
void h_device_remove(void *which)
{
	struct h_device *device = which ?: h_devices;
	int i;

	device->present = false;
	for (i = ARRAY_SIZE(clients) - 1; i >= 0; i--)
		if (clients[i])
			tell(clients[i], device, false);
	h_cm_removed(&device->ib);
	if (device->objects)
		h_violation("%u objects outlive the removal of their device", device->objects);
}

struct ib_pd *__ib_alloc_pd(struct ib_device *device, unsigned int flags, const char *caller)
{
	struct ib_pd *pd;

	h_driver_allocates("a protection domain is made", __builtin_return_address(0));
	if (h_step_error(H_STEP_DOMAIN))
		return ERR_PTR(h_faults.error);
	pd = u_alloc(sizeof(*pd), __builtin_return_address(0));
	memset(pd, 0, sizeof(*pd));
	pd->device = device;
	pd->local_dma_lkey = 0x100;
	h_object(device, 1);
	return pd;
}

int ib_dealloc_pd_user(struct ib_pd *pd, struct ib_udata *udata)
{
	h_driver_ends("a protection domain is freed", __builtin_return_address(0));
	if (atomic_read(&pd->usecnt))
		h_violation("a protection domain is freed while %d objects use it",
			    atomic_read(&pd->usecnt));
	h_object(pd->device, -1);
	u_free(pd);
	return 0;
}

/* Handlers of completions take locks that do not disable softirqs. */
static struct ib_cq *make_cq(struct ib_device *device, void *private, int entries,
			     enum ib_poll_context context, const void *caller)
{
	struct h_cq *cq;

	h_driver_allocates("a completion queue is made", caller);
	h_expect(context == IB_POLL_WORKQUEUE || context == IB_POLL_UNBOUND_WORKQUEUE,
		 "violation: completions are handled in context %d", context);
	if (h_step_error(H_STEP_QUEUE))
		return ERR_PTR(h_faults.error);
	h_limits_entries(device, entries);
	cq = u_alloc(sizeof(*cq), __builtin_return_address(0));
	memset(cq, 0, sizeof(*cq));
	cq->ib.device = device;
	cq->ib.cq_context = private;
	cq->ib.cqe = entries;
	cq->ib.res.id = 1;
	h_object(device, 1);
	return &cq->ib;
}

struct ib_cq *__ib_alloc_cq_any(struct ib_device *device, void *private, int entries,
				enum ib_poll_context context, const char *caller)
{
	return make_cq(device, private, entries, context, __builtin_return_address(0));
}

struct ib_cq *__ib_alloc_cq(struct ib_device *device, void *private, int entries, int vector,
			    enum ib_poll_context context, const char *caller)
{
	return make_cq(device, private, entries, context, __builtin_return_address(0));
}

void ib_free_cq(struct ib_cq *cq)
{
	/* One without a queue pair is also freed where connecting fails. */
	h_driver_allocates("a completion queue is freed", __builtin_return_address(0));
	if (atomic_read(&cq->usecnt))
		h_violation("a completion queue is freed while a queue pair uses it");
	h_object(cq->device, -1);
	u_free(container_of(cq, struct h_cq, ib));
}
