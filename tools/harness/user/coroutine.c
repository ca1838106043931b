// SPDX-License-Identifier: GPL-2.0
/* Coroutines. Each one stands for a kernel thread and has its own stack. */
#include <stdlib.h>
#include <ucontext.h>
#include "../user.h"

#define STACK	(256 << 10)

struct coroutine {
	ucontext_t context;
	void (*function)(void *);
	void *argument;
	char stack[STACK] __attribute__((aligned(64)));
};

static ucontext_t driver;
static struct coroutine *running;

static void begin(void)
{
	struct coroutine *self = running;

	self->function(self->argument);
	abort();	/* The function never returns: it ends in u_leave(). */
}

/* Creates a coroutine. It is never freed: kernel/thread.c uses it again for another thread. */
void *u_coroutine(void (*function)(void *), void *argument)
{
	struct coroutine *self = malloc(sizeof(*self));

	if (!self)
		u_fail("no memory for a coroutine");
	getcontext(&self->context);
	self->context.uc_stack.ss_sp = self->stack;
	self->context.uc_stack.ss_size = sizeof(self->stack);
	self->function = function;
	self->argument = argument;
	makecontext(&self->context, begin, 0);
	return self;
}

/* Runs a coroutine until it calls u_leave(). Only the driver may call this function. */
void u_enter(void *coroutine)
{
	running = coroutine;
	swapcontext(&driver, &running->context);
}

/* Switches back to the driver. */
void u_leave(void)
{
	swapcontext(&running->context, &driver);
}
