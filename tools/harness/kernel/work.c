// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues, timers and time. Time passes only in h_pass(). Each work item runs in a thread of its
 * own, in the order of queueing.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "both.h"

struct workqueue_struct {
	unsigned int flags;
	unsigned int queued;
	bool serves;	/* it is the server's */
};

/* Starts far from zero, to expose code that takes zero for "never". */
unsigned long volatile jiffies = 1000000;

struct workqueue_struct *system_wq, *system_percpu_wq, *system_dfl_wq, *system_unbound_wq;
struct workqueue_struct *system_long_wq, *system_dfl_long_wq, *system_highpri_wq;

/* A work item that is running. */
struct job {
	struct list_head list;
	struct work_struct *work;
	struct workqueue_struct *queue;
	struct task_struct *worker;
};

/* A work item that is queued, with its workqueue. struct work_struct has no field for that. */
struct entry {
	struct list_head list;
	struct work_struct *work;
	struct workqueue_struct *queue;
	unsigned long due;
};

static LIST_HEAD(queued);
static LIST_HEAD(delayed);
static LIST_HEAD(jobs);
static LIST_HEAD(timers);
static DECLARE_WAIT_QUEUE_HEAD(job_done);

struct timer_entry {
	struct list_head list;
	struct timer_list *timer;
};

static void add_entry(struct list_head *list, struct work_struct *work,
		      struct workqueue_struct *queue, unsigned long due)
{
	struct entry *entry = u_alloc(sizeof(*entry), NULL);

	*entry = (struct entry) { .work = work, .queue = queue, .due = due };
	list_add_tail(&entry->list, list);
}

static void drop_entry(struct entry *entry)
{
	list_del(&entry->list);
	u_free(entry);
}

static struct entry *find(struct list_head *list, struct work_struct *work)
{
	struct entry *entry;

	list_for_each_entry(entry, list, list)
		if (entry->work == work)
			return entry;
	return NULL;
}

static void set_pending(struct work_struct *work, bool pending)
{
	if (pending)
		__set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work));
	else
		__clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(work));
}

bool queue_work_on(int cpu, struct workqueue_struct *queue, struct work_struct *work)
{
	h_expect(queue && queue->queued != 0xdead, "work is queued on a destroyed workqueue");
	/* The kernel warns of it, once. */
	h_expect(queue != system_wq && queue != system_unbound_wq,
		 "work is queued on a deprecated workqueue");
	if (work_pending(work))
		return false;
	set_pending(work, true);
	add_entry(&queued, work, queue, 0);
	return true;
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *work,
			   unsigned long delay)
{
	if (!delay)
		return queue_work_on(cpu, queue, &work->work);
	if (work_pending(&work->work))
		return false;
	set_pending(&work->work, true);
	add_entry(&delayed, &work->work, queue, jiffies + delay);
	return true;
}

static bool cancel(struct work_struct *work)
{
	struct entry *entry = find(&queued, work) ?: find(&delayed, work);

	if (!entry)
		return false;
	drop_entry(entry);
	set_pending(work, false);
	return true;
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *work,
			 unsigned long delay)
{
	bool was = cancel(&work->work);

	queue_delayed_work_on(cpu, queue, work, delay);
	return was;
}

/* Is never called: the module takes its address, but delayed work has no timer here. */
void delayed_work_timer_fn(struct timer_list *timer)
{
	u_fail("delayed_work_timer_fn() was called");
}

static bool is_running(struct work_struct *work, struct workqueue_struct *queue)
{
	struct job *job;

	list_for_each_entry(job, &jobs, list)
		if (job->work == work || job->queue == queue)
			return true;
	return false;
}

static void wait_idle(struct work_struct *work)
{
	wait_event(job_done, !is_running(work, (void *)-1));
}

bool flush_work(struct work_struct *work)
{
	bool busy = find(&queued, work) || is_running(work, (void *)-1);

	h_may_sleep("work is flushed", __builtin_return_address(0));
	wait_event(job_done, !find(&queued, work) && !is_running(work, (void *)-1));
	return busy;
}

bool flush_delayed_work(struct delayed_work *work)
{
	struct entry *entry = find(&delayed, &work->work);

	if (entry)
		list_move_tail(&entry->list, &queued);
	return flush_work(&work->work);
}

