// SPDX-License-Identifier: GPL-2.0
/*
 * The handlers of the connection manager's events. Handling takes the lock of an identifier's
 * handler, so nothing is handled while a thread has it.
 */
#include <linux/sched.h>
#include <linux/wait.h>
#include "cm.h"

static DECLARE_WAIT_QUEUE_HEAD(handled);

void h_handler_note(struct identifier *self)
{
	self->handler = self->id.event_handler;
	self->context = self->id.context;
}

bool h_handler_is_free(const struct identifier *self)
{
	return !self->busy && !self->holder;
}

void h_handler_await(struct identifier *self)
{
	h_expect(self->holder != current, "violation: a thread waits for a lock that it has");
	wait_event(handled, h_handler_is_free(self));
}

/* Handler and context change while a thread has the lock, so that no event meets half of it. */
static void take(struct identifier *self)
{
	if (self->handler != self->id.event_handler || self->context != self->id.context)
		h_violation("a handler or its context was changed without the lock");
	self->holder = current;
}

static void handle(void *argument)
{
	struct event *event = argument;
	struct identifier *self = event->identifier;
	struct rdma_cm_id *id = &self->id;
	int error;

	take(self);
	/* The connection manager's worker. */
	current->flags |= PF_WQ_WORKER;
	error = id->event_handler(id, &event->event);
	current->flags &= ~PF_WQ_WORKER;
	h_handler_note(self);
	self->holder = NULL;
	self->busy = false;
	if (error)
		h_cm_destroy(self);
	wake_up_all(&handled);
	u_free(event);
}

void h_handler_start(struct event *event)
{
	list_del(&event->list);
	event->identifier->busy = true;
	h_spawn("a handler of connection events", handle, event);
}

void rdma_lock_handler(struct rdma_cm_id *id)
{
	struct identifier *self = h_identifier_of(id);

	h_may_sleep("a handler is locked", __builtin_return_address(0));
	h_handler_await(self);
	take(self);
}

void rdma_unlock_handler(struct rdma_cm_id *id)
{
	struct identifier *self = h_identifier_of(id);

	h_expect(self->holder == current && !self->busy,
		 "violation: a handler is unlocked by a thread that has not locked it");
	h_handler_note(self);
	self->holder = NULL;
	wake_up_all(&handled);
}
