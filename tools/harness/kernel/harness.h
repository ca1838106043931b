/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel side of the harness: what its files use of each other.
 *
 *   thread.c		coroutines that stand for threads; schedule()
 *   work.c		workqueues, timers, time
 *   memory.c		kmalloc() and pages
 *   lock.c		spinlocks and mutexes
 *   print.c		printk() and seq_file
 *   misc.c		odds and ends of the kernel; per-CPU variables
 *   services.c		what SUNRPC's own objects want of the rest of SUNRPC
 *   dma.c		DMA mappings, and who uses them
 *   device.c		the device, protection domains, completion queues, removal
 *   region.c		memory regions, and the peer's way to them
 *   queue.c		queue pairs: posting, executing, completing, draining
 *   cm.c		the connection manager
 *   peer.c		the responder: what it received, taken apart
 *   reply.c		the responder: what it answers
 *   client.c		RPCs: their life in SUNRPC, and the gap before their buffers are freed
 *   kinds.c		RPCs: the kinds there are, with their arguments and results
 *   transport.c	the module and one transport of it, from beginning to end
 *   callback.c		the service that answers the server's calls
 *   scenario.c		scenarios of the ordinary course of things
 *   faults.c		scenarios in which something goes wrong
 *   explore.c		all orders of events
 *   schedule.c		the events, and what holds after each of them
 *   bench.c		each kind of RPC again and again, for callgrind
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <linux/list.h>
#include <linux/sunrpc/clnt.h>
#include <linux/sunrpc/xprt.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include "../user.h"

