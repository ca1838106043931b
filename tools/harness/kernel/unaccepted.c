// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of connections that are prepared and not accepted; the device may be removed meanwhile.
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
