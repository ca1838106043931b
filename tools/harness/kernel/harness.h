/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The declarations that the files in kernel/ share.
 *
 *   thread.c		coroutines that stand for threads; schedule()
 *   work.c		workqueues, timers, time
 *   memory.c		kmalloc() and pages
 *   lock.c		spinlocks and mutexes; context.h declares its functions
 *   context.c		where code may sleep, and what its allocations may wait for
 *   print.c		printk() and seq_file
 *   misc.c		modules, RCU, sysctl, strings; per-CPU variables
 *   services.c		functions of SUNRPC that are not linked in
 *   dma.c		DMA mappings and their checks
 *   device.c, limits.c	the device and its limits, protection domains, completion queues
 *   region.c		memory regions, and RDMA Read and Write by the peer
 *   queue.c		queue pairs: posting, executing, completing
 *   arrive.c		queue pairs: messages that arrive
 *   state.c		queue pairs: states, draining, destruction
 *   cm.c, passive.c	the connection manager, and its passive side; cm.h has what they share
 *   handler.c		the handlers of its events, and their locks
 *   announce.c		what the peer announces when a connection is made
 *   link.c		connections between the module's client and the module's server
 *   peer.c		the responder: decodes the messages that it receives
 *   reply.c		the responder: encodes its replies
 *   two.c		the responder: operations of version two
 *   requester.c	the requester: its calls, its memory, the replies that it receives
 *   encrypt.c		pages that a security flavour provides for calls
 *   client.c		RPCs: start, cancellation, end, and the stop before their buffers are freed
 *   kinds.c		RPCs: the kinds, with their arguments and results
 *   transport.c	one transport of the client: creation, checks, destruction
 *   service.c		the service whose transport the module's server is
 *   nfsd.c		what the service has executed: a cache of duplicates
 *   callback.c		the service that replies to the server's calls
 *   both.c		scenarios in which the module's client calls the module's server
 *   scenario.c		scenarios without a fault
 *   faults.c		scenarios with a fault
 *   reconnect.c		scenarios of a second connection, and what it allocates
 *   growth.c		scenarios of Receives whose size changes
 *   pulled.c		scenarios of replies that are read chunks
 *   exposed.c		scenarios of replies that the server exposes as read chunks
 *   flood.c		scenarios of send queues that are full, or too long for the device
 *   malformed.c	scenarios of messages that break the protocol
 *   grants.c		scenarios of the numbers of credits that a peer grants
 *   inline.c		scenarios of replies that are inline, or are not
 *   scarce.c		scenarios of allocations that fail, and of memory that is not contiguous
 *   moved.c		scenarios of addresses that move, and of removals at each step
 *   unaccepted.c	scenarios of connections for which no thread of the service is free
 *   resent.c		scenarios of calls that are encoded again, and of steps that fail
 *   refused.c		scenarios of work requests that the driver refuses
 *   held.c		scenarios of a device that is slow to send
 *   recall.c		scenarios of calls of the service to its requester
 *   timeout.c		scenarios of timeouts, also of calls whose reply SUNRPC has refused
 *   class.c, ports.c	scenarios of traffic classes, and of several ports
 *   short.c		scenarios of connections that share too few pages for calls
 *   earlier.c		scenarios of what an earlier connection has left behind
 *   verifier.c	scenarios of verifiers whose length changes
 *   called.c		scenarios of calls of the server at a bad time
 *   late.c		scenarios of RDMA Reads that complete after later work requests
 *   bounced.c		scenarios of regions that take fewer elements than the module gives them
 *   regions.c		scenarios of RDMA Reads over iWARP, which need memory regions
 *   explore.c		runs events in all orders, or at random
 *   schedule.c		the events, and the checks after each event
 *   fuzz*.c, hostile.h	the fuzzer; fuzz.h lists its files
 *   wire.h		reads and writes the words of a message
 *   scenarios.h		declares the scenarios
 *   bench.c		repeats each kind of RPC, for callgrind
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <linux/list.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/xprt.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include "../user.h"
#include "context.h"
#include "faults.h"
#include "kinds.h"

