// SPDX-License-Identifier: GPL-2.0
/*
 * The state that each input of the fuzzer begins from: variables of the module, of the kernel's
 * objects and of the stand-ins, the module's memory, and the stacks of threads. Copying it back
 * takes less time than a child process. A page that no input has written lately cannot be written,
 * and is not copied; the signal of the first write to it makes it one that is.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "../user.h"

#define PAGE	4096ul
/* Inputs after which all pages count as not written. */
#define LATELY	4096

/* Sections of the program that harness/snapshot.lds makes; the engine's own are not among them. */
extern char __start_snap_data[] __attribute__((weak)), __stop_snap_data[] __attribute__((weak));
extern char __start_snap_bss[] __attribute__((weak)), __stop_snap_bss[] __attribute__((weak));

struct range {
	char *at;
	char *copy;
	unsigned long size;
	char *pages;	/* those that are whole, unless the range is a stack */
	unsigned long count;
	unsigned char *written;	/* for each of them, whether it was written lately */
};

/* In memory of the C library, which is not copied. */
static struct ranges {
	struct range list[256];
	unsigned long count;
	unsigned long size;
	unsigned long restored;	/* how often */
} *ranges;

void u_keep(void *at, unsigned long size)
{
	struct range *range = &ranges->list[ranges->count++];

	if (ranges->count > sizeof(ranges->list) / sizeof(*range))
		u_fail("a snapshot has too many ranges");
	*range = (struct range) { .at = at, .copy = malloc(size ?: 1), .size = size };
	range->pages = (char *)(((unsigned long)at + PAGE - 1) & -PAGE);
	/* The system writes to stacks, and would not survive a signal there. */
	if (range->pages < range->at + size && (unsigned long)at < U_STACKS)
		range->count = (range->at + size - range->pages) / PAGE;
	range->written = calloc(1, range->count + 1);
	if (!range->copy || !range->written)
		u_fail("no memory for a snapshot of %lu bytes", size);
	memcpy(range->copy, at, size);
	ranges->size += size;
}

/* Has the next write to each page noted. */
static void watch(struct range *range)
{
	if (range->count && mprotect(range->pages, range->count * PAGE, PROT_READ))
		u_fail("memory cannot be protected");
	memset(range->written, 0, range->count);
}

int u_written(unsigned long address)
{
	char *at = (char *)(address & -PAGE);
	unsigned long i, n;

	for (i = 0; ranges && i < ranges->count; i++) {
		struct range *range = &ranges->list[i];

		n = (at - range->pages) / PAGE;
		if (at < range->pages || n >= range->count || range->written[n])
			continue;
		range->written[n] = 1;
		return !mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	}
	return 0;
}

unsigned long u_snapshot(void)
{
	unsigned long i;

	ranges = calloc(1, sizeof(*ranges));
	if (!ranges)
		u_fail("no memory for a snapshot");
	u_keep_stacks();
	u_keep_memory();
	u_keep(__start_snap_data, __stop_snap_data - __start_snap_data);
	u_keep(__start_snap_bss, __stop_snap_bss - __start_snap_bss);
	for (i = 0; i < ranges->count; i++)
		watch(&ranges->list[i]);
	return ranges->size;
}

/* Copies a part of a range back. */
static void copy(struct range *range, char *from, char *to)
{
	memcpy(from, range->copy + (from - range->at), to - from);
}

static void restore(struct range *range)
{
	char *end = range->at + range->size;
	unsigned long i;

	if (!range->count)
		return copy(range, range->at, end);
	copy(range, range->at, range->pages);
	for (i = 0; i < range->count; i++)
		if (range->written[i])
			copy(range, range->pages + i * PAGE, range->pages + (i + 1) * PAGE);
	copy(range, range->pages + range->count * PAGE, end);
}

void u_check_restored(void)
{
	unsigned long i;

	for (i = 0; i < ranges->count; i++)
		if (memcmp(ranges->list[i].at, ranges->list[i].copy, ranges->list[i].size))
			u_fail("the %lu bytes at %p are not as they were before the input",
			       ranges->list[i].size, (void *)ranges->list[i].at);
}

void u_restore(void)
{
	unsigned long i;

	u_restore_blocks();
	for (i = 0; i < ranges->count; i++)
		restore(&ranges->list[i]);
	if (++ranges->restored % LATELY)
		return;
	for (i = 0; i < ranges->count; i++)
		watch(&ranges->list[i]);
}
