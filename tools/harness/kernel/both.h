/* SPDX-License-Identifier: GPL-2.0 */
/* The module's client and the module's server in one program: connections, events, the model. */
#ifndef HARNESS_BOTH_H
#define HARNESS_BOTH_H

#include "harness.h"

/* --- link.c --- */
enum h_side { H_CLIENT, H_SERVER, H_SIDES };
#define H_LINKS	16
#define H_XIDS	32

/* A connection of the module's client to the module's server. */
struct h_link {
	struct h_qp *qp[H_SIDES];	/* NULL: not made, or destroyed */
	struct rdma_cm_id *id[H_SIDES];	/* NULL: destroyed */
	bool made;			/* the server has accepted */
	bool cut;			/* nothing reaches the peer any more */
	bool told[H_SIDES];		/* the side knows that the connection has ended */
	u32 xids[H_SIDES][H_XIDS];	/* those of the RPC messages that a side has sent */
	unsigned int sent[H_SIDES];
};

/* A side may have invalidated memory that the other one uses: a call was given up. */
extern bool h_links_may_break;
extern struct h_link h_links[H_LINKS];
extern unsigned int h_link_count;
struct h_link *h_link_new(struct rdma_cm_id *id);
void h_link_connect(struct h_link *link);	/* both identifiers have queue pairs */
void h_link_forget(struct h_qp *qp);
bool h_link_open(const struct h_link *link);
void h_link_send(struct h_qp *qp, const void *message, u32 len, u32 key);
void h_link_access(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write);
/* Has the next work request of a side reach the peer. */
void h_link_step(struct h_link *link, enum h_side side);
/* Whether a side does not know that the connection has ended; tells it. */
bool h_link_untold(const struct h_link *link, enum h_side side);
void h_link_tell(struct h_link *link, enum h_side side);

/* --- device.c --- */
extern unsigned int h_region_depth;	/* the most pages of a region */

/* --- nfsd.c --- */
/* A call that the service has executed, or is executing. */
struct h_execution {
	u32 xid, seed, proc;
	bool done;
};

/* Executes a call, or finds its first execution. Returns the serial number of that, from 1 on. */
u32 h_execute(u32 xid, u32 seed, u32 proc);
extern bool h_executions_wait;	/* procedures sleep until h_execution_go() */
bool h_execution_waits(u32 seed);
void h_execution_go(u32 seed);
/* Returns the serial number of the execution of a call; 0: there is none. */
u32 h_executed(u32 seed);
extern unsigned int h_replays;

#define H_BOTH_RPCS 2

/* RPCs of the client, and the events that may happen to them. */
struct h_pairing {
	const char *name;
	unsigned int count;		/* of RPCs */
	enum h_kind_number kinds[H_BOTH_RPCS];
	unsigned int faults;		/* the most that happen */
	const char *may;		/* the letters of these faults */
	unsigned int early;		/* times that time passes while there are other events */
	unsigned int version;		/* 1 or 2; 0: what client and server agree upon */
	bool procedures;		/* procedures take time */
	bool flushes;			/* flushed completions are handled late */
	bool unhurried;			/* events of the connection manager are handled late */
	bool longer;			/* all orders take minutes */
	bool random;			/* all orders take days */
};

/* --- both.c --- */
void h_both_begin(const struct h_pairing *pairing);
/* Delivers all that is under way while some milliseconds pass. */
void h_both_live(unsigned int ms);
void h_both_connect(void);
/* An RPC must see that it was executed once, unless it was told otherwise. */
void h_both_check_rpc(const struct h_rpc *rpc, bool killed);
void h_both_end(void);		/* undoes h_both_begin(), and checks that nothing is left */

/* --- both_events.c, both_look.c --- */
static inline u64 h_mix(u64 hash, u64 value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 29);
}

u64 h_work_look(void);
u64 h_cm_look(void);
u64 h_threads_look(void);
u64 h_executions_look(void);
/* Returns a hash of the module's memory, connections, timers and threads. */
u64 h_both_look(void);
extern const struct h_rules h_both_rules;

/* --- pairings.c --- */
extern const struct h_pairing h_pairings[];

#endif /* HARNESS_BOTH_H */
