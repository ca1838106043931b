// SPDX-License-Identifier: GPL-2.0
/* Output, exit, fork, shared memory and time. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../user.h"

void u_say_list(const char *format, va_list list)
{
	vprintf(format, list);
	putchar('\n');
}

void u_say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	u_say_list(format, list);
	va_end(list);
}

int u_print(char *buffer, unsigned long size, const char *format, va_list list)
{
	return vsnprintf(buffer, size, format, list);
}

static int aborts;

void u_abort_on_failure(void)
{
	aborts = 1;
}

void u_fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	u_say_list(format, list);
	va_end(list);
	fflush(stdout);
	if (aborts)
		abort();
	u_exit(1);
}

/* Exits without the handlers of exit(), because the program may be in any state. */
void u_exit(int status)
{
	fflush(stdout);
	_exit(status);
}

void u_watch(void)
{
	const struct itimerval limit = { .it_value.tv_sec = 20 };

	setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

int u_fork(void)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		u_fail("fork failed");
	if (child == 0) {
		/* A process that is killed takes its children with it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		u_watch();
		return -1;
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void *u_shared(unsigned long size)
{
	int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p == MAP_FAILED)
		u_fail("no shared memory");
	return p;
}

long u_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}
