// SPDX-License-Identifier: GPL-2.0
/*
 * Marks for callgrind. At the entry of u_count_begin() it sets its counters to zero
 * (--zero-before). At the entry of u_count_end() it writes them out (--dump-before). The functions
 * themselves do nothing.
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
