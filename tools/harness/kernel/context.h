/* SPDX-License-Identifier: GPL-2.0 */
/* The contexts in which code runs: locks, sleep, allocations. harness.h includes this header. */
#ifndef HARNESS_CONTEXT_H
#define HARNESS_CONTEXT_H

#include <linux/types.h>

extern bool h_rust;	/* the module is in Rust: it is this one, not the kernel's own */

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
/*
 * End the program if a driver allocates memory for `what`, and the allocation might wait for what
 * waits for it: a client's work may not recurse into a file system; where an object ends, in any
 * task, an allocation starts no I/O. The kernel's own module does not follow these rules.
 */
void h_driver_allocates(const char *what, const void *caller);
void h_driver_ends(const char *what, const void *caller);
/*
 * Whether a client's work is running on a workqueue with a rescuer, so that a file system may wait
 * for it. (The server's workqueue has one because work of the connection manager may flush it.)
 */
bool h_in_client_work(void);

#endif /* HARNESS_CONTEXT_H */
