// SPDX-License-Identifier: GPL-2.0
/*
 * An RDMA peer that can break every rule of the protocol. It accepts connections on a port, or with
 * the argument "requester" makes them, and runs the commands on its standard input, one on each
 * line. It prints each event as a line on standard output. All data is in hex; "-" stands for no
 * data. N is the number of a connection, counted from 1.
 *
 * Commands
 *	accept N PRIVATE RECEIVES	create the queue pair, post RECEIVES Receives, accept
 *	reject N PRIVATE		reject the connection request
 *	send N DATA			Send
 *	sendinv N RKEY DATA		Send With Invalidate
 *	write N RKEY ADDRESS DATA	RDMA Write
 *	writeimm N RKEY ADDRESS DATA	RDMA Write with immediate data
 *	read N RKEY ADDRESS LENGTH	RDMA Read
 *	flood N COUNT DATA		COUNT Sends, as fast as possible
 *	forbid N			refuse RDMA Reads and Writes from now on
 *	disconnect N			disconnect by the connection manager's protocol
 *	drop N				destroy the connection's resources without a message
 *	connect N ADDRESS PORT PRIVATE RECEIVES DEPTH,RESOURCES,RNR FLAGS
 *					connect; N is the next number. FLAGS: see request()
 *	establish N			send the RTU that the flag e has left out
 *	receive N COUNT			post COUNT Receives
 *	expose N LENGTH ACCESS		register memory that the peer may read (r) or write (w)
 *	peek N REGION OFFSET LENGTH	show exposed memory; regions are counted from 0
 *	poke N REGION OFFSET DATA	change exposed memory
 *	burst N COUNT OFFSET DATA	COUNT Sends, whose XIDs count up
 *	sendimm N DATA			Send with immediate data
 *
 * Events
 *	listening			the port accepts connection requests
 *	ready				a requester has started
 *	request N PRIVATE		a connection request, with its private data
 *	established N			the connection is established
 *	received N DATA RKEY		a message arrived, and invalidated RKEY, or 0 for none
 *	done N STATUS			the result of the last command: success, or the error
 *	data N DATA			the result of an RDMA Read, or of a peek
 *	exposed N RKEY ADDRESS		the memory that has been registered
 *	response N			the responder has accepted; the flag e was set
 *	disconnected N			the connection has ended
 *	event N NAME			any other event of the connection manager
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define LINE_SIZE	(2 * SEND_SIZE + 256)
#define WORDS		12

struct rdma_event_channel *events;

static struct peer peers[PEERS];
static int peer_count;

static void do_accept(struct peer *peer, char **words)
{
	unsigned char private[255];
	struct rdma_conn_param param = {
		.private_data = private,
		.private_data_len = from_hex(words[0], private, sizeof(private)),
		/* The event has both values from the point of view of this side. */
		.responder_resources = peer->offered.responder_resources,
		.initiator_depth = peer->offered.initiator_depth > 4 ?
				   4 : peer->offered.initiator_depth,
		.rnr_retry_count = 7,
	};

	open_peer(peer);
	if (post_receives(peer, atoi(words[1])))
		fatal("ibv_post_recv");
	say_done(peer, rdma_accept(peer->id, &param));
}

static void do_reject(struct peer *peer, char **words)
{
	unsigned char private[255];
	size_t length = from_hex(words[0], private, sizeof(private));

	say_done(peer, rdma_reject(peer->id, private, length));
	close_peer(peer);
}

static void do_send(struct peer *peer, char **words)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	size_t length = from_hex(words[0], send_buffer(peer), SEND_SIZE);

	say("done %d %s\n", peer->number, post(peer, &wr, length, 1));
}

static void do_sendinv(struct peer *peer, char **words)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV,
		.invalidate_rkey = strtoul(words[0], NULL, 16),
	};
	size_t length = from_hex(words[1], send_buffer(peer), SEND_SIZE);

	say("done %d %s\n", peer->number, post(peer, &wr, length, 1));
}

static void write_as(struct peer *peer, char **words, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.wr.rdma.rkey = strtoul(words[0], NULL, 16),
		.wr.rdma.remote_addr = strtoull(words[1], NULL, 16),
	};
	size_t length = from_hex(words[2], send_buffer(peer), SEND_SIZE);

	say("done %d %s\n", peer->number, post(peer, &wr, length, 1));
}

static void do_write(struct peer *peer, char **words)
{
	write_as(peer, words, IBV_WR_RDMA_WRITE);
}

