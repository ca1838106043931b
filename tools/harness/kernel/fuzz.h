/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzer's files share. An input is a list of events with their arguments.
 *
 *   fuzz.c		inputs, and what comes before and after them
 *   fuzz_message.c	messages that are changed or made up
 *   fuzz_device.c	events of the device, of connections and of time
 *   fuzz_limits.c	events of small devices, of other processors and of other connections
 *   fuzz_steps.c	events of steps that fail, and of threads that are preempted
 *   fuzz_client.c	events of the client, and of its responder
 *   fuzz_server.c	events of the server, and of its requester
 */
#ifndef HARNESS_FUZZ_H
#define HARNESS_FUZZ_H

#include "wire.h"

/* The bytes of an input that are left. */
extern struct h_cursor h_input;

/* Each reads from the input, and returns zeros when no bytes are left. */
u8 h_input_byte(void);
u32 h_input_below(u32 limit);
u32 h_input_word(void);
/* A number that is often small, often near a power of two, and sometimes anything. */
u32 h_input_number(void);

/* Prints an event, if inputs are replayed. */
void h_event(const char *format, ...) __printf(1, 2);

/* An event, which does nothing if it cannot happen now. One that comes twice is more frequent. */
struct h_happening {
	const char *name;
	void (*happen)(void);
};

struct h_target {
	const char *name;
	void (*begin)(void);
	const struct h_happening *events;
	unsigned int count;
	void (*end)(void);	/* all that was begun ends; the peer keeps the rules */
};

extern const struct h_target h_client_targets[];
extern const struct h_target h_server_targets[];

/* --- fuzz_message.c --- */
/* Reads how the next message that arrives is changed. */
void h_message_alter(void);
/* The next message that arrives is of version two, if the peer supports it. */
void h_message_two(void);
/* Sends words, with the XID first; or bytes. */
void h_message_words(u32 xid);
void h_message_bytes(void);
/* The next of these messages invalidates a region. */
void h_message_invalidates(void);
/* The peer supports version two, and as a requester uses it. */
extern bool h_fuzz_two;

/* --- fuzz_device.c: events of the device, of connections and of time --- */
void h_fuzz_receive(void);
void h_fuzz_send(void);
void h_fuzz_all(void);
void h_fuzz_disconnect(void);
void h_fuzz_move(void);
void h_fuzz_pass(void);
void h_fuzz_remove(void);
void h_fuzz_fault(void);
void h_fuzz_queue(void);
void h_fuzz_answer(void);
void h_fuzz_immediate(void);
void h_fuzz_memory(void);
void h_fuzz_ask(void);
void h_fuzz_look(void);
/* Ends all faults. */
void h_fuzz_mend(void);

/* --- peer.c --- */
/* The XID of the last call of the Connection Configuration Protocol; 0: there was none. */
extern u32 h_configures;

/* --- fuzz_limits.c --- */
void h_fuzz_limits(void);
void h_fuzz_bounce(void);
void h_fuzz_port(void);
void h_fuzz_race(void);
void h_fuzz_drain(void);
void h_fuzz_sleep(void);
void h_fuzz_refuse(void);
void h_fuzz_other(void);
void h_fuzz_mend_limits(void);
/* All of these events, for the list of a target. */
#define H_FUZZ_LIMITS				\
	{ "limits", h_fuzz_limits },		\
	{ "bounce", h_fuzz_bounce },		\
	{ "port", h_fuzz_port },		\
	{ "race", h_fuzz_race },		\
	{ "drain", h_fuzz_drain },		\
	{ "sleep", h_fuzz_sleep },		\
	{ "refuse", h_fuzz_refuse },		\
	{ "other", h_fuzz_other }

/* --- fuzz_steps.c --- */
void h_fuzz_step(void);
void h_fuzz_preempt(void);
void h_fuzz_mend_steps(void);
/* What the harness itself does next is not preempted, and no allocation of it sleeps. */
void h_fuzz_undisturbed(void);
#define H_FUZZ_STEPS				\
	{ "step", h_fuzz_step },		\
	{ "preempt", h_fuzz_preempt },		\
	{ "invalidate", h_message_invalidates }

#endif /* HARNESS_FUZZ_H */
