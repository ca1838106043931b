/* SPDX-License-Identifier: GPL-2.0 */
/* The contexts in which code runs: locks, sleep, allocations. harness.h includes this header. */
#ifndef HARNESS_CONTEXT_H
#define HARNESS_CONTEXT_H

#include <linux/types.h>

/* --- lock.c --- */
bool h_holds_spinlock(void);
bool h_holds_mutex(void);	/* whether this thread holds one */
/*
 * Has a function called once, when n spinlocks were taken from now on and before the next one is:
 * as if another processor was faster. NULL: no function is called. Whether the call is to come.
 */
void h_before_lock(unsigned int n, void (*function)(void));
bool h_lock_awaited(void);
bool h_elsewhere(void);		/* whether that function is running */
/*
 * The next thread that takes a spinlock inside another one pauses before that, until h_lock_go().
 * Meanwhile threads that meet the other spinlock wait for it. Whether a thread pauses.
 */
void h_lock_pause(void);
bool h_lock_pauses(void);
void h_lock_go(void);
/* Preempts the thread that takes spinlock n from now on without another one; 0: no thread. */
void h_lock_preempt(unsigned int n);

/* --- context.c --- */
/* Ends the program if `what` may sleep, and its caller, at this address, may not. */
void h_may_sleep(const char *what, const void *caller);

#endif /* HARNESS_CONTEXT_H */
