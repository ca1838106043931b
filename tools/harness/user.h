/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the two sides of the harness know of each other. The one side, in kernel/, is compiled by
 * Kbuild with the kernel's headers; the other, in user/, with those of the C library. This header
 * is in plain C, since it is read by both.
 */
#ifndef HARNESS_USER_H
#define HARNESS_USER_H

/* Where memory that the module allocates lies: a part of the address space for "physical" memory. */
#define U_MEMORY	0x200000000ul
#define U_MEMORY_SIZE	0x20000000ul
/* Where its struct page lie. */
#define U_PAGES		0x240000000ul
/* Undefined symbols are given addresses from here on, where nothing is mapped. */
#define U_MISSING	0x100000ul
#define U_MISSING_STEP	16ul

/* user/memory.c: sizes are rounded up to powers of two, and aligned to that. */
void *u_alloc(unsigned long size, const void *owner);
void u_free(void *p);
unsigned long u_size(const void *p);
unsigned long u_live(void);
unsigned long u_contents(const void *except);
void u_mark(void);
void u_print_leaks(void);

/* user/coroutine.c */
void *u_coroutine(void (*function)(void *), void *argument);
void u_enter(void *coroutine);
void u_leave(void);

/* user/say.c */
void u_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void u_say_list(const char *format, __builtin_va_list list);
int u_print(char *buffer, unsigned long size, const char *format, __builtin_va_list list);
void u_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void u_exit(int status) __attribute__((noreturn));
/* Runs the rest in a child, and returns its exit status; in the child returns -1. */
int u_fork(void);
/* Memory that children share with their parent. */
void *u_shared(unsigned long size);
long u_seconds(void);

/* user/count.c: what callgrind is to count lies between the two. */
void u_count_begin(void);
void u_count_end(void);

/* kernel/main.c */
int k_main(int argc, char **argv);

#endif /* HARNESS_USER_H */
