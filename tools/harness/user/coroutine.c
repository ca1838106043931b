// SPDX-License-Identifier: GPL-2.0
/* Coroutines. Each one stands for a kernel thread and has its own stack. */
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "../user.h"

#define STACK	(256 << 10)

struct coroutine {
	ucontext_t context;
	void (*function)(void *);
	void *argument;
	char stack[STACK] __attribute__((aligned(64)));
};

#define MOST	4096

static ucontext_t driver;
static struct coroutine *running;
/* All coroutines lie one behind the other. */
static struct coroutine *first;
static unsigned long count;

static void begin(void)
{
	struct coroutine *self = running;

	self->function(self->argument);
	abort();	/* The function never returns: it ends in u_leave(). */
}

/* Creates a coroutine. It is never freed: kernel/thread.c uses it again for another thread. */
void *u_coroutine(void (*function)(void *), void *argument)
{
	struct coroutine *self;

	if (!first)
		first = mmap((void *)U_STACKS, MOST * sizeof(*self), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			     -1, 0);
	if (first == MAP_FAILED || count == MOST)
		u_fail("no memory for a coroutine");
	self = &first[count++];
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

/* Adds to the snapshot of each coroutine its context, and what its stack has. */
void u_keep_stacks(void)
{
	unsigned long i;

	for (i = 0; i < count; i++) {
		struct coroutine *self = &first[i];
		char *top = (char *)self->context.uc_mcontext.gregs[REG_RSP];

		u_keep(self, (unsigned long)(self->stack - (char *)self));
		u_keep(top, (unsigned long)((char *)(self + 1) - top));
	}
}
