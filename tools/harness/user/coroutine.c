// SPDX-License-Identifier: GPL-2.0
/* Coroutines: what stands for a thread of the kernel has a stack of its own. */
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
	abort();	/* The function leaves for good instead. */
}

/* Coroutines are never freed: the kernel side uses each again when its function is done. */
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

/* Runs a coroutine until it leaves. To be called by the driver only. */
void u_enter(void *coroutine)
{
	running = coroutine;
	swapcontext(&driver, &running->context);
}

/* Goes back to the driver. */
void u_leave(void)
{
	swapcontext(&running->context, &driver);
}
