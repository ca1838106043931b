/* SPDX-License-Identifier: GPL-2.0 */
/* The faults of a device and of its connection manager. harness.h includes this header. */
#ifndef HARNESS_FAULTS_H
#define HARNESS_FAULTS_H

#include <rdma/ib_verbs.h>

struct h_qp;

/* The most pages that are contiguous if memory is fragmented: all that the module may need. */
#define H_FRAGMENTED 8

/* The steps of making a connection, at this host. */
enum h_step {
	H_STEP_NONE, H_STEP_BIND, H_STEP_ADDRESS, H_STEP_RESOLVED, H_STEP_ROUTE, H_STEP_ROUTED,
	H_STEP_DOMAIN, H_STEP_QUEUE, H_STEP_PAIR, H_STEP_CONNECT, H_STEP_ANSWERED, H_STEP_ACCEPT,
	H_STEPS
};

/* The faults that a scenario injects. */
struct h_faults {
	enum h_step step;		/* the step that fails, ... */
	int error;			/* ... and its error; 0: the event of a step is late */
	int modify;			/* the error of ib_modify_qp(): the drain then fails */
	bool marker;			/* posting fails in the error state: the drain then fails */
	bool receives;			/* posting Receives fails */
	bool invalidation;		/* posting a LOCAL_INV fails */
	unsigned int posts;		/* the number of the next work request that is refused */
	enum ib_wc_status write;	/* the error of an RDMA Write, which ends the connection */
	int identifier;			/* the error of making an identifier */
	int listen;			/* the error of listening */
	u32 removed;			/* the port whose device is removed when it is bound */
	u32 lonely;			/* a bit for each port from which the peer is not found */
	void (*early)(struct h_qp *qp);	/* happens before a connection is accepted */
	bool dead;			/* the peers of present connections answer nothing */
	bool unestablished;		/* connections are established by h_establish() */
};

/* Establishes a connection. Over iWARP the connection manager closes it no earlier. */
void h_establish(struct h_qp *qp);
void h_await_establishment(const struct h_qp *qp);

extern struct h_faults h_faults;
extern u8 h_ack_timeout;	/* of the latest connection of a client; 0: the peer chooses it */
int h_step_error(enum h_step step);	/* the error of a step; 0: it does not fail */

#endif /* HARNESS_FAULTS_H */
