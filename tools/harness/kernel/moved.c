// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of an address that moves to another network device, of a listener that cannot listen
 * again, and of a device that is removed at each step of making a connection.
 */
#include "harness.h"

static const struct h_reply plain;

/* Milliseconds after which a listener has tried to listen again. */
#define RETRIES	3000
/* Milliseconds in which a client tries to connect again. */
#define PATIENCE	90

/* Reports the end of the connections, once or several times, in one way or in two. */
static void move(unsigned int i)
{
	h_cm_address_changed();
	if (i & 1)
		h_cm_address_changed();
	if (i & 2)
		h_cm_disconnected();
	h_settle();
}

/* The connection is closed once, however often its end is reported. Its call is sent again. */
void h_moved(void)
{
	unsigned int i;

	h_begin();
	h_connect();
	for (i = 0; i < 4; i++) {
		struct h_rpc *rpc = h_rpc_new(H_READ_4K);

		h_rpc_start(rpc, 0);
		h_peer_drop_all();
		move(i);
		h_live(20000);
		h_expect(h_connections == 2 + i, "%u connections were made", h_connections);
		h_expect(h_peer_call(rpc->xid), "the call was not sent again");
		h_answer_call(h_peer_call(rpc->xid), &plain);
		h_live(0);
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	}
	h_check_breaches();
	h_end();
}

/* Connects, and calls the service. */
static void serve_anew(void)
{
	h_expect(h_cm_listeners() == 1, "%u identifiers listen", h_cm_listeners());
	h_cm_request();
	h_settle();
	h_serve(H_READ_4K);
}

/* The same for the connection of a server. Its listener listens with a new identifier. */
void h_moved_served(void)
{
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < 4; i++) {
		move(i);
		h_expect(!h_objects(), "%u objects of the connection are left", h_objects());
		serve_anew();
	}
	h_serve_end();
}

/* A listener is lost, and cannot listen for a while. */
static void lose_listener(int identifier, int listen)
{
	h_faults.identifier = identifier;
	h_faults.listen = listen;
	h_cm_address_changed();
	h_settle();
	h_expect(!h_cm_listeners(), "an identifier that is lost still listens");
	h_pass(RETRIES);
	h_settle();
	h_expect(!h_cm_listeners(), "an identifier listens although that fails");
	h_faults.identifier = 0;
	h_faults.listen = 0;
}

/*
 * The identifier that is lost is destroyed at once, whether there is another one or not, because
 * the removal of its device waits for that. The listener goes on trying.
 */
void h_listener_lost(void)
{
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < 2; i++) {
		lose_listener(0, -EADDRNOTAVAIL);
		h_pass(RETRIES);
		h_settle();
		serve_anew();
		lose_listener(-ENOMEM, 0);
		h_pass(RETRIES);
		h_settle();
		serve_anew();
	}
	h_serve_end();
}

/* The service ends while its listener has no identifier. */
void h_listener_lost_and_ended(void)
{
	h_serve_begin();
	lose_listener(-ENOMEM, 0);
	h_faults.identifier = -ENOMEM;
	h_serve_end();
}

/* Removes the device, and adds it again. */
static void remove_and_add(unsigned int n)
{
	h_spawn("a removal", h_device_remove, NULL);
	h_settle();
	if (h_allocation_sleeps()) {
		h_allocation_go();
		h_settle();
	}
	h_expect(!h_objects(), "allocation %u: %u objects outlive their device", n, h_objects());
	h_spawn("a device", h_device_add, NULL);
	h_settle();
}

/* The device is removed at each step of preparing and accepting a connection. */
void h_removed_at_each_step(void)
{
	unsigned int n = 0;
	bool reached;

	h_load();
	h_serve_start(1);
	do {
		h_sleeping_allocation = ++n;
		h_cm_request();
		h_settle();
		reached = h_allocation_sleeps();
		h_sleeping_allocation = 0;
		remove_and_add(n);
		h_expect(!h_cm_unanswered(), "allocation %u: a request has no answer", n);
	} while (reached);
	h_expect(n > 20, "only %u allocations sleep", n - 1);
	h_cm_request();
	h_settle();
	h_serve(H_WRITE_4K);
	h_serve_end();
}

/* Waits until the client has begun to connect, and sleeps in an allocation, or has sent a call. */
static void await(const struct h_rpc *rpc)
{
	unsigned int i;

	for (i = 0; i < PATIENCE && !h_peer_call(rpc->xid) && !h_allocation_sleeps(); i++)
		h_live(1000);
}

/* The device is removed at each step of connecting. The call is sent when it is back. */
void h_removed_amid_each_step(void)
{
	unsigned int n = 0;
	bool reached;

	h_begin();
	h_connect();
	do {
		struct h_rpc *rpc = h_rpc_new(H_READ_4K);

		h_live(400000);
		h_sleeping_allocation = ++n;
		h_rpc_start(rpc, 0);
		await(rpc);
		reached = h_allocation_sleeps();
		h_sleeping_allocation = 0;
		h_peer_drop_all();
		remove_and_add(n);
		await(rpc);
		h_expect(h_peer_call(rpc->xid), "allocation %u: the call is not sent", n);
		h_answer_call(h_peer_call(rpc->xid), &plain);
		h_live(0);
		h_rpc_check(rpc);
		h_rpc_free(rpc);
	} while (reached);
	h_expect(n > 20, "only %u allocations sleep", n - 1);
	h_check_breaches();
	h_end();
}
