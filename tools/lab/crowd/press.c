// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of a crowd: a GETATTR of NFSv3 on each connection, or READs and WRITEs, as many at once
 * as the server grants.
 *
 * All connections share the memory from which WRITEs are read and into which READs are written;
 * the contents are of no interest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crowd.h"

#define CREDITS		128	/* that each connection asks for */
#define RECEIVE		1024
#define CALL		512	/* room for a call */
#define PAYLOAD		(1 << 20)
#define STOPS_AFTER	2.0	/* seconds after which a connection that stops takes no reply */

/* What a connection asks for, again and again. */
struct kind {
	const char *name;
	uint32_t bytes;
	int write, stops;
	unsigned long answered, failed, lost;
	double longest;
};

static struct kind kinds[] = {
	{ "read16k", 16 << 10, 0, 0, 0, 0, 0, 0 },
	{ "read1m", PAYLOAD, 0, 0, 0, 0, 0, 0 },
	{ "write1m", PAYLOAD, 1, 0, 0, 0, 0, 0 },
	{ "stop", PAYLOAD, 0, 1, 0, 0, 0, 0 },
	{ "look", 0, 0, 0, 0, 0, 0, 0 },
};
#define KINDS	(sizeof(kinds) / sizeof(kinds[0]))

static const struct kind *chosen[KINDS];
static int choices, valid;
static unsigned char handle[64];
static uint32_t handle_length;
static struct ibv_pd *pd;
static struct ibv_mr *payload;
static struct ibv_comp_channel *channel;
static uint32_t first_xid;	/* of the first connection; no two have the same XIDs */
static double pressing;	/* since when */

static void choose(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < KINDS; i++)
		if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, name, length)) {
			chosen[choices++] = &kinds[i];
			return;
		}
	errno = EINVAL;
	fatal(name);
}

/* Takes the kinds, separated by commas, and the file handle in hexadecimal. */
void prepare(const char *names, const char *hex)
{
	unsigned int byte;

	for (; *names && choices < (int)KINDS; names += strcspn(names, ",") + 1) {
		choose(names, strcspn(names, ","));
		if (!names[strcspn(names, ",")])
			break;
	}
	while (handle_length < sizeof(handle) && sscanf(hex + 2 * handle_length, "%2x", &byte) == 1)
		handle[handle_length++] = byte;
}

static void share(struct ibv_context *verbs)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	void *memory = aligned_alloc(4096, PAYLOAD);

	pd = ibv_alloc_pd(verbs);
	channel = ibv_create_comp_channel(verbs);
	if (!pd || !channel || !memory)
		fatal("ibv_alloc_pd");
	memset(memory, 'c', PAYLOAD);
	payload = ibv_reg_mr(pd, memory, PAYLOAD, access);
	if (!payload || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		fatal("ibv_reg_mr");
}

static void post_receive(struct member *member, uint64_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)member->memory + slot * RECEIVE,
		.length = RECEIVE,
		.lkey = member->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(member->id->qp, &wr, &bad))
		fatal("ibv_post_recv");
}

/* Gives a connection its queue pair, its memory, and as many Receives as it asks for credits. */
void equip(struct member *member, int index)
{
	const struct kind *kind = chosen[index % choices];
	int depth = kind->bytes ? CREDITS : 1, slot;
	size_t size = depth * (RECEIVE + CALL);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = depth, .max_send_sge = 1,
			.max_recv_wr = depth, .max_recv_sge = 1,
		},
	};

	if (!pd) {
		share(member->id->verbs);
		first_xid = (uint32_t)time(NULL) << 20;
	}
	member->kind = kind;
	member->depth = depth;
	member->xid = first_xid ^ (uint32_t)index << 20;
	member->granted = 1;
	member->memory = aligned_alloc(4096, (size + 4095) & ~4095ul);
	member->cq = ibv_create_cq(member->id->verbs, 2 * depth, member, channel, 0);
	if (!member->memory || !member->cq || ibv_req_notify_cq(member->cq, 0))
		fatal("ibv_create_cq");
	member->mr = ibv_reg_mr(pd, member->memory, size, IBV_ACCESS_LOCAL_WRITE);
	attr.send_cq = attr.recv_cq = member->cq;
	if (!member->mr || rdma_create_qp(member->id, pd, &attr))
		fatal("rdma_create_qp");
	for (slot = 0; slot < depth; slot++)
		post_receive(member, slot);
}

