// SPDX-License-Identifier: GPL-2.0
/*
 * The hostile peer as a requester: it connects, and exposes memory of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define RESOLVING	5000	/* milliseconds for an address, or a route */
#define LONG_TIMEOUT	20	/* 4.096 us times 2 to this power: four seconds */

/* Waits for one event of @channel. Returns 0 if it is @wanted. */
static int await_event(struct rdma_event_channel *channel, int wanted)
{
	struct rdma_cm_event *event;
	int type;

	if (rdma_get_cm_event(channel, &event))
		return -1;
	type = event->event;
	rdma_ack_cm_event(event);
	errno = EHOSTUNREACH;
	return type != wanted;
}

static int resolve(struct rdma_event_channel *channel, struct rdma_cm_id *id, char **words)
{
	struct addrinfo *found;
	int failed;

	if (getaddrinfo(words[0], words[1], NULL, &found))
		return -1;
	failed = rdma_resolve_addr(id, NULL, found->ai_addr, RESOLVING) ||
		 await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED) ||
		 rdma_resolve_route(id, RESOLVING) ||
		 await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	freeaddrinfo(found);
	return failed;
}

static int init_by_hand(struct peer *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = peer->id->port_num,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	return ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS);
}

/*
 * Sends the request for a connection. The flags are letters: `m` never looks at the answer, so the
 * responder gets no RTU; `e` uses the connection without an RTU until `establish`; `r` posts a
 * Receive once only; `t` has both devices wait for four seconds before they repeat a packet.
 */
static int request(struct peer *peer, char **words)
{
	unsigned char private[255];
	int depth, resources, rnr_retry;
	struct rdma_conn_param param = {
		.private_data = private,
		.private_data_len = from_hex(words[2], private, sizeof(private)),
		.retry_count = 6,
	};

	if (sscanf(words[4], "%d,%d,%d", &depth, &resources, &rnr_retry) != 3)
		return -1;
	peer->by_hand = !!strchr(words[5], 'e');
	peer->no_repost = !!strchr(words[5], 'r');
	open_peer(peer);
	if (peer->by_hand && init_by_hand(peer))
		return -1;
	if (post_receives(peer, atoi(words[3])))
		return -1;
	param.initiator_depth = depth;
	param.responder_resources = resources;
	param.rnr_retry_count = rnr_retry;
	param.qp_num = peer->qp->qp_num;
	if (!strchr(words[5], 'm') && rdma_migrate_id(peer->id, events))
		return -1;
	return rdma_connect(peer->id, &param);
}

void do_connect(struct peer *peer, char **words)
{
	/* An event channel whose events are looked at up to the request, and later not at all. */
	struct rdma_event_channel *channel = rdma_create_event_channel();

	uint8_t timeout = LONG_TIMEOUT;

	if (!channel || rdma_create_id(channel, &peer->id, NULL, RDMA_PS_TCP))
		fatal("rdma_create_id");
	if (strchr(words[5], 't') &&
	    rdma_set_option(peer->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			    sizeof(timeout)))
		fatal("rdma_set_option");
	say_done(peer, resolve(channel, peer->id, words) || request(peer, words));
}

/* Makes the queue pair of a connection `by_hand` ready; the responder does not learn of it. */
void on_response(struct peer *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;

	if (rdma_init_qp_attr(peer->id, &attr, &mask) || ibv_modify_qp(peer->qp, &attr, mask))
		fatal("ready to receive");
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	if (rdma_init_qp_attr(peer->id, &attr, &mask) || ibv_modify_qp(peer->qp, &attr, mask))
		fatal("ready to send");
	say("response %d\n", peer->number);
}

void do_establish(struct peer *peer, char **words)
{
	(void)words;
	say_done(peer, rdma_establish(peer->id));
}

void do_receive(struct peer *peer, char **words)
{
	say_done(peer, post_receives(peer, atoi(words[0])));
}

/*
 * Byte @offset of exposed memory. The guest's programs know the rule; no two pages in a row are
 * equal.
 */
