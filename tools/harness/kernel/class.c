// SPDX-License-Identifier: GPL-2.0
/* Scenarios of the traffic class of a connection's packets. */
#include "harness.h"

#define OURS	0x68
#define THEIRS	0x20

/* The client's class is that of the setting when a connection is made. */
void h_class_requested(void)
{
	h_begin();
	h_connect();
	h_expect(h_qp->class == -1, "a connection has class %#x without a setting", h_qp->class);
	h_tune("rdma_traffic_class", OURS);
	h_cm_disconnected();
	h_settle();
	h_live(20000);
	h_connect();
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_expect(h_qp->class == OURS, "a connection has class %#x", h_qp->class);
	h_end();
}

/* The server's packets have the class of its own setting, and without one that of the request. */
void h_class_accepted(void)
{
	h_answer.class = THEIRS;
	h_serve_begin();
	h_expect(h_qp->class == THEIRS, "a connection has class %#x without a setting",
		 h_qp->class);
	h_tune("traffic_class", 0);
	h_cm_request();
	h_settle();
	h_expect(h_connections == 2, "the second connection is not accepted");
	h_expect(!h_qp->class, "a connection has class %#x", h_qp->class);
	h_serve(H_READ_4K);
	h_serve(H_WRITE_4K);
	h_serve_end();
}

/* Over iWARP a connection has the class of its listener. */
void h_class_listened(void)
{
	h_iwarp = true;
	h_load();
	h_tune("traffic_class", OURS);
	h_serve_start(1);
	h_expect(h_cm_listener_class() == OURS, "the listener has class %#x",
		 h_cm_listener_class());
	h_cm_request();
	h_settle();
	h_expect(h_qp && !h_qp->state, "the module changes the state of a queue pair over iWARP");
	h_serve_end();
}
