// SPDX-License-Identifier: GPL-2.0
/* Coroutines. Each one stands for a kernel thread and has its own stack. */
#include <stdlib.h>
#include <sys/mman.h>
#include "../user.h"

#define STACK	(256 << 10)

struct coroutine {
	void *top;	/* of the stack, while another one is in use; first of all: change_to() */
	void (*function)(void *);
	void *argument;
	char stack[STACK] __attribute__((aligned(64)));
};

#define MOST	4096

static void *driver;
static struct coroutine *running;
/* All coroutines lie one behind the other. */
static struct coroutine *first;
static unsigned long count;

/*
 * Continues on another stack, where it left this function. The registers that a function may not
 * change stay on the stack. The C library's swapcontext() makes two system calls.
 */
void change_to(void *top, void **left);
__asm__(".text\n"
	"change_to:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	mov %rsp, (%rsi)\n"
	"	mov %rdi, %rsp\n"
	"	pop %r15\n	pop %r14\n"
	"	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n");
/* The words that change_to() takes from a stack: six registers, and the address to return to. */
#define WORDS	7

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
	void **words;

	if (!first)
		first = mmap((void *)U_STACKS, MOST * sizeof(*self), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			     -1, 0);
	if (first == MAP_FAILED || count == MOST)
		u_fail("no memory for a coroutine");
	self = &first[count++];
	self->function = function;
	self->argument = argument;
	/* When a function begins, the address behind that of its caller is a multiple of 16. */
	words = (void **)(self + 1) - WORDS - 1;
	words[WORDS] = NULL;
	words[WORDS - 1] = begin;
	self->top = words;
	return self;
}

/* Runs a coroutine until it calls u_leave(). Only the driver may call this function. */
void u_enter(void *coroutine)
{
	running = coroutine;
	change_to(running->top, &driver);
}

/* Switches back to the driver. */
void u_leave(void)
{
	change_to(driver, &running->top);
}

/* Adds to the snapshot of each coroutine its context, and what its stack has. */
void u_keep_stacks(void)
{
	unsigned long i;

	for (i = 0; i < count; i++) {
		struct coroutine *self = &first[i];

		u_keep(self, (unsigned long)(self->stack - (char *)self));
		u_keep(self->top, (unsigned long)((char *)(self + 1) - (char *)self->top));
	}
}
