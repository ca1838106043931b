// SPDX-License-Identifier: GPL-2.0
/* The program's entry, and what becomes of signals. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "../user.h"

/* Written by the linker's driver: names of the symbols that nothing defines, in order. */
extern const char *const u_missing[];
extern const unsigned long u_missing_count;

static const char *missing_name(unsigned long address)
{
	unsigned long n = (address - U_MISSING) / U_MISSING_STEP;

	if (address < U_MISSING || n >= u_missing_count)
		return NULL;
	return u_missing[n];
}

/* Of a call, the address it came from is on the stack; of a load or store, it is the program's. */
static void on_segv(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	unsigned long address = (unsigned long)info->si_addr;
	unsigned long ip = registers[REG_RIP];
	const char *name = missing_name(address);

	if (name && ip == address)
		ip = *(unsigned long *)registers[REG_RSP];
	if (name)
		u_fail("harness: %s is not there; called from <%#lx>", name, ip);
	u_fail("signal %d at <%#lx>, address %#lx, from <%#lx>", number, ip, address,
	       *(unsigned long *)registers[REG_RSP]);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	static char stack[1 << 16];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	unsigned int i;

	sigaltstack(&alternative, NULL);
	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

static void map(unsigned long address, unsigned long size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;

	if (mmap((void *)address, size, PROT_READ | PROT_WRITE, flags, -1, 0) != (void *)address)
		u_fail("no memory at %#lx", address);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	map(U_MEMORY, U_MEMORY_SIZE);
	/* 64 bytes for each page. */
	map(U_PAGES, U_MEMORY_SIZE / 4096 * 64);
	catch_signals();
	return k_main(argc, argv);
}
