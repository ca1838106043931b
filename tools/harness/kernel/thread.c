// SPDX-License-Identifier: GPL-2.0
/*
 * Threads. Each thread is a coroutine, and runs until it sleeps or ends. The driver is not a
 * thread: functions that it calls directly, such as completion handlers, may not sleep.
 */
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include "both.h"

struct thread {
	struct list_head list;
	struct task_struct task;
	void *coroutine;
	const char *name;
	void (*function)(void *);
	void *argument;
	bool ready;
};

static LIST_HEAD(living);
static LIST_HEAD(spare);
static struct task_struct driver;
static struct thread *running;

DEFINE_PER_CPU_CACHE_HOT(struct task_struct *, current_task) = &driver;

static struct thread *thread_of(struct task_struct *task)
{
	return container_of(task, struct thread, task);
}

/* The body of each coroutine: it runs one function after the other. */
static void body(void *argument)
{
	struct thread *self = argument;

	for (;;) {
		self->function(self->argument);
		h_expect(!(self->task.flags & (PF_MEMALLOC_NOIO | PF_MEMALLOC_NOFS)),
			 "violation: a thread keeps an allocation scope");
		list_move(&self->list, &spare);
		u_leave();
	}
}

static struct thread *take_spare(void)
{
	struct thread *thread = list_first_entry_or_null(&spare, struct thread, list);

	if (thread) {
		list_del(&thread->list);
		return thread;
	}
	thread = u_alloc(sizeof(*thread), NULL);
	memset(thread, 0, sizeof(*thread));
	thread->coroutine = u_coroutine(body, thread);
	return thread;
}

/* Creates a thread that sleeps until it is woken. */
static struct thread *create(const char *name, void (*function)(void *), void *argument)
{
	struct thread *thread = take_spare();

	thread->name = name;
	thread->function = function;
	thread->argument = argument;
	thread->ready = false;
	thread->task.__state = TASK_UNINTERRUPTIBLE;
	list_add_tail(&thread->list, &living);
	return thread;
}

void h_spawn(const char *name, void (*function)(void *), void *argument)
{
	wake_up_process(&create(name, function, argument)->task);
}

bool h_in_thread(void)
{
	return running;
}

static struct thread *next_ready(void)
{
	struct thread *thread;

	list_for_each_entry(thread, &living, list)
		if (thread->ready)
			return thread;
	return NULL;
}

static void enter(struct thread *thread)
{
	h_expect(!running, "a thread starts another one");
	running = thread;
	this_cpu_write(current_task, &thread->task);
	u_enter(thread->coroutine);
	this_cpu_write(current_task, &driver);
	running = NULL;
}

bool h_run_threads(void)
{
	struct thread *thread;
	bool any = false;

	while ((thread = next_ready())) {
		enter(thread);
		any = true;
	}
	return any;
}

unsigned int h_sleepers(void)
{
	return list_count_nodes(&living);
}

void h_print_sleepers(void)
{
	struct thread *thread;

	list_for_each_entry(thread, &living, list)
		u_say("  %s sleeps", thread->name);
}

u64 h_threads_look(void)
{
	struct thread *thread;
	u64 hash = 0;

	list_for_each_entry(thread, &living, list)
		hash = h_mix(hash, (u64)thread->name + (u64)thread);
	return hash;
}

/* Sleeps, unless the thread was woken after it set its state. */
void schedule(void)
{
	h_may_sleep("a thread sleeps", __builtin_return_address(0));
	h_expect(running, "the driver sleeps");
	if (READ_ONCE(current->__state) == TASK_RUNNING)
		return;
	running->ready = false;
	u_leave();
}

int wake_up_process(struct task_struct *task)
{
	if (task == &driver || READ_ONCE(task->__state) == TASK_RUNNING)
		return 0;
	WRITE_ONCE(task->__state, TASK_RUNNING);
	thread_of(task)->ready = true;
	return 1;
}

int wake_up_state(struct task_struct *task, unsigned int state)
{
	return wake_up_process(task);
}

int try_to_wake_up(struct task_struct *task, unsigned int state, int flags);
int try_to_wake_up(struct task_struct *task, unsigned int state, int flags)
{
	return wake_up_process(task);
}

int default_wake_function(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	return wake_up_process(entry->private);
}

void io_schedule(void)
{
	schedule();
}

/* Does nothing: there is no preemption, and no other thread waits for the lock. */
int __cond_resched_lock(spinlock_t *lock)
{
	return 0;
}

struct kthread {
	int (*function)(void *data);
	void *data;
};

static void run_kthread(void *argument)
{
	struct kthread kthread = *(struct kthread *)argument;

	u_free(argument);
	kthread.function(kthread.data);
}

struct task_struct *kthread_create_on_node(int (*function)(void *data), void *data, int node,
					   const char format[], ...)
{
	struct kthread *kthread = u_alloc(sizeof(*kthread), NULL);

	*kthread = (struct kthread) { function, data };
	return &create("a kernel thread", run_kthread, kthread)->task;
}

void h_settle(void)
{
	h_expect(!running, "a thread settles");
	while (h_run_threads() || h_run_work() || h_run_cm() || h_flush_one())
		;
}
