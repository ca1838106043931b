// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the events of a setting in all orders. Each event occurs in a child process, so that the
 * next event starts from the same state. A failure ends the child; its parent prints the events
 * that led to the failure.
 */
#include "harness.h"

static const struct h_setting settings[] = {
	{
		.name = "inline", .count = 1, .kinds = { H_INLINE },
		.again = true, .anew = true, .disconnect = true,
	},
	{
		.name = "read", .count = 1, .kinds = { H_READ_4K },
		.either = true, .again = true, .anew = true, .disconnect = true,
	},
	{
		.name = "write", .count = 1, .kinds = { H_WRITE_4K },
		.either = true, .again = true, .anew = true, .disconnect = true,
	},
	{
		.name = "readdir", .count = 1, .kinds = { H_READDIR },
		.either = true, .again = true, .anew = true, .disconnect = true,
	},
	{
		.name = "read_slow", .count = 1, .kinds = { H_READ_4K },
		.either = true, .anew = true, .disconnect = true, .slow = true,
	},
	{
		.name = "two_slow", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.how = { H_INV_OWN, H_INV_NONE }, .disconnect = true, .at_once = true, .slow = true,
		.prune = true,
	},
	{
		.name = "read_write", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.how = { H_INV_OWN, H_INV_NONE }, .prune = true,
	},
	{
		.name = "read_write_lost", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.how = { H_INV_OWN, H_INV_NONE }, .disconnect = true, .prune = true,
	},
	{
		.name = "two_again", .count = 2, .kinds = { H_WRITE_4K, H_INLINE },
		.how = { H_INV_OWN, H_INV_NONE }, .again = true, .at_once = true, .prune = true,
	},
	{
		.name = "two_anew", .count = 2, .kinds = { H_READ_4K, H_READ_4K },
		.how = { H_INV_OWN, H_INV_NONE }, .anew = true, .prune = true,
	},
	{
		.name = "three_inline", .count = 3, .kinds = { H_INLINE, H_INLINE, H_INLINE },
		.at_once = true, .prune = true,
	},
	{
		.name = "three", .count = 3, .kinds = { H_READ_4K, H_INLINE, H_INLINE },
		.how = { H_INV_OWN }, .at_once = true, .prune = true,
	},
};

#define DEEPEST	32
#define LOOKS	(1u << 20)

/* The state that all processes share. */
static struct shared {
	unsigned long steps, ends, failures;
	bool said;	/* the events that led to the failure are printed */
	u64 looks[LOOKS];
} *shared;

static const struct h_setting *setting;
static bool prune;
static char path[DEEPEST][H_EVENT_NAME];
static unsigned int depth;

static void say_path(void)
{
	char line[DEEPEST * H_EVENT_NAME + 1] = "";
	unsigned int i;

	for (i = 0; i < depth; i++) {
		strcat(line, " ");
		strcat(line, path[i]);
	}
	u_say("  after: explore %s%s", setting->name, line);
}

/* Returns whether a state has been seen before, and records it. */
static bool seen(u64 look)
{
	unsigned int i = look % LOOKS;

	for (; shared->looks[i]; i = (i + 1) % LOOKS)
		if (shared->looks[i] == look)
			return true;
	shared->looks[i] = look;
	return false;
}

static void walk(void);

/* Lets one event occur in a child, and follows all orders after it. */
static void step(const char *event)
{
	int status = u_fork();

	if (status < 0) {
		h_event(event);
		walk();
		u_exit(0);
	}
	if (!status)
		return;
	if (!shared->said) {
		shared->said = true;
		shared->failures++;
		say_path();
	}
	u_exit(status);
}

static void walk(void)
{
	char events[H_EVENTS][H_EVENT_NAME];
	unsigned int n = h_events(events), i;

	shared->steps++;
	if (prune && setting->prune && seen(h_look() ?: 1))
		return;
	if (!n) {
		shared->ends++;
		h_setting_end();
		return;
	}
	h_expect(depth < DEEPEST, "an order has too many events");
	for (i = 0; i < n; i++) {
		strcpy(path[depth++], events[i]);
		step(events[i]);
		depth--;
	}
}

/*
 * Explores a setting in a child, so that the next setting starts from the initial state. Returns
 * whether no order failed.
 */
static bool explore(const struct h_setting *chosen)
{
	long start = u_seconds();
	int status;

	memset(shared, 0, sizeof(*shared));
	setting = chosen;
	status = u_fork();
	if (status < 0) {
		h_setting_begin(setting);
		walk();
		u_exit(0);
	}
	u_say("%s %s: %lu steps, %lu ends, %ld s", status ? "FAIL" : "ok  ", setting->name,
	      shared->steps, shared->ends, u_seconds() - start);
	return !status;
}

static const struct h_setting *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (!strcmp(settings[i].name, name))
			return &settings[i];
	u_fail("there is no setting %s", name);
}

/* Runs one order of events, and prints each event and the kernel's messages. */
static int replay(char **order, int count)
{
	h_setting_begin(find(order[0]));
	for (order++, count--; count; order++, count--) {
		u_say("%s", *order);
		h_event(*order);
	}
	h_setting_end();
	return 0;
}

int h_explore(int count, char **order, bool all)
{
	unsigned int i;
	bool good = true;

	prune = !all;
	if (count > 1)
		return replay(order, count);
	h_quiet = true;
	shared = u_shared(sizeof(*shared));
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (!count || !strcmp(order[0], settings[i].name))
			good = explore(&settings[i]) && good;
	return !good;
}
