/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between the two parts of the harness. Kbuild compiles the part in kernel/ with the
 * kernel's headers. The part in user/ is compiled with the headers of the C library. Both parts
 * include this header, so it uses no type of either.
 */
#ifndef HARNESS_USER_H
#define HARNESS_USER_H

/* The range of addresses that stands for physical memory. The module's allocations lie in it. */
#define U_MEMORY	0x200000000ul
#define U_MEMORY_SIZE	0x20000000ul
/* The address of the array of struct page for that range. */
#define U_PAGES		0x240000000ul
/* The address of the stacks of threads. */
#define U_STACKS	0x280000000ul
/* Undefined symbols get addresses from here on, where nothing is mapped. */
#define U_MISSING	0x100000ul
#define U_MISSING_STEP	16ul

/* user/memory.c: a size is rounded up to a power of two, and the block is aligned to that size. */
void *u_alloc(unsigned long size, const void *owner);
void u_free(void *p);
unsigned long u_size(const void *p);
unsigned long u_live(void);
unsigned long u_contents(const void *except);
unsigned long u_contents_of_large(const void *except);
void u_data(const void *p);
void u_mark(void);
void u_print_leaks(void);

void u_keep_memory(void);
void u_restore_blocks(void);

/* user/snapshot.c: copies the state of the program, to which u_restore() returns. */
unsigned long u_snapshot(void);	/* returns the number of bytes */
void u_restore(void);
/* Ends the program unless u_restore() has restored all of it. */
void u_check_restored(void);
/* Handles the first write to a page of the state. Returns false if the address is not there. */
int u_written(unsigned long address);
void u_keep(void *at, unsigned long size);	/* adds a range of memory to the snapshot */
void k_keep_pages(unsigned long first, unsigned long count);	/* kernel/dma.c */

/* user/coroutine.c */
void *u_coroutine(void (*function)(void *), void *argument);
void u_enter(void *coroutine);
void u_leave(void);
void u_keep_stacks(void);

/* user/say.c */
void u_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void u_say_list(const char *format, __builtin_va_list list);
int u_print(char *buffer, unsigned long size, const char *format, __builtin_va_list list);
void u_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void u_exit(int status) __attribute__((noreturn));
/* A failure raises SIGABRT from now on, so that the fuzzer keeps the input. */
void u_abort_on_failure(void);
/* Forks. Returns -1 in the child. In the parent, waits and returns the child's exit status. */
int u_fork(void);
/* Allocates memory that children share with their parent. */
void *u_shared(unsigned long size);
long u_seconds(void);
/* Ends the process after 20 s of processor time from now on. u_fork() calls it in the child. */
void u_watch(void);

/* user/count.c: callgrind counts the instructions between these two calls. */
void u_count_begin(void);
void u_count_end(void);

/* user/engine.c: only the fuzzer's program has it. */
int u_fuzz(int argc, char **argv) __attribute__((weak));

/* kernel/fuzz.c: a target begins once; each input continues from there, and ends it. */
void k_fuzz_begin(const char *target);
void k_fuzz_input(const unsigned char *bytes, unsigned long size);
void k_fuzz_list(const char *target);	/* prints the names of a target's events */
void k_fuzz_loud(void);	/* prints the events of inputs from now on */
extern int k_fuzz_happens;	/* the events of an input happen; its end has not begun */

/* kernel/main.c */
int k_main(int argc, char **argv);

#endif /* HARNESS_USER_H */
