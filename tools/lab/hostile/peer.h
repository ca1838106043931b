/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the hostile peer share: connections, and lines of output.
 */
#ifndef HOSTILE_PEER_H
#define HOSTILE_PEER_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define PEERS		256
#define RECEIVES	128
#define RECEIVE_SIZE	8192
#define SEND_SIZE	(256 * 1024)
#define BATCH		32
#define REGIONS		16

struct region {
	struct ibv_mr *mr;
	unsigned char *memory;
};

struct peer {
	int number;
	struct rdma_cm_id *id;
	struct rdma_conn_param offered;
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_mr *mr;
	unsigned char *memory;	/* RECEIVES buffers, then the send buffer */
	struct region regions[REGIONS];
	int region_count;
	int no_repost;		/* a Receive that a message has used is not posted again */
	int by_hand;		/* librdmacm does not change the state of the queue pair */
};

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_hex(const char *what, int number, const void *data, size_t length);
void say_done(const struct peer *peer, int failed);
void fatal(const char *what);
size_t from_hex(const char *text, unsigned char *bytes, size_t room);

unsigned char *send_buffer(struct peer *peer);
int post_receive(struct peer *peer, uint64_t index);
int post_receives(struct peer *peer, int count);
void open_peer(struct peer *peer);
void close_peer(struct peer *peer);
const char *await_send(struct peer *peer);
const char *post(struct peer *peer, struct ibv_send_wr *wr, size_t length, int count);

/* requester.c */
void do_connect(struct peer *peer, char **words);
void do_establish(struct peer *peer, char **words);
void do_receive(struct peer *peer, char **words);
void do_expose(struct peer *peer, char **words);
void do_peek(struct peer *peer, char **words);
void do_poke(struct peer *peer, char **words);
void do_burst(struct peer *peer, char **words);
void do_sendimm(struct peer *peer, char **words);
void on_response(struct peer *peer);

extern struct rdma_event_channel *events;

#endif