bool cancel_work_sync(struct work_struct *work)
{
	bool was = cancel(work);

	h_may_sleep("work is cancelled", __builtin_return_address(0));
	wait_idle(work);
	return was;
}

bool cancel_delayed_work(struct delayed_work *work)
{
	return cancel(&work->work);
}

bool cancel_delayed_work_sync(struct delayed_work *work)
{
	return cancel_work_sync(&work->work);
}

bool h_in_client_work(void)
{
	struct job *job;

	list_for_each_entry(job, &jobs, list)
		if (job->worker == current)
			return job->queue->flags & WQ_MEM_RECLAIM && !job->queue->serves;
	return false;
}

static bool has_work(struct workqueue_struct *queue)
{
	struct entry *entry;

	list_for_each_entry(entry, &queued, list)
		if (entry->queue == queue)
			return true;
	return is_running((void *)-1, queue);
}

void __flush_workqueue(struct workqueue_struct *queue)
{
	h_may_sleep("a workqueue is flushed", __builtin_return_address(0));
	wait_event(job_done, !has_work(queue));
}

struct workqueue_struct *alloc_workqueue_noprof(const char *name, unsigned int flags,
						int max_active, ...)
{
	struct workqueue_struct *queue = u_alloc(sizeof(*queue), __builtin_return_address(0));
	char full[64];
	va_list list;

	va_start(list, max_active);
	u_print(full, sizeof(full), name, list);
	va_end(list);
	*queue = (struct workqueue_struct) {
		.flags = flags, .serves = !strcmp(full, "rpcrdma_server"),
	};
	return queue;
}

void destroy_workqueue(struct workqueue_struct *queue)
{
	__flush_workqueue(queue);
	queue->queued = 0xdead;
	u_free(queue);
}

static void run_job(void *argument)
{
	struct job *job = argument;
	work_func_t function = job->work->func;

	job->worker = current;
	function(job->work);
	list_del(&job->list);
	u_free(job);
	wake_up_all(&job_done);
}

/* Starts the next work item that is not running already. Returns false if there is none. */
bool h_run_work(void)
{
	struct entry *entry;
	struct job *job;

	list_for_each_entry(entry, &queued, list) {
		if (is_running(entry->work, (void *)-1))
			continue;
		job = u_alloc(sizeof(*job), NULL);
		job->work = entry->work;
		job->queue = entry->queue;
		job->worker = NULL;
		list_add_tail(&job->list, &jobs);
		set_pending(entry->work, false);
		drop_entry(entry);
		h_spawn("a worker", run_job, job);
		return true;
	}
	return false;
}

/* --- Timers --- */

void timer_init_key(struct timer_list *timer, void (*function)(struct timer_list *),
		    unsigned int flags, const char *name, struct lock_class_key *key)
{
	memset(timer, 0, sizeof(*timer));
	timer->function = function;
}

static struct timer_entry *find_timer(struct timer_list *timer)
{
	struct timer_entry *entry;

	list_for_each_entry(entry, &timers, list)
		if (entry->timer == timer)
			return entry;
	return NULL;
}

int timer_delete_sync(struct timer_list *timer)
{
	struct timer_entry *entry = find_timer(timer);

	if (!entry)
		return 0;
	list_del(&entry->list);
	u_free(entry);
	return 1;
}

int timer_shutdown_sync(struct timer_list *timer)
{
	return timer_delete_sync(timer);
}

int mod_timer(struct timer_list *timer, unsigned long expires)
{
	int was = timer_delete_sync(timer);
	struct timer_entry *entry = u_alloc(sizeof(*entry), NULL);

	entry->timer = timer;
	timer->expires = expires;
	list_add_tail(&entry->list, &timers);
	return was;
}

/* A thread in schedule_timeout(). */
struct wake_up {
	struct timer_list timer;
	struct task_struct *task;
};

static void ring(struct timer_list *timer)
{
	wake_up_process(container_of(timer, struct wake_up, timer)->task);
}