/* Consumes one of the client's Receives without a message. No requester expects that. */
static void do_writeimm(struct peer *peer, char **words)
{
	write_as(peer, words, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void do_read(struct peer *peer, char **words)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma.rkey = strtoul(words[0], NULL, 16),
		.wr.rdma.remote_addr = strtoull(words[1], NULL, 16),
	};
	size_t length = strtoul(words[2], NULL, 10);
	const char *status;

	if (length > SEND_SIZE)
		length = SEND_SIZE;
	status = post(peer, &wr, length, 1);
	if (!strcmp(status, "success"))
		say_hex("data", peer->number, send_buffer(peer), length);
	say("done %d %s\n", peer->number, status);
}

static void do_flood(struct peer *peer, char **words)
{
	const char *status = "success";
	int left = atoi(words[0]);
	size_t length = from_hex(words[1], send_buffer(peer), SEND_SIZE);

	while (left > 0 && !strcmp(status, "success")) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
		int count = left < BATCH ? left : BATCH;

		status = post(peer, &wr, length, count);
		left -= count;
	}
	say("done %d %s\n", peer->number, status);
}

static void do_forbid(struct peer *peer, char **words)
{
	struct ibv_qp_attr attr = { .qp_access_flags = 0 };

	(void)words;
	say_done(peer, ibv_modify_qp(peer->qp, &attr, IBV_QP_ACCESS_FLAGS));
}

/* Has the device drop all packets of the connection, without a word to the other end. */
static void do_mute(struct peer *peer, char **words)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)words;
	say_done(peer, ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE));
}

static void do_disconnect(struct peer *peer, char **words)
{
	(void)words;
	say_done(peer, rdma_disconnect(peer->id));
}

static void do_drop(struct peer *peer, char **words)
{
	(void)words;
	close_peer(peer);
	say("done %d success\n", peer->number);
}

static const struct {
	const char *name;
	int words;
	enum { NEW, REQUESTED, CONNECTED } needs;
	void (*run)(struct peer *peer, char **words);
} commands[] = {
	{ "accept", 2, REQUESTED, do_accept },
	{ "reject", 1, REQUESTED, do_reject },
	{ "send", 1, CONNECTED, do_send },
	{ "sendinv", 2, CONNECTED, do_sendinv },
	{ "write", 3, CONNECTED, do_write },
	{ "writeimm", 3, CONNECTED, do_writeimm },
	{ "read", 3, CONNECTED, do_read },
	{ "flood", 2, CONNECTED, do_flood },
	{ "forbid", 0, CONNECTED, do_forbid },
	{ "mute", 0, CONNECTED, do_mute },
	{ "disconnect", 0, CONNECTED, do_disconnect },
	{ "drop", 0, REQUESTED, do_drop },
	{ "connect", 6, NEW, do_connect },
	{ "establish", 0, CONNECTED, do_establish },
	{ "receive", 1, CONNECTED, do_receive },
	{ "expose", 2, CONNECTED, do_expose },
	{ "peek", 3, CONNECTED, do_peek },
	{ "poke", 3, CONNECTED, do_poke },
	{ "burst", 3, CONNECTED, do_burst },
	{ "sendimm", 1, CONNECTED, do_sendimm },
};

/* Returns the connection of this number. @fresh: the next number may be a new one. */
static struct peer *peer_of(int number, int fresh)
{
	if (fresh && number == peer_count + 1 && peer_count < PEERS)
		peers[peer_count++].number = number;
	if (number < 1 || number > peer_count) {
		say("fatal no connection %d\n", number);
		exit(1);
	}
	return &peers[number - 1];
}

static void on_command(char *line)
{
	char *words[WORDS] = { NULL }, *rest = NULL;
	struct peer *peer;
	size_t i;
	int count = 0;

	for (words[0] = strtok_r(line, " ", &rest); words[count] && count < WORDS - 1;)
		words[++count] = strtok_r(NULL, " ", &rest);
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (!count || strcmp(words[0], commands[i].name))
			continue;
		if (count != commands[i].words + 2)
			break;
		peer = peer_of(atoi(words[1]), commands[i].needs == NEW);
		if ((commands[i].needs != NEW && !peer->id) ||
		    (commands[i].needs == CONNECTED && !peer->qp))
			say("done %d gone\n", peer->number);
		else
			commands[i].run(peer, words + 2);
		return;
	}
	say("fatal bad command %s\n", words[0]);
	exit(1);
}