static unsigned char *put(unsigned char *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

/* Writes the header of version one. A READ or WRITE has one chunk of the shared memory. */
static unsigned char *put_header(unsigned char *at, struct member *member, uint32_t position)
{
	uint32_t address[2] = { (uint64_t)(uintptr_t)payload->addr >> 32,
				(uintptr_t)payload->addr };

	at = put(put(put(put(at, member->xid), 1), member->depth), 0);
	if (!member->kind->bytes)
		return put(put(put(at, 0), 0), 0);
	at = put(at, member->kind->write);
	at = member->kind->write ? put(at, position) : put(put(at, 1), 1);
	at = put(put(at, payload->rkey), member->kind->bytes);
	at = put(put(at, address[0]), address[1]);
	/* No further chunks of that list, and no list behind it. */
	at = put(put(at, 0), 0);
	return member->kind->write ? put(at, 0) : at;
}

/* Writes a call of NFSv3 by root, up to the data of a WRITE. */
static unsigned char *put_call(unsigned char *at, struct member *member)
{
	uint32_t procedure = !member->kind->bytes ? 1 : member->kind->write ? 7 : 6, unstable = 0;

	at = put(put(put(put(at, member->xid), 0), 2), 100003);
	at = put(put(at, 3), procedure);
	at = put(put(put(put(put(put(put(at, 1), 20), 0), 0), 0), 0), 0);
	at = put(put(put(at, 0), 0), handle_length);
	memcpy(at, handle, handle_length);
	memset(at + handle_length, 0, -handle_length & 3);
	at += (handle_length + 3) & ~3u;
	if (!member->kind->bytes)
		return at;
	at = put(put(put(at, 0), 0), member->kind->bytes);
	return member->kind->write ? put(put(at, unstable), member->kind->bytes) : at;
}

/* Prints the first sign of the end of a connection. */
static void lose(struct member *member, const char *why)
{
	if (!member->lost)
		printf("lost %s after %.1f s: %s\n", member->kind->name, now() - pressing, why);
	member->lost = 1;
}

/* Sends one more call. Its place is free: fewer calls than places are outstanding, in order. */
void ask(struct member *member)
{
	uint32_t place = member->xid % member->depth;
	unsigned char *start = member->memory + member->depth * RECEIVE + place * CALL, *at;
	unsigned char scratch[CALL];
	size_t inner = put_call(scratch, member) - scratch;
	struct ibv_sge sge = { .addr = (uintptr_t)start, .lkey = member->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = CREDITS, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge, .num_sge = 1,
	}, *bad;

	at = put_header(start, member, inner);
	memcpy(at, scratch, inner);
	sge.length = at + inner - start;
	if (ibv_post_send(member->id->qp, &wr, &bad)) {
		lose(member, "ibv_post_send");
		return;
	}
	if (!member->began) {
		member->began = now();
		member->timed = member->xid;
	}
	member->xid++;
	member->outstanding++;
	member->posted++;
}

static uint32_t get(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

/* Takes a reply: its grant, and whether the call was done. */
static void take(struct member *member, const unsigned char *reply, uint32_t length)
{
	struct kind *kind = (struct kind *)member->kind;
	/* Of the header, which has the chunk of a READ. */
	uint32_t words = member->kind->write || !member->kind->bytes ? 7 : 13;
	uint32_t status = length >= (words + 7) * 4 ? get(reply + (words + 6) * 4) : 1;

	member->outstanding--;
	member->granted = get(reply + 8) < CREDITS ? get(reply + 8) : CREDITS;
	valid += !member->valid && !status;
	member->valid |= !status;
	kind->answered++;
	kind->failed += get(reply + 12) != 0 || status != 0;
	if (member->began && get(reply) == member->timed) {
		double took = now() - member->began;

		kind->longest = took > kind->longest ? took : kind->longest;
		member->began = 0;
	}
}

static void complete(struct member *member, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		lose(member, ibv_wc_status_str(wc->status));
		return;
	}
	if (wc->wr_id == CREDITS) {
		member->posted--;
		return;
	}
	take(member, member->memory + wc->wr_id * RECEIVE, wc->byte_len);
	if (!member->stops || now() < member->stops)
		post_receive(member, wc->wr_id);
}

static void drain(struct member *member)
{
	struct ibv_wc done[32];
	int found, i;

	while (!member->lost && (found = ibv_poll_cq(member->cq, 32, done)) > 0)
		for (i = 0; i < found && !member->lost; i++)
			complete(member, &done[i]);
}

static void serve(struct member *member)
{
	drain(member);
	while (!member->lost && member->outstanding < member->granted && member->posted < CREDITS)
		ask(member);
}

static void for_ready(void (*act)(struct member *member))
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(channel, &cq, &context)) {
		struct member *member = context;

		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			fatal("ibv_req_notify_cq");
		act(member);
	}
}

/* Takes the replies that are there. Returns how many connections have made a call with success. */
int count_valid(void)
{
	for_ready(drain);
	return valid;
}

/* Returns the file descriptor that is readable when there are replies. */
int replies(void)
{
	return channel->fd;
}

static void report(double seconds)
{
	size_t i;
	int n;

	for (n = 0; n < count; n++)
		((struct kind *)members[n].kind)->lost += members[n].lost;
	printf("pressed %.1f", seconds);
	for (i = 0; i < KINDS; i++)
		printf(" %s %lu %lu %lu %.2f", kinds[i].name, kinds[i].answered, kinds[i].failed,
		       kinds[i].lost, kinds[i].longest);
	printf("\n");
	fflush(stdout);
}

/* Asks on all connections until the time is over, and prints what was answered. */
void press(struct rdma_event_channel *events, double seconds)
{
	struct pollfd ready[] = {
		{ .fd = channel->fd, .events = POLLIN }, { .fd = events->fd, .events = POLLIN },
	};
	int n;

	pressing = now();
	for (n = 0; n < count; n++) {
		if (members[n].kind->stops)
			members[n].stops = pressing + STOPS_AFTER;
		serve(&members[n]);
	}
	while (now() - pressing < seconds) {
		poll(ready, 2, 100);
		if (ready[1].revents) {
			struct rdma_cm_event *event;

			if (rdma_get_cm_event(events, &event))
				fatal("rdma_get_cm_event");
			lose(event->id->context, rdma_event_str(event->event));
			rdma_ack_cm_event(event);
		}
		for_ready(serve);
	}
	report(now() - pressing);
}
