// SPDX-License-Identifier: GPL-2.0
/*
 * Marks for callgrind: it writes its counters out, and begins again, where these functions are
 * entered (--dump-before, --zero-before). They do nothing themselves.
 */
#include "../user.h"

void __attribute__((noinline)) u_count_begin(void)
{
	__asm__ volatile("");
}

void __attribute__((noinline)) u_count_end(void)
{
	__asm__ volatile("");
}