long schedule_timeout(long timeout)
{
	unsigned long end = jiffies + timeout;
	struct wake_up alarm = { .task = current };

	if (timeout == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return timeout;
	}
	timer_init_key(&alarm.timer, ring, 0, NULL, NULL);
	mod_timer(&alarm.timer, end);
	schedule();
	timer_delete_sync(&alarm.timer);
	return time_before(jiffies, end) ? end - jiffies : 0;
}

void msleep(unsigned int ms)
{
	unsigned long left = __msecs_to_jiffies(ms) + 1;

	while (left) {
		__set_current_state(TASK_UNINTERRUPTIBLE);
		left = schedule_timeout(left);
	}
}

unsigned long round_jiffies_relative(unsigned long j)
{
	return j;
}

ktime_t ktime_get(void)
{
	return ns_to_ktime((u64)jiffies * (NSEC_PER_SEC / HZ));
}

unsigned long __msecs_to_jiffies(const unsigned int m)
{
	return (unsigned long)m * HZ / 1000;
}

unsigned long __usecs_to_jiffies(const unsigned int u)
{
	return (unsigned long)u * HZ / 1000000;
}

unsigned long nsecs_to_jiffies(u64 n)
{
	return div_u64(n, NSEC_PER_SEC / HZ);
}

static bool run_due(void)
{
	struct timer_entry *timer;
	struct entry *entry;

	list_for_each_entry(entry, &delayed, list) {
		if (time_after(entry->due, jiffies))
			continue;
		list_move_tail(&entry->list, &queued);
		return true;
	}
	list_for_each_entry(timer, &timers, list) {
		struct timer_list *due = timer->timer;

		if (time_after(due->expires, jiffies))
			continue;
		timer_delete_sync(due);
		due->function(due);
		return true;
	}
	return false;
}

/* Returns the time at which the next timer or delayed work is due, but at most `end`. */
static unsigned long next_due(unsigned long end)
{
	struct timer_entry *timer;
	struct entry *entry;

	list_for_each_entry(entry, &delayed, list)
		if (time_before(entry->due, end))
			end = entry->due;
	list_for_each_entry(timer, &timers, list)
		if (time_before(timer->timer->expires, end))
			end = timer->timer->expires;
	return end;
}

void h_pass(unsigned int ms)
{
	unsigned long end = jiffies + __msecs_to_jiffies(ms);

	h_settle();
	for (;;) {
		while (run_due())
			h_settle();
		if (jiffies == end)
			return;
		jiffies = next_due(end);
	}
}

/* Returns the milliseconds until something is due; `most` if that is not before. */
static unsigned int idle_time(unsigned int most)
{
	unsigned long due = next_due(jiffies + __msecs_to_jiffies(most));

	return time_after(due, jiffies) ? (due - jiffies) * 1000 / HZ : 0;
}

/* Looks for completions every 100 ms. Steps in which nothing is due are taken as one. */
void h_live(unsigned int ms)
{
	unsigned int step;

	for (;; ms -= step) {
		step = 0;
		h_settle();
		if (h_qp && (h_complete_send(h_qp) || h_complete_receive(h_qp)))
			continue;
		if (!ms)
			return;
		step = min(ms, roundup(max(idle_time(ms), 1u), 100u));
		h_pass(step);
	}
}

void h_work_init(void)
{
	system_wq = alloc_workqueue_noprof("deprecated", 0, 0);
	system_unbound_wq = system_wq;
	system_percpu_wq = alloc_workqueue_noprof("events", 0, 0);
	system_dfl_wq = system_percpu_wq;
	system_long_wq = system_percpu_wq;
	system_dfl_long_wq = system_percpu_wq;
	system_highpri_wq = system_percpu_wq;
}

static u64 entries_look(u64 hash, const struct list_head *list)
{
	struct entry *entry;

	list_for_each_entry(entry, list, list)
		hash = h_mix(hash, (u64)entry->work + entry->due);
	return hash;
}

u64 h_work_look(void)
{
	u64 hash = entries_look(entries_look(jiffies, &queued), &delayed);
	struct timer_entry *timer;
	struct job *job;

	list_for_each_entry(timer, &timers, list)
		hash = h_mix(hash, (u64)timer->timer + timer->timer->expires);
	list_for_each_entry(job, &jobs, list)
		hash = h_mix(hash, (u64)job->work);
	return hash;
}
