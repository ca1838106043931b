// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of connections for which no thread of the service is free: they are prepared and not
 * accepted, or must be closed.
 */
#include "harness.h"

static void request_unaccepted(void)
{
	h_load();
	h_serve_start(0);
	h_cm_request();
	h_settle();
	h_expect(h_objects(), "the connection is not prepared");
}

/* A removal does not wait until a thread of the service is free. */
void h_removed_without_threads(void)
{
	request_unaccepted();
	h_spawn("a removal", h_device_remove, NULL);
	h_settle();
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	h_serve_end();
}

/* A thread of the service accepts the connection after the removal has begun. */
void h_removed_and_accepted(void)
{
	request_unaccepted();
	h_spawn("a removal", h_device_remove, NULL);
	h_serve_threads(1);
	h_settle();
	h_expect(!h_connections, "a connection is accepted on a device that is removed");
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	h_serve_end();
}

/* The connections that may wait for a thread, and the requests behind them. */
#define BACKLOG 64

/*
 * A connection is not prepared before there is room for it among those that wait for a thread of
 * the service. Its request waits meanwhile.
 */
void h_backlog(void)
{
	unsigned int i, objects;

	h_load();
	h_serve_start(0);
	for (i = 0; i < BACKLOG; i++)
		h_cm_request();
	h_settle();
	objects = h_objects();
	h_allocations = (struct h_allocations) {};
	h_cm_request();
	h_settle();
	h_expect(h_objects() == objects && h_allocations.count < 10,
		 "%u pieces of memory are allocated for a connection without room",
		 h_allocations.count);
	h_serve_threads(1);
	h_settle();
	h_expect(h_connections == BACKLOG + 1, "%u connections are accepted", h_connections);
	h_serve_end();
}

/*
 * A removal begins while a connection is being prepared, and further requests wait. It does not
 * wait until these are prepared.
 */
void h_removed_in_flood(void)
{
	unsigned int i;

	request_unaccepted();
	/* The first one is that of the request. */
	h_sleeping_allocation = 2;
	for (i = 0; i < 3; i++)
		h_cm_request();
	h_settle();
	h_expect(h_allocation_sleeps(), "no connection is being prepared");
	h_spawn("a removal", h_device_remove, NULL);
	h_settle();
	/* After a few more it finds the device gone. */
	for (i = 0; i < 12 && h_objects(); i++) {
		h_sleeping_allocation = 1;
		h_allocation_go();
		h_settle();
	}
	h_expect(h_allocation_sleeps(), "no further connection is being prepared");
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	h_sleeping_allocation = 0;
	h_allocation_go();
	h_settle();
	h_expect(!h_warnings, "the log warns of requests whose device is being removed");
	h_serve_end();
}

/* A removal does not wait for a thread of the service that is busy with a call. */
void h_removed_while_busy(void)
{
	h_serve_begin();
	h_procedures_wait = true;
	h_ask(H_INLINE);
	h_complete_receive(h_qp);
	h_settle();
	h_spawn("a removal", h_device_remove, NULL);
	h_settle();
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	h_procedures_go();
	h_settle();
	h_serve_end();
}

/* Two connections are ready before a thread of the service looks. It accepts both. */
void h_ready_at_once(void)
{
	h_load();
	h_serve_start(0);
	h_cm_request();
	h_cm_request();
	h_settle();
	h_serve_threads(1);
	h_settle();
	h_expect(h_connections == 2, "of two connections %u are accepted", h_connections);
	h_serve_end();
}

static void ask_early(struct h_qp *qp)
{
	h_qp = qp;
	h_ask(H_INLINE);
	h_complete_receive(qp);
	h_qp = NULL;
}

/* A device takes messages before accept() returns. If it fails then, nothing of them is left. */
void h_accept_fails(void)
{
	h_load();
	h_serve_start(1);
	h_faults = (struct h_faults) { .step = H_STEP_ACCEPT, .error = -EINVAL };
	h_faults.early = ask_early;
	h_cm_request();
	h_settle();
	h_expect(!h_connections, "a connection is accepted");
	h_expect(!h_objects(), "%u objects of a connection that was not accepted are left",
		 h_objects());
	h_faults = (struct h_faults) {};
	h_cm_request();
	h_settle();
	h_expect(h_connections == 1, "the listener accepts no further connection");
	h_serve_end();
}