/* A rule was broken. The program ends. */
#define h_violation(format, ...) u_fail("violation: " format, ##__VA_ARGS__)
/* The harness, or who uses it, is wrong. */
#define h_expect(condition, format, ...) \
	do { if (!(condition)) u_fail(format, ##__VA_ARGS__); } while (0)

/* --- thread.c --- */
void h_spawn(const char *name, void (*function)(void *), void *argument);
bool h_in_thread(void);
/* Lets threads run as far as they get. */
bool h_run_threads(void);
/* Runs everything that does not wait for an event of the driver's choice. */
void h_settle(void);
void h_print_sleepers(void);
unsigned int h_sleepers(void);

/* --- work.c --- */
bool h_run_work(void);
/* Lets so many milliseconds pass, and what is due in them happen. */
void h_pass(unsigned int ms);
void h_work_init(void);

/* --- misc.c --- */
int h_module_references(void);
/* How many slots a transport is to have; 0: as many as it likes. */
extern unsigned int h_slots;

/* --- dma.c --- */
enum h_use { H_UNUSED, H_SEND, H_RECEIVE };
bool h_dma_covers(u64 addr, size_t len, enum dma_data_direction way);
void h_dma_check_free(const void *p, size_t size);
unsigned int h_dma_live(void);
extern struct device h_dma_device;

/* --- device.c --- */
struct h_cq {
	struct ib_cq ib;
};

extern struct ib_device h_device;
extern struct ib_client *h_client;
void h_device_init(void);
/* Both in a thread. */
void h_device_add(void *unused);
void h_device_remove(void *unused);
unsigned int h_objects(void);
extern unsigned int h_object_count;

/* What is to go wrong. */
struct h_faults {
	int modify;			/* ib_modify_qp() fails with this, so nothing is drained */
	bool marker;			/* in the error state nothing can be posted; neither */
	enum ib_wc_status write;	/* RDMA Writes end with this, and the queue pair with them */
};

extern struct h_faults h_faults;

/* --- region.c --- */
struct h_mr {
	struct ib_mr ib;
	struct list_head all;
	struct ib_pd *pd;
	struct h_qp *qp;	/* where it was registered last */
	struct scatterlist *sg;
	unsigned int nents;
	unsigned int depth;
	bool mapped;		/* ib_map_mr_sg() since the last registration */
	bool valid;		/* the peer can use it */
	u32 key;
	u64 iova;
	u64 length;
	int access;
};

struct h_qp;
void h_mr_register(struct h_qp *qp, struct h_mr *mr, u32 key, int access);
bool h_mr_invalidate(struct h_qp *qp, u32 key);
bool h_mr_open(const struct h_qp *qp, u32 key);
struct h_mr *h_mr_find(u32 key);
void h_mr_forget(struct h_qp *qp);
/* Ends the program if the peer can reach something in there. */
void h_mr_check_owner(const void *memory, size_t size, const char *when);
/* Whether some region is open to the peer, or may be as far as anybody knows. */
bool h_mr_reachable(const struct h_mr *mr);
void h_mr_check_unmap(const struct scatterlist *sg);
unsigned int h_mr_live(void);
/* The peer's RDMA Read and Write. */
void h_peer_access(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write);

/* --- queue.c --- */
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
	u32 key;
	int access;
	struct h_mr *mr;
	u32 byte_len;
	int wc_flags;
	u32 wc_key;
	enum ib_wc_opcode wc_opcode;
};

struct h_qp {
	struct ib_qp ib;
	struct list_head all;
	struct list_head sq;		/* posted, completion not yet delivered */
	struct list_head rq;		/* Receives without a message */
	struct list_head arrived;	/* Receives with one, completion not yet delivered */
	unsigned int sq_len, rq_len;
	struct ib_qp_cap cap;
	void (*event_handler)(struct ib_event *event, void *context);
	bool drained, destroyed, broken;
	bool hold;			/* executes nothing for now */
	struct rdma_cm_id *id;
};

int h_post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int h_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
extern struct h_qp *h_qp;		/* the one that was connected last */
void h_qp_execute(struct h_qp *qp);
/* Delivers the next completion of the send queue; false: there is none. */
bool h_complete_send(struct h_qp *qp);
bool h_complete_receive(struct h_qp *qp);
/* The next signalled work request that has been executed, or NULL. */
struct h_wr *h_next_signalled(struct h_qp *qp);
/* Time passes, and completions are handled as they come. */
void h_live(unsigned int ms);
void h_qp_error(struct h_qp *qp);
/* The peer did what it may not do. */
void h_qp_access_error(struct h_qp *qp);
bool h_flush_one(void);
void h_arrive_immediate(struct h_qp *qp, u32 len);
/* A message arrives; key: 0, or what it invalidates. */
void h_arrive(struct h_qp *qp, const void *message, u32 len, u32 key);
bool h_qp_in_use(const struct h_qp *qp);
struct h_qp *h_qp_create(struct ib_pd *pd, const struct ib_qp_init_attr *attr);
void h_qp_destroy(struct h_qp *qp);
void h_qp_check_unmap(u64 addr, size_t len);
void h_deliver(struct h_qp *qp, struct h_wr *wr);

/* --- cm.c --- */
bool h_run_cm(void);
void h_cm_disconnected(void);
void h_cm_removed(void);
/* What the peer says when a connection is made. */
struct h_answer {
	bool refuse;
	bool silent;
	u32 send, receive;	/* its thresholds; 0: no private data */
	bool remote_invalidation;
};

extern struct h_answer h_answer;
extern unsigned int h_connections;

/* --- peer.c --- */
#define H_SEGMENTS 32

struct h_chunk {
	unsigned int count;
	struct { u32 position, key, len; u64 addr; } segments[H_SEGMENTS];
};

/* A call as the responder has it. */
struct h_call {
	struct list_head list;
	struct h_qp *qp;
	u32 xid, credits, proc;
	struct h_chunk read, write, reply;
	u32 kind;		/* RPC procedure */
	u32 header;		/* bytes of the transport header */
	u32 len;
	u8 bytes[65536 + 64];
	u8 message[65536];	/* the RPC message, without what read chunks after its start hold */
	u32 message_len;
	u32 payload;		/* bytes of a WRITE, as they were read and found right */
};

struct h_call *h_peer_call(u32 xid);
void h_peer_drop(struct h_call *call);
void h_peer_drop_all(void);
void h_peer_forget(const struct h_qp *qp);
void h_peer_receive(struct h_qp *qp, const void *message, u32 len);
u32 h_call_key(const struct h_call *call, unsigned int n);
extern unsigned int h_backward_replies;

/* --- reply.c --- */
enum h_invalidate { H_INV_NONE, H_INV_OWN, H_INV_KEY };

struct h_reply {
	enum h_invalidate how;
	u32 key;
	u32 credits;	/* 0: the usual number */
	u32 version;	/* 0: the right one */
	u32 shorter;	/* bytes that a payload is shorter by */
	bool unused;	/* the write chunk is returned unused, the payload inline */
	bool error;	/* RDMA_ERROR, ERR_CHUNK */
	bool keep;	/* the call stays with the peer, to be answered again */
};

extern u32 h_grant;
/*
 * Answers a call. If the requester does not let the peer write to what it has offered, or has changed
 * the key to be invalidated, the connection breaks instead, and false is returned.
 */
bool h_answer_call(struct h_call *call, const struct h_reply *how);
void h_answer_unknown(u32 xid, u32 key);
void h_call_back(u32 xid);

/* --- kinds.c --- */
struct h_kind {
	const char *name;
	u32 send_pages, receive_pages;	/* payloads, in bytes */
	u32 call_head;			/* bytes of arguments beside the payload */
	u32 reply_head;			/* bytes of results beside it */
	bool scattered;
	bool marked;			/* payload may go by a chunk of its own */
};

enum h_kind_number {
	H_INLINE, H_READ_4K, H_WRITE_4K, H_READ_1M_ADJACENT, H_READ_1M_SCATTERED,
	H_WRITE_1M_ADJACENT, H_WRITE_1M_SCATTERED, H_READDIR, H_LONG_CALL, H_KINDS
};

extern const struct h_kind h_kinds[H_KINDS];
extern const struct rpc_procinfo h_procedures[H_KINDS];
u8 h_payload_byte(u32 offset, u32 seed);
/* Whether what is in payloads is made up, and compared. */
extern bool h_payloads;

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
	bool done;		/* its caller has been told */
	bool released;		/* its task is gone */
	bool hold;		/* stop before its buffers are freed */
	bool held;		/* stopped there: it has been dequeued */
	bool go;
	u32 received;		/* bytes of payload in the reply, found right */
	unsigned int encodings;
	wait_queue_head_t wait;
};