/* A variable whose contents mean nothing between two events; a snapshot leaves it out. */
#define H_SCRATCH __section(".bss.scratch")

/* Reports a violated rule and ends the program. */
#define h_violation(format, ...) u_fail("violation: " format, ##__VA_ARGS__)
#define h_expect(condition, format, ...) \
	do { if (!(condition)) u_fail(format, ##__VA_ARGS__); } while (0)

/* --- thread.c --- */
void h_spawn(const char *name, void (*function)(void *), void *argument);
bool h_in_thread(void);
/* Runs each thread until it sleeps or ends. Returns whether any thread ran. */
bool h_run_threads(void);
/* Runs threads, work and connection events until only events of the driver's choice are left. */
void h_settle(void);
void h_print_sleepers(void);
unsigned int h_sleepers(void);

/* --- work.c --- */
bool h_run_work(void);
/* Advances the time by some milliseconds, and runs the timers and delayed work that fall due. */
void h_pass(unsigned int ms);
/* The same, and delivers all completions meanwhile. */
void h_live(unsigned int ms);
void h_work_init(void);

/* --- misc.c --- */
int h_module_references(void);
extern unsigned int h_tasks_awaited;	/* calls of synchronize_rcu_tasks() */
/* The number of slots of a transport; 0: the module's default. */
extern unsigned int h_slots;
/* Sets a number in a table of the module below /proc/sys; writes a text as a user does. */
void h_tune(const char *name, unsigned int value);
void h_tune_text(const char *name, const char *text);
unsigned long h_counter(const char *name);	/* reads a counter of the server */

/* --- memory.c --- */
/* The allocations of the module's Rust code. A scenario sets it to zero. */
struct h_allocations {
	unsigned int count;
	size_t bytes, largest;
};

extern struct h_allocations h_allocations;
/* Allocations of the module's Rust code of at least this many bytes fail; 0: none fails. */
extern size_t h_refused_size;
/* The most contiguous pages that there are; 0: there is no limit. */
extern unsigned int h_contiguous;
/* The number of an allocation, counted from now on, that fails; 0: none does. */
extern unsigned int h_failing_allocation;
/* The number of an allocation, counted from now on, that sleeps; 0: none does. */
extern unsigned int h_sleeping_allocation;
/* Returns whether a thread sleeps so; lets it go on. */
bool h_allocation_sleeps(void);
void h_allocation_go(void);

/* --- dma.c --- */
enum h_use { H_UNUSED, H_SEND, H_RECEIVE };
bool h_dma_covers(u64 addr, size_t len, enum dma_data_direction way);
void h_dma_check_sent(u64 addr, size_t len);
void h_dma_check_free(const void *p, size_t size);
unsigned int h_dma_live(void);
/* The number of mappings that fail from now on, as if all bounce buffers were in use. */
extern unsigned int h_refused_mappings;
extern size_t h_least_refused;	/* mappings of fewer bytes do not fail */
extern bool h_no_long_room;	/* no free bounce buffer is longer than a page */
extern bool h_by_piece;		/* the pieces of a scatterlist are mapped one by one, and marked */
extern struct device h_dma_device;

/* --- device.c --- */
struct h_cq {
	struct ib_cq ib;
};

struct h_device {
	struct ib_device ib;
	struct ib_port_data ports[3];	/* ports are numbered from 1 */
	bool lost[3];			/* ports without a link */
	struct ib_event_handler *handler;
	unsigned int objects;		/* protection domains, queues, queue pairs, regions */
	bool present;
};

/* The device of the client and that of the server. With one role there is only the first. */
extern struct h_device h_devices[2];
void h_device_init(void);
/* The address of the first port of the first device. Those of the following ports follow. */
#define H_ADDRESS 0x0a000001
/* The client and the server are the module (both.h). To be set before it is loaded. */
extern bool h_both;
/* Adding and removing a device, or the first one if NULL. Both functions must run in a thread. */
void h_device_add(void *which);
void h_device_remove(void *which);
/* A port of the first device gets or loses its link; runs all threads. */
void h_port_set(u32 port, bool up);
extern u64 h_page_sizes;	/* the page sizes of regions, a bit for each */
unsigned int h_objects(void);		/* those of both devices */
void h_object(struct ib_device *device, int change);

extern bool h_no_netdev;		/* ports have no network interface (InfiniBand) */
/* The device speaks iWARP. To be set before it is added. */
extern bool h_iwarp;
/* The most SGEs of all work requests of a send queue together; 0: there is no limit. */
extern unsigned int h_most_elements;

/* --- region.c --- */
struct h_mr {
	struct ib_mr ib;
	struct list_head all;
	struct ib_pd *pd;
	struct h_qp *qp;	/* the queue pair of the last registration */
	struct scatterlist *sg;
	unsigned int nents;
	unsigned int depth;
	bool mapped;		/* ib_map_mr_sg() was called since the last invalidation */
	bool valid;		/* the peer can use the key */
	bool by_peer;		/* the peer has invalidated the key that it had last */
	u32 key;
	u64 iova;
	u64 length;
	int access;
};

/* The driver sleeps while it maps a region. To be set before the device is added. */
extern bool h_slow_mapping;
/* The address that the device gives to each region; 0: that of its memory. */
extern u64 h_iova;
/* The most regions that the device has; 0: there is no limit. */
extern unsigned int h_most_regions;
/* The device has bounce buffers, which do not keep the offset of memory in its page. */
extern bool h_bounced;
/* The most elements that a region takes; 0: its depth. */
extern unsigned int h_most_taken;
/* Returns the number of threads that sleep so; lets one of them go on. */
unsigned int h_map_waits(void);
void h_map_go(void);

struct h_qp;
void h_mr_register(struct h_qp *qp, struct h_mr *mr, u32 key, int access);
bool h_mr_invalidate(struct h_qp *qp, u32 key);
bool h_mr_open(const struct h_qp *qp, u32 key);
struct h_mr *h_mr_find(u32 key);
void h_mr_forget(struct h_qp *qp);
/* Ends the program if the peer can access a part of this memory. */
void h_mr_check_owner(const void *memory, size_t size, const char *when);
/* Returns whether the peer may still access a region's memory. */
bool h_mr_reachable(const struct h_mr *mr);
void h_mr_check_unmap(const struct scatterlist *sg);
unsigned int h_mr_live(void);
/* Carries out an RDMA Read or Write by the peer. */
void h_peer_access(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write);

/* --- queue.c --- */
extern unsigned int h_reads;		/* RDMA Reads that were posted */
extern unsigned int h_fenced_reads;	/* those that wait for all before them */
struct h_wr {
	struct list_head list;
	struct ib_cqe *cqe;
	u64 wr_id;
	enum ib_wr_opcode opcode;
	bool signalled;
	bool executed;
	enum ib_wc_status status;
	u64 addr;
	u32 len;
	u64 remote;
	u32 key;
	u32 invalidated;	/* the key that an RDMA Read invalidates */
	int access;
	struct h_mr *mr;
	u32 byte_len;
	int wc_flags;
	u32 wc_key;
	enum ib_wc_opcode wc_opcode;
	bool guessed;	/* a hostile peer has replied to it before it was sent */
};

struct h_qp {
	struct ib_qp ib;
	struct list_head all;
	struct list_head sq;		/* posted; completion not yet delivered */
	struct list_head rq;		/* Receives without a message */
	struct list_head arrived;	/* Receives with a message; completion not yet delivered */
	unsigned int sq_len, rq_len;
	unsigned int rq_most;		/* the largest number that rq_len has had */
	struct ib_qp_cap cap;
	void (*event_handler)(struct ib_event *event, void *context);
	bool drained, destroyed, broken, unestablished;
	bool passive;			/* the peer has asked for the connection */
	bool hold;			/* executes no work request while set */
	bool late;			/* executes no RDMA Read while set, but what follows it */
	bool undrained;			/* does not end to drain while set */
	bool closing;			/* over iWARP: its connection is being closed in order */
	u32 announced;			/* the size of Receives that the peer may count on */
	u32 asked;			/* the size that the peer was asked for; 0: none */
	struct h_link *link;		/* the connection to the other role; NULL: to a stand-in */
	struct rdma_cm_id *id;
	enum ib_qp_state state;		/* the state to which the module moved it */
	int class;			/* the traffic class of its packets; -1: the default */
	u32 heard[128], heard_count;	/* XIDs of the hostile peer's messages */
};

int h_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int h_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
extern struct h_qp *h_qp;		/* the queue pair that was connected last */
void h_drain_go(struct h_qp *qp);	/* ends `undrained` */
void h_qp_execute(struct h_qp *qp);
/* Returns the first work request of a queue pair that has not been executed, or NULL. */
struct h_wr *h_qp_awaiting(struct h_qp *qp);
void h_qp_step(struct h_qp *qp);	/* executes that one, and those that need no peer */
/* The peer does not acknowledge the first work request that has no completion. */
void h_qp_unacknowledged(struct h_qp *qp);
/* Delivers the next completion of the send queue. Returns false if there is none. */
bool h_complete_send(struct h_qp *qp);
bool h_complete_receive(struct h_qp *qp);
struct h_wr *h_next_signalled(struct h_qp *qp);	/* that of the next completion; or NULL */
void h_qp_error(struct h_qp *qp);
/* Breaks the connection because the peer used a key that is not valid. */
void h_qp_access_error(struct h_qp *qp);
bool h_flush_one(void);
extern bool h_flushes_wait;	/* the driver delivers flushed completions */
void h_arrive_immediate(struct h_qp *qp, u32 len);
/* Delivers a message to a Receive; key: the R_key that the message invalidates, or 0. */
void h_arrive(struct h_qp *qp, const void *message, u32 len, u32 key);
bool h_qp_in_use(const struct h_qp *qp);
struct h_qp *h_qp_create(struct ib_pd *pd, const struct ib_qp_init_attr *attr);
void h_qp_destroy(struct h_qp *qp);
struct h_qp *h_qp_find(u32 number);
/* Waits, if the connection of a queue pair is being closed in order, for the peer's answer. */
void h_qp_await_close(const struct h_qp *qp);
void h_qp_check_unmap(u64 addr, size_t len, enum dma_data_direction way);
void h_deliver(struct h_qp *qp, struct h_wr *wr);

/* --- cm.c --- */
bool h_run_cm(void);
void h_cm_disconnected(void);
void h_cm_report(const struct h_qp *qp, enum rdma_cm_event_type type);	/* of one */
void h_cm_removed(const struct ib_device *device);
void h_cm_request(void);
/* The peer's answer to a connection request. */
struct h_answer {
	bool refuse;
	bool silent;
	u32 send, receive;	/* its inline thresholds; 0: no private data */
	bool remote_invalidation;
	bool two;		/* it supports version two */
	u8 reads;		/* the RDMA Reads that it serves at a time; 0: 16 */
	bool bare;		/* it promises no Receives for operations */
	bool no_reads;		/* it asks for a connection without RDMA Reads */
	u8 class;		/* the traffic class in its connection request */
	u8 raw;			/* bytes of private data that follow; 0: as above */
	u8 bytes[56];
};

extern struct h_answer h_answer;
u8 h_private_data(u8 *data);	/* writes what the peer announces; returns the length */
extern unsigned int h_connections;
extern unsigned int h_orderly_closes;	/* over iWARP: those that were not reset */
extern bool h_cm_waits;		/* each event waits for h_cm_handle_event() */
bool h_cm_event_waits(const struct ib_device *device);
void h_cm_handle_event(const struct ib_device *device);
/* Reports that the address of each connection and of each listener has moved. */
void h_cm_address_changed(void);
unsigned int h_cm_listeners(void);	/* the number of identifiers that listen */
unsigned int h_cm_unanswered(void);	/* that of requests neither accepted nor rejected */
int h_cm_listener_class(void);	/* the traffic class of the listener; -1: none was set */

/* --- peer.c --- */
#define H_SEGMENTS 32

struct h_chunk {
	unsigned int count;
	struct { u32 position, key, len; u64 addr; } segments[H_SEGMENTS];
};

/* A call that the responder has received. */
struct h_call {
	struct list_head list;
	struct h_qp *qp;
	u32 xid, version, credits, proc;
	struct h_chunk read, write, reply;
	u32 kind;		/* RPC procedure */
	bool useless;		/* the peer has invalidated the read chunk that the call has */
	u32 header;		/* bytes of the transport header */
	u32 len;
	u8 bytes[65536 + 64];
	u8 message[65536];	/* the RPC message without the payload of a read chunk */
	u32 message_len;
	u32 payload;		/* bytes of a WRITE's payload, read and compared */
};

struct h_call *h_peer_call(u32 xid);
void h_peer_drop(struct h_call *call);
void h_peer_drop_all(void);
void h_peer_forget(const struct h_qp *qp);
void h_peer_receive(struct h_qp *qp, const void *message, u32 len);
u32 h_call_key(const struct h_call *call, unsigned int n);
/* Whether each reply to a call of the server has a higher XID than the one before. */
extern bool h_replies_ascend;
extern unsigned int h_backward_replies;
extern unsigned int h_dones;	/* RDMA_DONEs that it has received */

/* --- reply.c --- */
enum h_invalidate { H_INV_NONE, H_INV_OWN, H_INV_KEY };

struct h_reply {
	enum h_invalidate how;
	u32 key;
	u32 credits;	/* 0: h_grant */
	u32 version;	/* 0: that of the call */
	u32 shorter;	/* number of bytes by which the payload is shorter */
	u32 claimed;	/* number of bytes by which a chunk claims to be longer than it is */
	bool unused;	/* the write chunk is returned unused, and the payload is inline */
	bool error;	/* RDMA_ERROR, ERR_CHUNK */
	bool exposed;	/* the RPC message is a read chunk, and no chunk of the call is used */
	bool keep;	/* the peer keeps the call, so that it can reply again */
};

extern u32 h_grant;
/*
 * Replies to a call. Returns false, and breaks the connection, if a key of the call's write list or
 * reply chunk, or the key to be invalidated, is no longer valid.
 */
bool h_answer_call(struct h_call *call, const struct h_reply *how);
void h_answer_unknown(u32 xid, u32 key);
/* Carries out an RDMA Read of the module's client; false: a hostile peer has no such memory. */
bool h_exposed_read(u32 key, u64 addr, void *data, u32 len);
void h_call_back(u32 xid);

/* --- two.c --- */
struct h_cursor;
/* Handles an operation of version two. */
void h_two_receive(struct h_qp *qp, struct h_cursor *cursor);
/* Asks the module for Receives of another size. */
void h_two_ask(u32 size);
/* The number of such requests that the module has carried out. */
extern unsigned int h_two_done;
/* Ends the program if a Receive is smaller than the peer may count on. */
void h_two_check(const struct h_qp *qp, const struct h_wr *wr);

/* --- kinds.c: kinds.h has the rest --- */
/* Whether payloads are filled and compared. */
extern bool h_payloads;

/* --- encrypt.c --- */
struct h_rpc;
/* The flavour encrypts payloads of calls, as RPCSEC_GSS does. */
extern bool h_encrypts;
/* Returns the pages that a call is encoded with, after those of its last encoding are freed. */
struct page **h_encrypt(struct rpc_rqst *request, const struct h_rpc *rpc);

/* --- client.c --- */
struct h_rpc {
	const struct h_kind *kind;
	u32 number, seed;
	unsigned int flags;
	struct rpc_task *task;
	struct page **pages;
	unsigned int page_count;
	u32 xid;
	int status;
	bool done;		/* rpc_call_done was called */
	bool released;		/* the task has been released */
	u64 sum;		/* of the payload's memory when it was released */
	bool hold;		/* stop in buf_free */
	bool held;		/* stopped in buf_free: SUNRPC has dequeued it */
	bool go;		/* leave buf_free */
	u32 received;		/* bytes of payload in the reply */
	u32 serial;		/* that of the execution that the reply is of */
	unsigned int encodings;
	bool trusted;		/* a hostile peer's reply is as it should be, ... */
	bool doubted;		/* ... unless the peer has sent or written anything else */
	wait_queue_head_t wait;
};

struct h_rpc *h_rpc_new(u32 kind);
/* Returns where an offset of the payload is, and how many of the bytes follow in that page. */
u8 *h_rpc_payload(const struct h_rpc *rpc, u32 offset, u32 *len);
void h_rpc_start(struct h_rpc *rpc, unsigned int flags);
void h_rpc_free(struct h_rpc *rpc);
void h_rpc_cancel(struct h_rpc *rpc);
void h_rpc_let_go(struct h_rpc *rpc);
/* Starts an RPC, sends the peer's reply, and delivers all completions. */
void h_rpc_run(struct h_rpc *rpc, const struct h_reply *how);
void h_rpc_check(struct h_rpc *rpc);
/* Ends the program if the memory of a released RPC's payload has changed since. */
void h_rpc_check_unchanged(const struct h_rpc *rpc);
void h_rpc_check_memory(struct h_rpc *rpc, const char *when);
void h_client_init(struct rpc_xprt *xprt);
void h_wrap_operations(struct rpc_xprt *xprt);
/* Lets SUNRPC's timer for the reply expire. */
void h_rpc_time_out(struct h_rpc *rpc);
bool h_rpc_waits(const struct h_rpc *rpc);
extern struct rpc_clnt h_clnt;
extern bool h_quiet;

/* --- requester.c --- */
/* Sends a call to the module's server. Returns its XID. At most two calls may be unanswered. */
u32 h_ask(u32 kind);
void h_ask_again(u32 xid);	/* sends a call again, over the connection that there is now */
bool h_answered(u32 xid);	/* whether the reply to a call has been received */
extern u32 h_granted;		/* the credits that the last reply grants */
extern u32 h_pulled_key;	/* an R_key of the last reply that was read chunks */
bool h_call_refused(u32 xid);	/* whether the answer to a call was ERR_CHUNK */
/*
 * The chunks for results that calls offer: those that are needed, none, a reply chunk, or both
 * kinds of chunk, each as long as the payload.
 */
enum h_offer { H_OFFER_NEEDED, H_OFFER_NOTHING, H_OFFER_REPLY_CHUNK, H_OFFER_BOTH };
extern enum h_offer h_offer;
/* The requester also sends messages that are no calls, and counts the errors that it receives. */
extern bool h_provokes;
extern unsigned int h_errors;
void h_requester_receive(const struct h_qp *qp, const void *message, u32 len, u32 invalidated);
/* The number of calls of the service that the requester has received. */
extern unsigned int h_called_back;
/* Carries out an RDMA Read or Write of the module's server; false: as above. */
bool h_requester_access(u32 key, u64 addr, void *data, u32 len, bool write);

/* --- service.c --- */
/* Starts the service with this many threads; changes their number. The device must exist. */
void h_serve_start(unsigned int count);
extern unsigned int h_serve_size;	/* the largest payload of the service, in bytes */
void h_serve_threads(unsigned int count);
/* Has the service listen; or closes its listener. A hostile environment may prevent the former. */
void h_serve_listen(bool listen);
bool h_serve_listens(void);
bool h_serving(void);
void h_serve_begin(void);	/* loads the module, starts a service, connects to it */
/* Sends a call, and delivers all completions until it is answered. */
void h_serve(enum h_kind_number kind);
void h_serve_stop(void);	/* stops the service, which need not end if a peer hinders it */
void h_serve_end(void);		/* undoes h_serve_begin(), and checks that nothing is left */
/* Returns the connection that the service accepted last; NULL if it has none. */
struct svc_xprt *h_serve_connection(void);
/* The page of a file in which replies of up to a page have their payload; NULL: there is none. */
extern struct page *h_cached;
extern bool h_cached_used;	/* it was used: replies share their payload */
/* Has the service take payloads out of its replies again; the second page of each is h_cached. */
extern bool h_truncates;
extern bool h_uncounted;	/* the last page of a payload does not lie before rq_next_page */
/* Procedures of the service sleep while it is set; lets them go on. */
extern bool h_procedures_wait;
void h_procedures_go(void);
/* The number of times that a thread may look for messages; 0: there is no limit. */
extern unsigned int h_most_looks;

/* --- transport.c --- */
extern struct rpc_xprt *h_xprt;
extern bool h_ready;		/* code of the module that is not in a thread may not sleep */
int h_insmod(void);		/* loads the module; returns the result of its initialisation */
void h_load(void);		/* loads the module, and adds a device */
struct rpc_xprt *h_xprt_create(enum xprtsec_policies policy);	/* or returns an error */
void h_make_xprt(void *unused);	/* mounts: makes the transport h_xprt */
void h_check_nothing_left(void);	/* of the module, which is not loaded any more */
void h_unload(void);		/* unloads the module, and checks that nothing is left */
extern unsigned int h_disconnects;	/* calls of xprt_force_disconnect() */
void h_mount(void);		/* creates a transport */
void h_umount(void);
void h_begin(void);		/* loads the module, adds a device, creates a transport */
void h_connect(void);		/* connects the transport by one inline RPC */
void h_end(void);		/* undoes h_begin(), and checks that nothing is left */
/* A counter of the client's breaches, those that its peer has committed; NULL: the sum of all. */
unsigned long h_breaches(const char *name);
void h_check_breaches(void);
extern const char *h_requester_breach;	/* the breach that the server's peer commits, or NULL */
void h_check_requester(void);	/* ends the program if the server counts another breach */
void h_expect_breach(void);	/* ends the program if it does not count that one */
void h_check_calm(void);
u32 h_window(void);
u32 h_window_used(void);

/* --- callback.c --- */
bool h_callbacks_begin(void);	/* false: a fault that is injected prevents it */
void h_callbacks_end(void);
bool h_callback_answer(void);
extern u32 h_callback_len;	/* the length of the last call that was answered */
extern u32 h_callback_reply;	/* the length of the replies */
/* The number of replies that keep their thread no longer. */
extern unsigned int h_callbacks_ended;

/* --- print.c --- */
const char *h_file_read(const char *name);	/* a file in debugfs; NULL: there is none */
const char *h_statistics(void);	/* the transport's line of mountstats */
extern unsigned int h_warnings;

/* --- scenario.c, faults.c, growth.c, explore.c, bench.c --- */
struct h_scenario {
	const char *name;
	void (*run)(void);
};

extern const struct h_scenario h_scenarios[];
extern const struct h_scenario h_fault_scenarios[];
extern const struct h_scenario h_growth_scenarios[];
int h_explore(int count, char **order, bool all);
int h_explore_at_random(const char *setting, unsigned int seed, unsigned int seconds);
/* The settings that h_explore() omits; at random for some seconds those with too many orders. */
int h_explore_long(unsigned int seed, unsigned int seconds);
int h_bench(const char *kind, unsigned int count);
void h_bench_list(void);

#include "hostile.h"
#include "schedule.h"
#include "scenarios.h"

#endif /* HARNESS_H */