static unsigned char pattern(size_t offset)
{
	return offset ^ offset >> 8 ^ offset >> 16;
}

void do_expose(struct peer *peer, char **words)
{
	size_t length = strtoul(words[0], NULL, 10), i;
	struct region *region = &peer->regions[peer->region_count];
	int access = IBV_ACCESS_LOCAL_WRITE;

	access |= strchr(words[1], 'r') ? IBV_ACCESS_REMOTE_READ : 0;
	access |= strchr(words[1], 'w') ? IBV_ACCESS_REMOTE_WRITE : 0;
	if (peer->region_count == REGIONS)
		fatal("too many regions");
	region->memory = aligned_alloc(4096, (length + 4095) & ~4095UL);
	for (i = 0; i < length; i++)
		region->memory[i] = pattern(i);
	region->mr = ibv_reg_mr(peer->pd, region->memory, length, access);
	if (!region->mr)
		fatal("ibv_reg_mr");
	say("exposed %d %x %lx\n", peer->number, region->mr->rkey, (uintptr_t)region->memory);
	peer->region_count++;
	say("done %d success\n", peer->number);
}

/* Returns the exposed memory at an offset, of which there must be @length bytes. */
static unsigned char *exposed(struct peer *peer, int index, size_t offset, size_t length)
{
	if (index < 0 || index >= peer->region_count ||
	    offset + length > peer->regions[index].mr->length)
		fatal("no such memory");
	return peer->regions[index].memory + offset;
}

void do_peek(struct peer *peer, char **words)
{
	size_t offset = strtoul(words[1], NULL, 10), length = strtoul(words[2], NULL, 10);

	say_hex("data", peer->number, exposed(peer, atoi(words[0]), offset, length), length);
	say("done %d success\n", peer->number);
}

void do_poke(struct peer *peer, char **words)
{
	size_t offset = strtoul(words[1], NULL, 10), length = strlen(words[2]) / 2;

	from_hex(words[2], exposed(peer, atoi(words[0]), offset, length), length);
	say("done %d success\n", peer->number);
}

static void put_word(unsigned char *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get_word(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

/* Posts @count Sends of the messages in the send buffer, which are @length bytes each. */
static const char *post_messages(struct peer *peer, size_t length, int count)
{
	struct ibv_send_wr chain[BATCH], *bad;
	struct ibv_sge sges[BATCH];
	int i;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)send_buffer(peer) + i * length,
			.length = length,
			.lkey = peer->mr->lkey,
		};
		chain[i] = (struct ibv_send_wr){
			.opcode = IBV_WR_SEND,
			.sg_list = &sges[i],
			.num_sge = 1,
			.next = i + 1 < count ? &chain[i + 1] : NULL,
			.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
		};
	}
	return ibv_post_send(peer->qp, chain, &bad) ? "not posted" : await_send(peer);
}

/*
 * Sends COUNT calls with XIDs that follow one another, as many at once as fit into the send buffer.
 * OFFSET is the place of the XID in the RPC message; the header has it in its first word.
 */
void do_burst(struct peer *peer, char **words)
{
	const char *status = "success";
	size_t inner = strtoul(words[1], NULL, 10);
	size_t length = from_hex(words[2], send_buffer(peer), SEND_SIZE / BATCH);
	uint32_t xid = get_word(send_buffer(peer));
	int i, count, left = atoi(words[0]);

	for (; left > 0 && !strcmp(status, "success"); left -= count) {
		count = left < BATCH ? left : BATCH;
		for (i = 0; i < count; i++) {
			unsigned char *message = send_buffer(peer) + i * length;

			memmove(message, send_buffer(peer), length);
			put_word(message, xid);
			put_word(message + inner, xid++);
		}
		status = post_messages(peer, length, count);
	}
	say("done %d %s\n", peer->number, status);
}

void do_sendimm(struct peer *peer, char **words)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 0x42 };
	size_t length = from_hex(words[0], send_buffer(peer), SEND_SIZE);

	say("done %d %s\n", peer->number, post(peer, &wr, length, 1));
}