struct h_rpc *h_rpc_new(enum h_kind_number kind);
void h_rpc_start(struct h_rpc *rpc, unsigned int flags);
void h_rpc_free(struct h_rpc *rpc);
void h_rpc_cancel(struct h_rpc *rpc);
void h_rpc_let_go(struct h_rpc *rpc);
/* Starts one, has it answered, and lets everything be handled. */
void h_rpc_run(struct h_rpc *rpc, const struct h_reply *how);
void h_rpc_check(struct h_rpc *rpc);
void h_rpc_check_memory(struct h_rpc *rpc, const char *when);
void h_client_init(struct rpc_xprt *xprt);
void h_wrap_operations(struct rpc_xprt *xprt);
/* SUNRPC's timer for the reply. */
void h_rpc_time_out(struct h_rpc *rpc);
bool h_rpc_waits(const struct h_rpc *rpc);
extern struct rpc_clnt h_clnt;
extern bool h_quiet;

/* --- transport.c --- */
extern struct rpc_xprt *h_xprt;
extern unsigned int h_disconnects;	/* calls of xprt_force_disconnect() */
void h_begin(void);		/* the module, a device, a transport without a connection */
void h_connect(void);		/* and with one: after an inline RPC */
void h_end(void);		/* all of it goes; nothing may be left */
unsigned long h_breaches(const char *name);
void h_check_breaches(void);
void h_check_calm(void);
u32 h_window(void);
u32 h_window_used(void);

/* --- callback.c --- */
void h_callbacks_begin(void);
void h_callbacks_end(void);
bool h_callback_answer(void);

/* --- print.c --- */
/* What a file of debugfs says, or NULL. */
const char *h_file_read(const char *name);
extern unsigned int h_warnings;

/* --- schedule.c --- */
#define H_RPCS 3

/* RPCs that are under way together, and what may happen to them. */
struct h_setting {
	const char *name;
	unsigned int count;
	enum h_kind_number kinds[H_RPCS];
	enum h_invalidate how[H_RPCS];
	bool either;		/* each reply may invalidate remotely, or not */
	bool again;		/* each reply may come twice */
	bool anew;		/* each call may be encoded anew, once; NFSv3 */
	bool disconnect;	/* the connection may be lost, once */
	bool at_once;		/* a message that arrives is handled at once */
	bool prune;		/* what looks the same is followed once, unless all is asked for */
};

#define H_EVENTS 24
#define H_EVENT_NAME 4

void h_setting_begin(const struct h_setting *setting);
/* Names of the events that may happen next; returns how many. */
unsigned int h_events(char names[H_EVENTS][H_EVENT_NAME]);
void h_event(const char *name);
/* Lets all come to its end, and checks that nothing is left. */
void h_setting_end(void);
u64 h_look(void);

/* --- scenario.c, faults.c, explore.c, bench.c --- */
struct h_scenario {
	const char *name;
	void (*run)(void);
};

extern const struct h_scenario h_scenarios[];
extern const struct h_scenario h_fault_scenarios[];
int h_explore(int count, char **order, bool all);
int h_bench(const char *kind, unsigned int count);
void h_bench_list(void);

#endif /* HARNESS_H */
