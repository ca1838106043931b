// SPDX-License-Identifier: GPL-2.0
/*
 * Locks. Only one thread runs at a time, so a thread that meets a taken spinlock never ends, unless
 * the other thread pauses with the lock, as if each had a processor of its own.
 */
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include "harness.h"

/* The number of spinlocks that are held. */
static unsigned int spinlocks;

/* What happens before a spinlock is taken, and how many are taken before that. */
static void (*before)(void);
static unsigned int earlier;

void h_before_lock(unsigned int n, void (*function)(void))
{
	before = function;
	earlier = n;
}

/* That function is running. */
static bool elsewhere;

bool h_elsewhere(void)
{
	return elsewhere;
}

bool h_lock_awaited(void)
{
	return before;
}

static void happen(void)
{
	void (*function)(void) = before;
	bool completing = h_completing;

	if (!function)
		return;
	/* The fuzzer does not know where a handler runs, or which spinlocks are held. */
	if (h_fuzzed && (spinlocks || h_completing || !h_in_thread()))
		return;
	if (earlier--)
		return;
	before = NULL;
	elsewhere = true;
	/* Nor is it in this one's handler. */
	h_completing = false;
	function();
	h_completing = completing;
	elsewhere = false;
}

static DECLARE_WAIT_QUEUE_HEAD(paused);
/* A thread is to pause; a thread pauses; a thread waits for a spinlock. */
static bool to_pause, pauses, awaited;

void h_lock_pause(void)
{
	to_pause = true;
}

bool h_lock_pauses(void)
{
	return pauses;
}

void h_lock_go(void)
{
	pauses = false;
	wake_up_all(&paused);
}

/* Pauses in a thread that holds one spinlock and is about to take another one. */
static void pause(void)
{
	if (!to_pause || spinlocks != 1 || !h_in_thread())
		return;
	to_pause = false;
	pauses = true;
	spinlocks = 0;
	wait_event(paused, !pauses);
	spinlocks++;
}

/* The number of spinlocks, the one before which a thread is preempted included; 0: none is. */
static unsigned int until;

void h_lock_preempt(unsigned int n)
{
	until = n;
}

/*
 * Preempts a thread. It may have announced that it is about to sleep, and then wakes once too
 * often, which every thread has to expect.
 */
static void preempt(void)
{
	if (!until || pauses || spinlocks || preempt_count() || h_completing || !h_in_thread() ||
	    --until)
		return;
	pauses = true;
	wait_event(paused, !pauses);
}

/* Waits for a spinlock that a thread has taken which pauses, or has paused. */
static void await(raw_spinlock_t *lock)
{
	if (!lock->raw_lock.locked || !pauses || !h_in_thread() || spinlocks)
		return;
	awaited = true;
	wait_event(paused, !lock->raw_lock.locked);
}

static void take(raw_spinlock_t *lock, const void *caller)
{
	happen();
	preempt();
	pause();
	await(lock);
	if (lock->raw_lock.locked)
		u_fail("violation: a spinlock is taken twice, at <%p>", caller);
	if (h_xprt && lock == &h_xprt->queue_lock.rlock && spinlocks)
		u_fail("violation: queue_lock is taken with a spinlock held, at <%p>", caller);
	spinlocks++;
	lock->raw_lock.locked = 1;
}

static void give(raw_spinlock_t *lock, const void *caller)
{
	if (!lock->raw_lock.locked)
		u_fail("violation: a spinlock is unlocked that is not taken, at <%p>", caller);
	spinlocks--;
	lock->raw_lock.locked = 0;
	if (awaited && !pauses && !spinlocks && lock != &paused.lock.rlock) {
		awaited = false;
		wake_up_all(&paused);
	}
}

bool h_holds_spinlock(void)
{
	return spinlocks;
}

void _raw_spin_lock(raw_spinlock_t *lock)
{
	take(lock, __builtin_return_address(0));
}

void _raw_spin_lock_bh(raw_spinlock_t *lock)
{
	take(lock, __builtin_return_address(0));
}

void _raw_spin_lock_irq(raw_spinlock_t *lock)
{
	take(lock, __builtin_return_address(0));
}

unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock)
{
	take(lock, __builtin_return_address(0));
	return 0;
}

int _raw_spin_trylock(raw_spinlock_t *lock)
{
	if (lock->raw_lock.locked)
		return 0;
	take(lock, __builtin_return_address(0));
	return 1;
}

int _raw_spin_trylock_bh(raw_spinlock_t *lock)
{
	return _raw_spin_trylock(lock);
}

void _raw_spin_unlock(raw_spinlock_t *lock)
{
	give(lock, __builtin_return_address(0));
}

void _raw_spin_unlock_bh(raw_spinlock_t *lock)
{
	give(lock, __builtin_return_address(0));
}

void _raw_spin_unlock_irq(raw_spinlock_t *lock)
{
	give(lock, __builtin_return_address(0));
}

void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags)
{
	give(lock, __builtin_return_address(0));
}

void mutex_init_generic(struct mutex *lock)
{
	memset(lock, 0, sizeof(*lock));
}

/* A thread that waits for a mutex. */
struct waiter {
	struct list_head list;
	struct mutex *lock;
	struct task_struct *task;
};

static LIST_HEAD(waiters);
/* The mutexes that are held; some entries are empty. Their number. */
static struct mutex *held[32];
static unsigned int held_count;

/* Replaces an entry, which exists. */
static void note(struct mutex *old, struct mutex *new)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(held); i++) {
		if (held[i] == old) {
			held[i] = new;
			return;
		}
	}
	u_fail("more than %lu mutexes are held", ARRAY_SIZE(held));
}

bool h_holds_mutex(void)
{
	unsigned int i;

	for (i = 0; held_count && i < ARRAY_SIZE(held); i++)
		if (held[i] && atomic_long_read(&held[i]->owner) == (long)current)
			return true;
	return false;
}

static void await_mutex(struct mutex *lock)
{
	while (atomic_long_read(&lock->owner)) {
		struct waiter waiter = { .lock = lock, .task = current };

		list_add_tail(&waiter.list, &waiters);
		__set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
		list_del(&waiter.list);
	}
	atomic_long_set(&lock->owner, (long)current);
	note(NULL, lock);
	held_count++;
}

void mutex_lock(struct mutex *lock)
{
	h_may_sleep("a mutex is taken", __builtin_return_address(0));
	await_mutex(lock);
}

int mutex_trylock(struct mutex *lock)
{
	if (atomic_long_read(&lock->owner))
		return 0;
	await_mutex(lock);
	return 1;
}

void mutex_unlock(struct mutex *lock)
{
	struct waiter *waiter;

	if (atomic_long_read(&lock->owner) != (long)current)
		h_violation("a mutex is unlocked by a thread that does not hold it");
	atomic_long_set(&lock->owner, 0);
	note(lock, NULL);
	held_count--;
	list_for_each_entry(waiter, &waiters, list)
		if (waiter->lock == lock)
			wake_up_process(waiter->task);
}
