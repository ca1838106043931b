// SPDX-License-Identifier: GPL-2.0
/*
 * Makes many connections to an NFS server's RDMA port at once. It makes one call on each, or as
 * many as the server grants.
 *
 * Usage: crowd ADDRESS COUNT HANDLE [KINDS SECONDS]
 *
 * HANDLE is the handle of an NFSv3 file of at least 1 MiB. Addresses and routes are resolved before
 * the clock starts. SUNRPC closes the oldest of more than 64 connections that have named no valid
 * file, so each connection makes a call when it is established, and at most 48 have no reply. The
 * program prints one line, "established N refused N seconds S", where S is the time from the first
 * connection request to the answer to the last one. It keeps the connections until a signal ends
 * it.
 *
 * KINDS are some of read16k, read1m, write1m and stop, separated by commas; connections take turns
 * in choosing one. Without KINDS each connection makes one GETATTR. A connection of kind `stop`
 * reads 1 MiB at a time, and after two seconds gives no more Receives to its device. After
 * SECONDS the program prints "pressed S", and for each kind its name, the calls that were answered,
 * those of them that failed, the connections that were lost, and the longest time of a call.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crowd.h"

#define PORT		20049
#define PATIENCE_MS	5000	/* for one address or route */
#define WINDOW		48	/* connections that have no reply at a time */

/* RFC 8797: magic, version, flags, and the sizes of Send and Receive, 4096 bytes each. */
static const uint8_t private_data[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };

struct member members[MOST];
int count;

void fatal(const char *what)
{
	printf("fatal %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Waits for the next event of any connection, and returns its type and its connection. */
static enum rdma_cm_event_type next_event(struct rdma_event_channel *events,
					  struct member **member)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event))
		fatal("rdma_get_cm_event");
	type = event->event;
	*member = event->id->context;
	rdma_ack_cm_event(event);
	return type;
}

static void expect(struct rdma_event_channel *events, enum rdma_cm_event_type wanted)
{
	struct member *member;
	enum rdma_cm_event_type type = next_event(events, &member);

	if (type != wanted) {
		printf("fatal %s instead of %s\n", rdma_event_str(type), rdma_event_str(wanted));
		exit(1);
	}
}

static void resolve(struct rdma_event_channel *events, struct member *member,
		    struct sockaddr_in *server)
{
	struct rdma_cm_id **id = &member->id;

	if (rdma_create_id(events, id, member, RDMA_PS_TCP))
		fatal("rdma_create_id");
	if (rdma_resolve_addr(*id, NULL, (struct sockaddr *)server, PATIENCE_MS))
		fatal("rdma_resolve_addr");
	expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(*id, PATIENCE_MS))
		fatal("rdma_resolve_route");
	expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void connect_all(struct rdma_event_channel *events)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.initiator_depth = 1,
		.responder_resources = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct pollfd ready[] = {
		{ .fd = events->fd, .events = POLLIN }, { .fd = replies(), .events = POLLIN },
	};
	int established = 0, refused = 0, sent = 0, valid = 0;
	double began = now(), ended = began;

	while (valid + refused < count) {
		struct member *member;

		for (; sent < count && sent < valid + refused + WINDOW; sent++)
			if (rdma_connect(members[sent].id, &param))
				fatal("rdma_connect");
		poll(ready, 2, -1);
		if (ready[0].revents && next_event(events, &member) == RDMA_CM_EVENT_ESTABLISHED) {
			established++;
			ended = now();
			ask(member);
		} else if (ready[0].revents) {
			refused++;
		}
		valid = count_valid();
	}
	printf("established %d refused %d seconds %.4f\n", established, refused, ended - began);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct rdma_event_channel *events = rdma_create_event_channel();
	int presses = argc == 6, i;

	count = argc == 4 || presses ? atoi(argv[2]) : 0;
	if (count < 1 || count > MOST || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) {
		fprintf(stderr, "usage: crowd ADDRESS COUNT HANDLE [KINDS SECONDS]\n");
		return 2;
	}
	if (!events)
		fatal("rdma_create_event_channel");
	prepare(presses ? argv[4] : "look", argv[3]);
	for (i = 0; i < count; i++) {
		resolve(events, &members[i], &server);
		equip(&members[i], i);
	}
	connect_all(events);
	if (presses)
		press(events, atof(argv[5]));
	for (;;)
		pause();
}
