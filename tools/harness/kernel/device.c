// SPDX-License-Identifier: GPL-2.0
/*
 * The device: its attributes (similar to those of mlx5), protection domains, completion queues, and
 * the ib_clients that are notified of it.
 */
#include "harness.h"

struct ib_device h_device;
struct ib_client *h_client;
struct h_faults h_faults;
unsigned int h_object_count;
static bool present;
bool h_iwarp;
unsigned int h_most_elements;
/* Ports are numbered from 1. */
static struct ib_port_data ports[3];
static bool lost[ARRAY_SIZE(ports)];
static struct ib_client *clients[2];
static struct ib_event_handler *handler;

void h_device_init(void)
{
	struct ib_device *device = &h_device;
	u32 port;

	memset(device, 0, sizeof(*device));
	strcpy(device->name, "harness0");
	xa_init(&device->client_data);
	device->dma_device = &h_dma_device;
	device->num_comp_vectors = 1;
	device->phys_port_cnt = ARRAY_SIZE(ports) - 1;
	rdma_for_each_port(device, port)
		ports[port].immutable.core_cap_flags =
			h_iwarp ? RDMA_CORE_PORT_IWARP : RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	device->port_data = ports;
	device->ops.post_send = h_post_send;
	device->ops.post_recv = h_post_recv;
	/* The driver of hns sleeps while it maps a region. */
	device->ops.driver_id = h_slow_mapping ? RDMA_DRIVER_HNS : RDMA_DRIVER_MLX5;
	device->attrs = (struct ib_device_attr) {
		.max_qp_wr = 32768,
		.max_send_sge = 30,
		.max_recv_sge = 32,
		.max_sge_rd = 30,
		.max_cqe = 4194303,
		.max_mr = 1 << 24,
		.max_fast_reg_page_list_len = 512,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.kernel_cap_flags = IBK_SG_GAPS_REG | IBK_LOCAL_DMA_LKEY,
	};
}

unsigned int h_objects(void)
{
	return h_object_count;
}

static void tell(struct ib_client *client, bool added)
{
	if (added && client->add)
		client->add(&h_device);
	if (added || !client->remove)
		return;
	client->remove(&h_device, xa_load(&h_device.client_data, client->client_id));
	xa_erase(&h_device.client_data, client->client_id);
}

int ib_register_client(struct ib_client *client)
{
	unsigned int i = clients[0] ? 1 : 0;

	h_expect(!clients[i], "more ib_clients than the harness has room for");
	clients[i] = client;
	client->client_id = i;
	if (present)
		tell(client, true);
	return 0;
}

void ib_unregister_client(struct ib_client *client)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clients); i++) {
		if (clients[i] != client)
			continue;
		if (present)
			tell(client, false);
		clients[i] = NULL;
	}
}

void ib_set_client_data(struct ib_device *device, struct ib_client *client, void *data)
{
	xa_store(&device->client_data, client->client_id, data, GFP_KERNEL);
}

void ib_register_event_handler(struct ib_event_handler *registered)
{
	h_expect(!handler, "more handlers of events than the harness has room for");
	handler = registered;
}

void ib_unregister_event_handler(struct ib_event_handler *registered)
{
	h_expect(handler == registered, "violation: a handler is not registered");
	handler = NULL;
}

int ib_get_cached_port_state(struct ib_device *device, u32 port, enum ib_port_state *state)
{
	*state = lost[port] ? IB_PORT_DOWN : IB_PORT_ACTIVE;
	return 0;
}

static void report_down(void *port)
{
	struct ib_event event = {
		.device = &h_device, .event = IB_EVENT_PORT_ERR, .element.port_num = *(u32 *)port,
	};

	handler->handler(handler, &event);
}

void h_port_set(u32 port, bool up)
{
	lost[port] = !up;
	if (!up)
		h_spawn("a port goes down", report_down, &port);
	h_settle();
}

/* Adds the device, and notifies the clients in the order of their registration. */
void h_device_add(void *unused)
{
	unsigned int i;

	present = true;
	for (i = 0; i < ARRAY_SIZE(clients); i++)
		if (clients[i])
			tell(clients[i], true);
}

/* Removes the device. The client that registered last is notified first, the CM after all. */
void h_device_remove(void *unused)
{
	int i;

	present = false;
	for (i = ARRAY_SIZE(clients) - 1; i >= 0; i--)
		if (clients[i])
			tell(clients[i], false);
	h_cm_removed();
	if (h_object_count)
		h_violation("%u objects outlive the removal of their device", h_object_count);
}

struct ib_pd *__ib_alloc_pd(struct ib_device *device, unsigned int flags, const char *caller)
{
	struct ib_pd *pd = u_alloc(sizeof(*pd), __builtin_return_address(0));

	memset(pd, 0, sizeof(*pd));
	pd->device = device;
	pd->local_dma_lkey = 0x100;
	h_object_count++;
	return pd;
}

int ib_dealloc_pd_user(struct ib_pd *pd, struct ib_udata *udata)
{
	if (atomic_read(&pd->usecnt))
		h_violation("a protection domain is freed while %d objects use it",
			    atomic_read(&pd->usecnt));
	h_object_count--;
	u_free(pd);
	return 0;
}

static struct ib_cq *make_cq(struct ib_device *device, void *private, int entries)
{
	struct h_cq *cq = u_alloc(sizeof(*cq), __builtin_return_address(0));

	memset(cq, 0, sizeof(*cq));
	cq->ib.device = device;
	cq->ib.cq_context = private;
	cq->ib.cqe = entries;
	cq->ib.res.id = 1;
	h_object_count++;
	return &cq->ib;
}

struct ib_cq *__ib_alloc_cq_any(struct ib_device *device, void *private, int entries,
				enum ib_poll_context context, const char *caller)
{
	return make_cq(device, private, entries);
}

struct ib_cq *__ib_alloc_cq(struct ib_device *device, void *private, int entries, int vector,
			    enum ib_poll_context context, const char *caller)
{
	return make_cq(device, private, entries);
}

void ib_free_cq(struct ib_cq *cq)
{
	if (atomic_read(&cq->usecnt))
		h_violation("a completion queue is freed while a queue pair uses it");
	h_object_count--;
	u_free(container_of(cq, struct h_cq, ib));
}
