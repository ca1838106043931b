// SPDX-License-Identifier: GPL-2.0
/* Scenarios of connections that take the ports of a device in turn. */
#include "harness.h"

#define BOTH "10.0.0.1,10.0.0.2\n"

/* Connects, and checks the number of the connection and its port. */
static void expect_port(unsigned int connections, u32 port)
{
	h_live(20000);
	h_connect();
	h_expect(h_connections == connections, "%u connections were made", h_connections);
	h_expect(h_qp->id->port_num == port, "a connection uses port %u", h_qp->id->port_num);
}

static void lose_connection(void)
{
	h_cm_disconnected();
	h_settle();
}

/* Starts a call without a connection. */
static struct h_rpc *begin_call(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, 0);
	return rpc;
}

/* Ends the call over a connection that is made now, and checks the port of that connection. */
static void end_call(struct h_rpc *rpc, unsigned int connections, u32 port)
{
	static const struct h_reply plain;

	h_live(20000);
	h_expect(h_peer_call(rpc->xid), "the call was not sent");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	expect_port(connections, port);
}

/* A connection leaves a port that has lost its link, and the next one returns to it. */
void h_ports_fail(void)
{
	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	expect_port(1, 1);
	h_port_set(2, false);
	h_port_set(2, true);
	expect_port(1, 1);
	h_port_set(1, false);
	expect_port(2, 2);
	h_port_set(1, true);
	expect_port(2, 2);
	lose_connection();
	expect_port(3, 1);
	h_end();
}

/* A port that loses its link while the address of the server is resolved is not used. */
void h_ports_early(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	expect_port(1, 1);
	lose_connection();
	h_cm_waits = true;
	rpc = begin_call();
	h_port_set(1, false);
	h_cm_waits = false;
	end_call(rpc, 2, 2);
	h_end();
}

/* An address that the host lacks is left out; without any other one, the route decides. */
void h_ports_absent(void)
{
	h_begin();
	h_tune_text("rdma_local_addrs", "10.0.0.9, 10.0.0.2");
	expect_port(1, 2);
	h_tune_text("rdma_local_addrs", "10.0.0.9,fd00::1");
	lose_connection();
	expect_port(2, 1);
	h_end();
}

/* Without an address that the host has, the route selects a port, whatever its state. */
void h_ports_routed(void)
{
	h_begin();
	h_tune_text("rdma_local_addrs", "10.0.0.8,10.0.0.9");
	h_port_set(1, false);
	expect_port(1, 1);
	lose_connection();
	expect_port(2, 1);
	h_end();
}

/* InfiniBand's ports have no network interface. */
void h_ports_infiniband(void)
{
	h_no_netdev = true;
	h_ports_fail();
	h_no_netdev = false;
}

/*
 * Both ports lose their link, and the address is resolved when they have it again. The connection
 * leaves its port as if it were bound to an address.
 */
void h_ports_both(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	expect_port(1, 1);
	h_cm_waits = true;
	h_port_set(1, false);
	h_port_set(2, false);
	rpc = begin_call();
	h_port_set(1, true);
	h_port_set(2, true);
	h_cm_waits = false;
	end_call(rpc, 2, 1);
	h_port_set(1, false);
	expect_port(3, 2);
	h_end();
}

/* Without a choice of ports a connection waits for the link of its port. */
void h_ports_single(void)
{
	h_begin();
	h_tune_text("rdma_local_addrs", "10.0.0.2");
	expect_port(1, 2);
	h_port_set(2, false);
	h_port_set(2, true);
	expect_port(1, 2);
	h_end();
}

/*
 * An attempt without an answer is followed by one from the next port, after 5 s, and by one from
 * the first port after 10 s more.
 */
void h_ports_silent(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	expect_port(1, 1);
	lose_connection();
	h_answer.silent = true;
	rpc = begin_call();
	h_answer.silent = false;
	h_live(6000);
	end_call(rpc, 2, 2);
	lose_connection();
	h_answer.silent = true;
	rpc = begin_call();
	h_live(6000);
	h_answer.silent = false;
	h_live(8000);
	h_expect(h_connections == 2, "the second attempt was not longer");
	h_live(3000);
	end_call(rpc, 3, 1);
	h_end();
}

/*
 * The device of a port without link is removed while its address is tried. The first attempt of a
 * mount goes on with the next address.
 */
void h_ports_rejected(void)
{
	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	h_port_set(1, false);
	h_faults.removed = 1;
	expect_port(1, 2);
	h_faults.removed = 0;
	h_end();
}

/* Starts the first call of a mount, which fails if there is no connection. */
static struct h_rpc *ping(void)
{
	struct h_rpc *rpc = h_rpc_new(H_INLINE);

	h_rpc_start(rpc, RPC_TASK_SOFTCONN);
	h_live(100);
	return rpc;
}

/* From one port the server is not found. A mount takes the other port, and fails without one. */
void h_ports_lonely(void)
{
	struct h_rpc *rpc;
	unsigned int i;

	h_begin();
	h_tune_text("rdma_local_addrs", BOTH);
	h_faults.lonely = BIT(1) | BIT(2);
	rpc = ping();
	h_expect(rpc->released && rpc->status < 0, "a mount that cannot connect does not fail");
	h_rpc_free(rpc);
	h_faults.lonely = BIT(1);
	for (i = 1; i <= 2; i++) {
		h_umount();
		h_mount();
		rpc = ping();
		h_expect(h_peer_call(rpc->xid), "mount %u does not take the other port", i);
		end_call(rpc, i, 2);
	}
	h_faults.lonely = 0;
	h_end();
}
