// SPDX-License-Identifier: GPL-2.0
/*
 * The connections of the hostile peer: queue pairs, buffers and work requests; lines of output.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

#define PATIENCE	10	/* seconds for one work request */

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}

void say_hex(const char *what, int number, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	size_t i;

	printf("%s %d ", what, number);
	for (i = 0; i < length; i++)
		printf("%02x", bytes[i]);
	printf("%s\n", length ? "" : "-");
	fflush(stdout);
}

/* Prints the result of a command that leaves its error in errno. */
void say_done(const struct peer *peer, int failed)
{
	say("done %d %s\n", peer->number, failed ? strerror(errno) : "success");
}

void fatal(const char *what)
{
	say("fatal %s: %s\n", what, strerror(errno));
	exit(1);
}

unsigned char *send_buffer(struct peer *peer)
{
	return peer->memory + RECEIVES * RECEIVE_SIZE;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes hex digits up to another character. Returns the number of bytes, at most @room. */
size_t from_hex(const char *text, unsigned char *bytes, size_t room)
{
	size_t count = 0;

	while (count < room && digit(text[0]) >= 0 && digit(text[1]) >= 0) {
		bytes[count++] = digit(text[0]) << 4 | digit(text[1]);
		text += 2;
	}
	return count;
}

int post_receive(struct peer *peer, uint64_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory + index * RECEIVE_SIZE,
		.length = RECEIVE_SIZE,
		.lkey = peer->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(peer->qp, &wr, &bad);
}

/* Posts the first @count Receives. Returns 0, or the error. */
int post_receives(struct peer *peer, int count)
{
	int i, err = 0;

	for (i = 0; i < count && i < RECEIVES && !err; i++)
		err = post_receive(peer, i);
	return err;
}

static void open_queue_pair(struct peer *peer)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 2 * BATCH, .max_send_sge = 1,
			.max_recv_wr = RECEIVES, .max_recv_sge = 1,
		},
		.recv_cq = peer->recv_cq,
		.send_cq = peer->send_cq,
	};

	if (peer->by_hand) {
		peer->qp = ibv_create_qp(peer->pd, &attr);
	} else if (!rdma_create_qp(peer->id, peer->pd, &attr)) {
		peer->qp = peer->id->qp;
	}
	if (!peer->qp)
		fatal("rdma_create_qp");
}

void open_peer(struct peer *peer)
{
	size_t size = RECEIVES * RECEIVE_SIZE + SEND_SIZE;

	peer->pd = ibv_alloc_pd(peer->id->verbs);
	peer->channel = ibv_create_comp_channel(peer->id->verbs);
	if (!peer->pd || !peer->channel)
		fatal("ibv_alloc_pd");
	peer->recv_cq = ibv_create_cq(peer->id->verbs, RECEIVES + 1, NULL, peer->channel, 0);
	peer->send_cq = ibv_create_cq(peer->id->verbs, 2 * BATCH + 1, NULL, NULL, 0);
	if (!peer->recv_cq || !peer->send_cq)
		fatal("ibv_create_cq");
	peer->memory = aligned_alloc(4096, size);
	peer->mr = ibv_reg_mr(peer->pd, peer->memory, size, IBV_ACCESS_LOCAL_WRITE);
	if (!peer->mr)
		fatal("ibv_reg_mr");
	open_queue_pair(peer);
	if (ibv_req_notify_cq(peer->recv_cq, 0))
		fatal("ibv_req_notify_cq");
}

static void close_regions(struct peer *peer)
{
	while (peer->region_count) {
		struct region *region = &peer->regions[--peer->region_count];

		ibv_dereg_mr(region->mr);
		free(region->memory);
	}
}

void close_peer(struct peer *peer)
{
	if (!peer->id)
		return;
	if (peer->qp && peer->by_hand)
		ibv_destroy_qp(peer->qp);
	else if (peer->qp)
		rdma_destroy_qp(peer->id);
	if (peer->mr) {
		close_regions(peer);
		ibv_dereg_mr(peer->mr);
		ibv_destroy_cq(peer->send_cq);
		ibv_destroy_cq(peer->recv_cq);
		ibv_destroy_comp_channel(peer->channel);
		ibv_dealloc_pd(peer->pd);
		free(peer->memory);
	}
	rdma_destroy_id(peer->id);
	peer->id = NULL;
	peer->qp = NULL;
	peer->mr = NULL;
	peer->channel = NULL;
}

/* Waits for one completion of the send queue. Returns its status. */
const char *await_send(struct peer *peer)
{
	time_t deadline = time(NULL) + PATIENCE;
	struct ibv_wc wc;
	int found;

	do {
		found = ibv_poll_cq(peer->send_cq, 1, &wc);
		if (found > 0)
			return wc.status ? ibv_wc_status_str(wc.status) : "success";
		if (!found)
			usleep(200);
	} while (!found && time(NULL) < deadline);
	return found ? "the completion queue is broken" : "no completion";
}

/*
 * Posts @count copies of a work request for the first @length bytes of the send buffer. Returns the
 * status of the last one.
 */
const char *post(struct peer *peer, struct ibv_send_wr *wr, size_t length, int count)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)send_buffer(peer),
		.length = length,
		.lkey = peer->mr->lkey,
	};
	struct ibv_send_wr chain[BATCH], *bad;
	int i;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	for (i = 0; i < count; i++) {
		chain[i] = *wr;
		chain[i].next = i + 1 < count ? &chain[i + 1] : NULL;
		chain[i].send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
	}
	if (ibv_post_send(peer->qp, chain, &bad))
		return "not posted";
	return await_send(peer);
}
