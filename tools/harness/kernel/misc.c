// SPDX-License-Identifier: GPL-2.0
/* Stand-ins for modules, RCU, random numbers, sysctl and strings; per-CPU variables. */
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/fault-inject.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sysctl.h>
#include <linux/utsname.h>
#include <net/net_namespace.h>
#include "harness.h"

/*
 * There is one processor. The flag PREEMPT_NEED_RESCHED is inverted: while it is set, the count
 * never reaches zero, and no thread is preempted.
 */
DEFINE_PER_CPU_CACHE_HOT(unsigned long, __preempt_count) = PREEMPT_NEED_RESCHED;
DEFINE_PER_CPU_CACHE_HOT(int, cpu_number);
DEFINE_PER_CPU_CACHE_HOT(unsigned long, this_cpu_off);
struct cpumask __cpu_online_mask = { .bits = { 1 } };
struct cpumask __cpu_possible_mask = { .bits = { 1 } };
struct cpumask __cpu_present_mask = { .bits = { 1 } };
unsigned int nr_cpu_ids = 1;
enum system_states system_state = SYSTEM_RUNNING;
struct net init_net;
struct task_struct init_task;
struct uts_namespace init_uts_ns;
const int sysctl_vals[] = { 0, 1, 2, 3, 4, 100, 200, 1000, 3000, INT_MAX, 65535, -1 };
const unsigned long sysctl_long_vals[] = { 0, 1, LONG_MAX };

/* --- Modules: h_check_nothing_left() finds a reference too many or too few --- */

static int module_references;

bool try_module_get(struct module *module)
{
	module_references++;
	return true;
}

void __module_get(struct module *module)
{
	module_references++;
}

void module_put(struct module *module)
{
	module_references--;
}

/* While a module is being initialised, its loader has a reference as well. */
int module_refcount(struct module *module)
{
	return 1 + module_references;
}

int h_module_references(void)
{
	return module_references;
}

int __request_module(bool wait, const char *name, ...)
{
	return -ENOENT;
}

/* Calls nothing: no processor comes online or goes offline. */
int __cpuhp_setup_state(enum cpuhp_state state, const char *name, bool invoke,
			int (*startup)(unsigned int cpu), int (*teardown)(unsigned int cpu),
			bool multi)
{
	return 0;
}

/* --- RCU: no thread is preempted or sleeps inside a read-side section --- */

void synchronize_rcu(void)
{
	h_may_sleep("a grace period is awaited", __builtin_return_address(0));
}

unsigned int h_tasks_awaited;

void synchronize_rcu_tasks(void)
{
	h_may_sleep("a grace period of tasks is awaited", __builtin_return_address(0));
	h_tasks_awaited++;
}

void call_rcu(struct rcu_head *head, rcu_callback_t function)
{
	function(head);
}

/* --- Random numbers: the same on each run --- */

u32 get_random_u32(void)
{
	return 0x12345678;
}

u32 __get_random_u32_below(u32 ceiling)
{
	return ceiling / 2;
}

void get_random_bytes(void *buf, size_t len)
{
	memset(buf, 0x5a, len);
}

/* --- sysctl: sets the number of slots when the table is registered --- */

unsigned int h_slots;
/* The tables of client and server. */
static struct {
	const struct ctl_table *entries;
	size_t count;
} tunables[2];

static const struct ctl_table *tunable(const char *name)
{
	size_t i, n;

	for (n = 0; n < ARRAY_SIZE(tunables); n++)
		for (i = 0; i < tunables[n].count; i++)
			if (!strcmp(tunables[n].entries[i].procname, name))
				return &tunables[n].entries[i];
	u_fail("the module has no tunable %s", name);
}

void h_tune(const char *name, unsigned int value)
{
	*(unsigned int *)tunable(name)->data = value;
}

void h_tune_text(const char *name, const char *text)
{
	const struct ctl_table *entry = tunable(name);
	size_t len = strlen(text);
	loff_t at = 0;
	char copy[64];

	strcpy(copy, text);
	h_expect(!entry->proc_handler(entry, 1, copy, &len, &at), "%s cannot be %s", name, text);
}

unsigned long h_counter(const char *name)
{
	const struct ctl_table *entry = tunable(name);
	unsigned long value = 0;
	char text[32] = "", *at = text;
	size_t len = sizeof(text) - 1;
	loff_t start = 0;

	h_expect(!entry->proc_handler(entry, 0, text, &len, &start), "%s cannot be read", name);
	for (; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + *at - '0';
	return value;
}

struct ctl_table_header *register_sysctl_sz(const char *path, const struct ctl_table *table,
					    size_t count)
{
	bool client = !strcmp(path, "sunrpc");

	tunables[client].entries = table;
	tunables[client].count = count;
	if (client && h_slots)
		h_tune("rdma_slot_table_entries", h_slots);
	return u_alloc(sizeof(struct ctl_table_header), NULL);
}

void unregister_sysctl_table(struct ctl_table_header *header)
{
	if (header)
		u_free(header);
}

/* The module takes the addresses of these functions, but never calls them. */
int proc_dointvec_minmax(const struct ctl_table *table, int dir, void *buffer, size_t *lenp,
			 loff_t *ppos)
{
	return -EIO;
}

int proc_dointvec(const struct ctl_table *table, int dir, void *buffer, size_t *lenp, loff_t *ppos)
{
	return -EIO;
}

/* --- String functions that the C library lacks --- */

ssize_t sized_strscpy(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = 0;
	return len;
}

int scnprintf(char *buf, size_t size, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = u_print(buf, size, format, list);
	va_end(list);
	return min_t(int, n, size - 1);
}

int snprintf(char *buf, size_t size, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = u_print(buf, size, format, list);
	va_end(list);
	return n;
}

int sprintf(char *buf, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = u_print(buf, PAGE_SIZE, format, list);
	va_end(list);
	return n;
}

char *kasprintf(gfp_t gfp, const char *format, ...)
{
	char line[256];
	va_list list;

	va_start(list, format);
	u_print(line, sizeof(line), format, list);
	va_end(list);
	return kstrdup(line, gfp);
}
