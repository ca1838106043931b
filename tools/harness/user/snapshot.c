// SPDX-License-Identifier: GPL-2.0
/*
 * The state that each input of the fuzzer begins from: variables of the module, of the kernel's
 * objects and of the stand-ins, the module's memory, and the stacks of threads. All of it is copied
 * back, which takes less time than page faults or a child process.
 */
#include <stdlib.h>
#include <string.h>
#include "../user.h"

/* Sections of the program that harness/snapshot.lds makes; the engine's own are not among them. */
extern char __start_snap_data[] __attribute__((weak)), __stop_snap_data[] __attribute__((weak));
extern char __start_snap_bss[] __attribute__((weak)), __stop_snap_bss[] __attribute__((weak));

struct range {
	void *at;
	void *copy;
	unsigned long size;
};

/* In memory of the C library, which is not copied. */
static struct ranges {
	struct range list[256];
	unsigned long count;
	unsigned long size;
} *ranges;

void u_keep(void *at, unsigned long size)
{
	struct range *range = &ranges->list[ranges->count++];

	if (ranges->count > sizeof(ranges->list) / sizeof(*range))
		u_fail("a snapshot has too many ranges");
	*range = (struct range) { at, malloc(size ?: 1), size };
	if (!range->copy)
		u_fail("no memory for a snapshot of %lu bytes", size);
	memcpy(range->copy, at, size);
	ranges->size += size;
}

unsigned long u_snapshot(void)
{
	ranges = calloc(1, sizeof(*ranges));
	if (!ranges)
		u_fail("no memory for a snapshot");
	u_keep_stacks();
	u_keep_memory();
	u_keep(__start_snap_data, __stop_snap_data - __start_snap_data);
	u_keep(__start_snap_bss, __stop_snap_bss - __start_snap_bss);
	return ranges->size;
}

void u_restore(void)
{
	unsigned long i;

	u_restore_blocks();
	for (i = 0; i < ranges->count; i++)
		memcpy(ranges->list[i].at, ranges->list[i].copy, ranges->list[i].size);
}