/* Reads commands from standard input. The process ends at the end of the input. */
static void on_input(void)
{
	static char buffer[LINE_SIZE];
	static size_t filled;
	ssize_t got = read(0, buffer + filled, sizeof(buffer) - filled);
	char *end;

	if (got <= 0)
		exit(0);
	filled += got;
	while ((end = memchr(buffer, '\n', filled))) {
		size_t used = end + 1 - buffer;

		*end = 0;
		on_command(buffer);
		memmove(buffer, end + 1, filled - used);
		filled -= used;
	}
}

static struct peer *find_peer(struct rdma_cm_id *id)
{
	int i;

	for (i = 0; i < peer_count; i++)
		if (peers[i].id == id)
			return &peers[i];
	return NULL;
}

static void on_request(struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct peer *peer;

	if (peer_count == PEERS)
		fatal("too many connections");
	peer = &peers[peer_count++];
	peer->number = peer_count;
	peer->id = event->id;
	peer->offered = *param;
	say_hex("request", peer->number, param->private_data, param->private_data_len);
}

static void on_cm_event(void)
{
	struct rdma_cm_event *event;
	struct peer *peer;
	int type;

	if (rdma_get_cm_event(events, &event))
		fatal("rdma_get_cm_event");
	type = event->event;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		on_request(event);
		rdma_ack_cm_event(event);
		return;
	}
	peer = find_peer(event->id);
	rdma_ack_cm_event(event);
	if (!peer)
		return;
	if (type == RDMA_CM_EVENT_CONNECT_RESPONSE)
		on_response(peer);
	else if (type == RDMA_CM_EVENT_ESTABLISHED)
		say("established %d\n", peer->number);
	else if (type == RDMA_CM_EVENT_DISCONNECTED)
		say("disconnected %d\n", peer->number);
	else
		say("event %d %s\n", peer->number, rdma_event_str(type));
	if (type == RDMA_CM_EVENT_DISCONNECTED)
		close_peer(peer);
}

/* Prints a message, and the R_key that it has invalidated, or 0. */
static void say_received(const struct peer *peer, const struct ibv_wc *wc)
{
	const unsigned char *bytes = peer->memory + wc->wr_id * RECEIVE_SIZE;
	uint32_t i;

	printf("received %d ", peer->number);
	for (i = 0; i < wc->byte_len; i++)
		printf("%02x", bytes[i]);
	say("%s %x\n", wc->byte_len ? "" : "-",
	    wc->wc_flags & IBV_WC_WITH_INV ? wc->invalidated_rkey : 0);
}

static void on_completions(struct peer *peer)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(peer->channel, &cq, &context))
		fatal("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		fatal("ibv_req_notify_cq");
	while (ibv_poll_cq(peer->recv_cq, 1, &wc) > 0) {
		if (wc.status)
			continue;
		say_received(peer, &wc);
		if (!peer->no_repost)
			post_receive(peer, wc.wr_id);
	}
}

static int take_completions(const struct pollfd *fds)
{
	int i, any = 0;

	for (i = 0; i < peer_count; i++) {
		if (!fds[i].revents)
			continue;
		on_completions(&peers[i]);
		any = 1;
	}
	return any;
}

static void run(void)
{
	struct pollfd fds[PEERS + 2];
	int i;

	for (;;) {
		for (i = 0; i < peer_count; i++) {
			/* poll() ignores negative descriptors. */
			fds[i].fd = peers[i].channel ? peers[i].channel->fd : -1;
			fds[i].events = POLLIN;
		}
		fds[i] = (struct pollfd){ .fd = events->fd, .events = POLLIN };
		fds[i + 1] = (struct pollfd){ .fd = 0, .events = POLLIN };
		if (poll(fds, i + 2, -1) < 0)
			fatal("poll");
		/*
		 * Messages are taken first, because they arrived before the end of their
		 * connection. Each round handles one kind of event.
		 */
		if (take_completions(fds))
			continue;
		if (fds[i].revents)
			on_cm_event();
		else if (fds[i + 1].revents)
			on_input();
	}
}

static void listen_on(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct rdma_cm_id *listener;

	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		fatal("rdma_create_id");
	if (rdma_bind_addr(listener, (struct sockaddr *)&address))
		fatal("rdma_bind_addr");
	if (rdma_listen(listener, 16))
		fatal("rdma_listen");
	say("listening\n");
}

int main(int argc, char **argv)
{
	events = rdma_create_event_channel();
	if (!events)
		fatal("rdma_create_event_channel");
	if (argc > 1 && !strcmp(argv[1], "requester"))
		say("ready\n");
	else
		listen_on(argc > 1 ? atoi(argv[1]) : 20049);
	run();
	return 0;
}
