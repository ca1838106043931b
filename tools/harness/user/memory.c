// SPDX-License-Identifier: GPL-2.0
/*
 * The allocator for the module's memory. Block sizes are powers of two; each size has a free list.
 * The same sequence of calls returns the same addresses on each run. A block without an owner
 * belongs to the harness and never counts as a leak.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "../user.h"

#define SMALLEST	5	/* 32 bytes */
#define LARGEST		26
#define POISON		0x6b
/*
 * Blocks of at most this order lie together. They hold the states of RPCs; payloads and buffers are
 * larger.
 */
#define SMALL		11
#define LARGE_START	(U_MEMORY + (64ul << 20))
#define SMALL_START	(U_MEMORY + (1ul << 20))

/* The state of a block. The array has one entry for each 32 bytes of memory. */
struct block {
	const void *owner;
	unsigned char order;	/* 0: no block begins here, or the block is free */
	unsigned char marked;
	unsigned char data;	/* a payload or a buffer */
};

static struct block *blocks;
static void *idle[LARGEST + 1];
static unsigned long small_top = SMALL_START;
static unsigned long large_top = LARGE_START;
static unsigned long live;

/* The blocks that were taken or given back since the snapshot, as they were before. */
#define MOST_CHANGES	(1ul << 20)

struct change {
	struct block *block, before;
};

static struct change *changes;
static unsigned long change_count;

static struct block *block_of(const void *p)
{
	unsigned long offset = (unsigned long)p - U_MEMORY;

	if (!blocks) {
		unsigned long size = (U_MEMORY_SIZE >> SMALLEST) * sizeof(*blocks);

		blocks = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (blocks == MAP_FAILED)
			u_fail("no memory for the table of blocks");
		/* The processor finds the entries of a fuzzer, which has no child, sooner. */
		if (u_fuzz)
			madvise(blocks, size, MADV_HUGEPAGE);
	}
	if (offset >= U_MEMORY_SIZE || offset % (1 << SMALLEST))
		u_fail("violation: %p was never allocated", p);
	return &blocks[offset >> SMALLEST];
}

static int order_of(unsigned long size)
{
	int order = size > 1ul << SMALLEST ? 64 - __builtin_clzl(size - 1) : SMALLEST;

	if (order > LARGEST)
		u_fail("an allocation of %lu bytes", size);
	return order;
}

/* Returns a block that has never been used. */
static void *fresh(int order)
{
	unsigned long size = 1ul << order;
	unsigned long *top = order > SMALL ? &large_top : &small_top;
	unsigned long start = (*top + size - 1) & ~(size - 1);

	*top = start + size;
	if (large_top > U_MEMORY + U_MEMORY_SIZE || small_top > LARGE_START)
		u_fail("out of memory");
	return (void *)start;
}

/* Notes the state of a block before it changes, if there is a snapshot. */
static void note(struct block *block)
{
	if (!changes)
		return;
	if (change_count == MOST_CHANGES)
		u_fail("more than %lu blocks change", MOST_CHANGES);
	changes[change_count++] = (struct change) { block, *block };
}

void *u_alloc(unsigned long size, const void *owner)
{
	int order = order_of(size);
	void *p = idle[order];
	struct block *block;

	if (p)
		memcpy(&idle[order], p, sizeof(void *));
	else
		p = fresh(order);
	block = block_of(p);
	note(block);
	block->order = order;
	block->owner = owner;
	block->marked = 0;
	block->data = 0;
	live += owner != NULL;
	return p;
}

void u_free(void *p)
{
	struct block *block = block_of(p);

	if (!block->order)
		u_fail("violation: %p is freed twice, or was never allocated", p);
	note(block);
	/* Blocks of the harness are long, and are often freed. */
	memset(p, POISON, 1ul << (block->owner || block->order <= SMALL ? block->order : SMALL));
	memcpy(p, &idle[block->order], sizeof(void *));
	idle[block->order] = p;
	block->order = 0;
	live -= block->owner != NULL;
}

unsigned long u_size(const void *p)
{
	const struct block *block = block_of(p);

	return block->order ? 1ul << block->order : 0;
}

unsigned long u_live(void)
{
	return live;
}

/* Returns the next block that is allocated, from `p` on, or NULL. */
static const void *allocated(unsigned long p)
{
	for (; p < large_top; p += 1 << SMALLEST) {
		/* Nothing lies between the small blocks and the large ones. */
		if (p >= small_top && p < LARGE_START)
			p = LARGE_START;
		if (p < large_top && blocks[(p - U_MEMORY) >> SMALLEST].order)
			return (const void *)p;
	}
	return NULL;
}

static const void *next(const void *p)
{
	return allocated((unsigned long)p + (1 << SMALLEST));
}

/* Marks all blocks that are allocated now: u_print_leaks() leaves them out. */
void u_mark(void)
{
	const void *p;

	for (p = allocated(U_MEMORY); p; p = next(p))
		block_of(p)->marked = 1;
}

void u_print_leaks(void)
{
	unsigned long printed = 0;
	const void *p;

	for (p = allocated(U_MEMORY); p && printed < 10; p = next(p)) {
		const struct block *block = block_of(p);

		if (!block->owner || block->marked)
			continue;
		printf("  %u bytes, allocated at <%p>\n", 1u << block->order, block->owner);
		printed++;
	}
}

static unsigned long mix(unsigned long hash, const unsigned long *words, unsigned long count)
{
	while (count--)
		hash = (hash ^ *words++) * 0x9e3779b97f4a7c15ul + (hash >> 47);
	return hash;
}

/* Returns a hash of the contents of all small blocks but `except`. */
unsigned long u_contents(const void *except)
{
	unsigned long i, hash = 0;

	for (i = 0; i < (small_top - U_MEMORY) >> SMALLEST; i++) {
		const void *p = (void *)(U_MEMORY + (i << SMALLEST));

		if (blocks[i].order && blocks[i].owner && p != except)
			hash = mix(hash ^ i, p, 1ul << (blocks[i].order - 3));
	}
	return hash;
}

/* Leaves a block out of u_contents_of_large(), if it begins at `p`. */
void u_data(const void *p)
{
	if ((unsigned long)p % (1 << SMALLEST) == 0)
		block_of(p)->data = 1;
}

/* Returns a hash of the contents of all large blocks but `except` and those that have data. */
unsigned long u_contents_of_large(const void *except)
{
	unsigned long hash = 0;
	const void *p;

	for (p = allocated(LARGE_START); p; p = next(p)) {
		const struct block *block = block_of(p);

		if (block->owner && !block->data && p != except)
			hash = mix(hash ^ (unsigned long)p, p, 1ul << (block->order - 3));
	}
	return hash;
}

static void keep_blocks(unsigned long start, unsigned long end)
{
	unsigned long page = (start - U_MEMORY) >> 12, pages = (end - start + 4095) >> 12;

	u_keep((void *)start, end - start);
	u_keep((void *)(U_PAGES + page * 64), pages * 64);
	k_keep_pages(page, pages);
}

void u_keep_memory(void)
{
	changes = malloc(MOST_CHANGES * sizeof(*changes));
	if (!changes)
		u_fail("no memory for a list of changes");
	keep_blocks(SMALL_START, small_top);
	keep_blocks(LARGE_START, large_top);
}

void u_restore_blocks(void)
{
	for (; change_count; change_count--)
		*changes[change_count - 1].block = changes[change_count - 1].before;
}
