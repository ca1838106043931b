// SPDX-License-Identifier: GPL-2.0
/*
 * An RDMA peer that can break every rule of the protocol. It accepts connections on a port, and
 * runs the commands on its standard input, one on each line. It prints each event as a line on
 * standard output. All data is in hex; "-" stands for no data. N is the number of a connection,
 * counted from 1.
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
 *
 * Events
 *	listening			the port accepts connection requests
 *	request N PRIVATE		a connection request, with its private data
 *	established N			the connection is established
 *	received N DATA			a message arrived
 *	done N STATUS			the result of the last command: success, or the error
 *	data N DATA			the result of an RDMA Read
 *	disconnected N			the connection has ended
 *	event N NAME			any other event of the connection manager
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define PEERS		256
#define RECEIVES	128
#define RECEIVE_SIZE	8192
#define SEND_SIZE	(256 * 1024)
#define BATCH		32
#define LINE_SIZE	(2 * SEND_SIZE + 256)
#define PATIENCE	10	/* seconds for one work request */

struct peer {
	int number;
	struct rdma_cm_id *id;
	struct rdma_conn_param offered;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_mr *mr;
	unsigned char *memory;	/* RECEIVES buffers, then the send buffer */
};

static struct peer peers[PEERS];
static int peer_count;

static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}

static void say_hex(const char *what, int number, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	size_t i;

	printf("%s %d ", what, number);
	for (i = 0; i < length; i++)
		printf("%02x", bytes[i]);
	printf("%s\n", length ? "" : "-");
	fflush(stdout);
}

static void fatal(const char *what)
{
	say("fatal %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned char *send_buffer(struct peer *peer)
{
	return peer->memory + RECEIVES * RECEIVE_SIZE;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes hex digits up to another character. Returns the number of bytes, at most @room. */
static size_t from_hex(const char *text, unsigned char *bytes, size_t room)
{
	size_t count = 0;

	while (count < room && digit(text[0]) >= 0 && digit(text[1]) >= 0) {
		bytes[count++] = digit(text[0]) << 4 | digit(text[1]);
		text += 2;
	}
	return count;
}

static int post_receive(struct peer *peer, uint64_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory + index * RECEIVE_SIZE,
		.length = RECEIVE_SIZE,
		.lkey = peer->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(peer->id->qp, &wr, &bad);
}

static void open_peer(struct peer *peer)
{
	size_t size = RECEIVES * RECEIVE_SIZE + SEND_SIZE;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 2 * BATCH, .max_send_sge = 1,
			.max_recv_wr = RECEIVES, .max_recv_sge = 1,
		},
	};

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
	attr.recv_cq = peer->recv_cq;
	attr.send_cq = peer->send_cq;
	if (rdma_create_qp(peer->id, peer->pd, &attr))
		fatal("rdma_create_qp");
	if (ibv_req_notify_cq(peer->recv_cq, 0))
		fatal("ibv_req_notify_cq");
}

static void close_peer(struct peer *peer)
{
	if (!peer->id)
		return;
	if (peer->id->qp)
		rdma_destroy_qp(peer->id);
	if (peer->mr) {
		ibv_dereg_mr(peer->mr);
		ibv_destroy_cq(peer->send_cq);
		ibv_destroy_cq(peer->recv_cq);
		ibv_destroy_comp_channel(peer->channel);
		ibv_dealloc_pd(peer->pd);
		free(peer->memory);
	}
	rdma_destroy_id(peer->id);
	peer->id = NULL;
	peer->mr = NULL;
	peer->channel = NULL;
}

/* Waits for one completion of the send queue. Returns its status. */
static const char *await_send(struct peer *peer)
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
static const char *post(struct peer *peer, struct ibv_send_wr *wr, size_t length, int count)
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
	if (ibv_post_send(peer->id->qp, chain, &bad))
		return "not posted";
	return await_send(peer);
}

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
	int i, err, count = atoi(words[1]);

	open_peer(peer);
	for (i = 0; i < count && i < RECEIVES; i++)
		if (post_receive(peer, i))
			fatal("ibv_post_recv");
	err = rdma_accept(peer->id, &param);
	say("done %d %s\n", peer->number, err ? strerror(errno) : "success");
}

static void do_reject(struct peer *peer, char **words)
{
	unsigned char private[255];
	size_t length = from_hex(words[0], private, sizeof(private));
	int err = rdma_reject(peer->id, private, length);

	say("done %d %s\n", peer->number, err ? strerror(errno) : "success");
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
	int failed = ibv_modify_qp(peer->id->qp, &attr, IBV_QP_ACCESS_FLAGS);

	(void)words;
	say("done %d %s\n", peer->number, failed ? strerror(failed) : "success");
}

static void do_disconnect(struct peer *peer, char **words)
{
	(void)words;
	say("done %d %s\n", peer->number, rdma_disconnect(peer->id) ? strerror(errno) : "success");
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
	int connected;	/* needs a queue pair */
	void (*run)(struct peer *peer, char **words);
} commands[] = {
	{ "accept", 2, 0, do_accept },
	{ "reject", 1, 0, do_reject },
	{ "send", 1, 1, do_send },
	{ "sendinv", 2, 1, do_sendinv },
	{ "write", 3, 1, do_write },
	{ "writeimm", 3, 1, do_writeimm },
	{ "read", 3, 1, do_read },
	{ "flood", 2, 1, do_flood },
	{ "forbid", 0, 1, do_forbid },
	{ "disconnect", 0, 1, do_disconnect },
	{ "drop", 0, 0, do_drop },
};

static void on_command(char *line)
{
	char *words[8] = { NULL }, *rest = NULL;
	struct peer *peer;
	size_t i;
	int count = 0, number;

	for (words[0] = strtok_r(line, " ", &rest); words[count] && count < 7;)
		words[++count] = strtok_r(NULL, " ", &rest);
	number = count > 1 ? atoi(words[1]) : 0;
	if (number < 1 || number > peer_count) {
		say("fatal no connection %d\n", number);
		exit(1);
	}
	peer = &peers[number - 1];
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(words[0], commands[i].name))
			continue;
		if (count != commands[i].words + 2)
			break;
		if (!peer->id || (commands[i].connected && !peer->id->qp))
			say("done %d gone\n", number);
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

static void on_cm_event(struct rdma_event_channel *events)
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
	if (type == RDMA_CM_EVENT_ESTABLISHED)
		say("established %d\n", peer->number);
	else if (type == RDMA_CM_EVENT_DISCONNECTED)
		say("disconnected %d\n", peer->number);
	else
		say("event %d %s\n", peer->number, rdma_event_str(type));
	if (type == RDMA_CM_EVENT_DISCONNECTED)
		close_peer(peer);
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
		say_hex("received", peer->number,
			peer->memory + wc.wr_id * RECEIVE_SIZE, wc.byte_len);
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

static void run(struct rdma_event_channel *events)
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
			on_cm_event(events);
		else if (fds[i + 1].revents)
			on_input();
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(argc > 1 ? atoi(argv[1]) : 20049),
	};
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		fatal("rdma_create_id");
	if (rdma_bind_addr(listener, (struct sockaddr *)&address))
		fatal("rdma_bind_addr");
	if (rdma_listen(listener, 16))
		fatal("rdma_listen");
	say("listening\n");
	run(events);
	return 0;
}
