// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the events of a setting in all orders, or in orders chosen at random. An event occurs in a
 * child process if others are to start from the same state. A failure ends all processes; the first
 * one prints the events that led to it.
 */
#include "both.h"

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

#define DEEPEST	128
#define LOOKS	(1u << 20)

/* A setting of either kind. */
struct game {
	const char *name;
	const void *setting;
	const struct h_rules *rules;
	bool prune;
};

/* A state, and the number of orders from that state on. */
struct state {
	u64 look, orders;
};

/* The state that all processes share. */
static struct shared {
	unsigned long steps, ends;
	long limit;	/* the time at which no further order begins; 0: there is none */
	bool incomplete;
	u64 orders;	/* from the state on that the last process has followed */
	char path[DEEPEST][H_EVENT_NAME];
	unsigned int depth;
	struct state states[LOOKS];
} *shared;

static const struct game *game;
static bool prune;

static void say_path(void)
{
	char line[DEEPEST * H_EVENT_NAME + 1] = "";
	unsigned int i;

	for (i = 0; i < shared->depth; i++) {
		strcat(line, " ");
		strcat(line, shared->path[i]);
	}
	u_say("  after: explore %s%s", game->name, line);
}

static void add_to_path(const char *event)
{
	h_expect(shared->depth < DEEPEST, "an order has too many events");
	strcpy(shared->path[shared->depth++], event);
}

/* Returns the record of a state. A new one has no orders yet. */
static struct state *state_of(u64 look)
{
	unsigned int i = look % LOOKS, n;

	for (n = 0; shared->states[i].look && shared->states[i].look != look; n++) {
		h_expect(n < LOOKS, "there are more than %u states", LOOKS);
		i = (i + 1) % LOOKS;
	}
	shared->states[i].look = look;
	return &shared->states[i];
}

static void walk(void);

/* Lets one event occur, and follows all orders after it. Returns their number. */
static u64 step(const char *event)
{
	add_to_path(event);
	game->rules->event(event);
	walk();
	shared->depth--;
	return shared->orders;
}

/* Does that in a child, so that the next event starts from the same state. */
static u64 step_in_child(const char *event)
{
	int status = u_fork();

	if (status < 0) {
		step(event);
		u_exit(0);
	}
	if (status)
		u_exit(status);
	return shared->orders;
}

/* Follows all orders from this state on, and notes their number. */
static void walk(void)
{
	char events[H_EVENTS][H_EVENT_NAME];
	unsigned int n = game->rules->events(events), i;
	struct state *state = NULL;
	u64 orders = 0;

	shared->steps++;
	shared->orders = 0;
	if (shared->limit && u_seconds() >= shared->limit) {
		shared->incomplete = true;
		return;
	}
	if (prune && game->prune) {
		state = state_of(game->rules->look() ?: 1);
		if (state->orders) {
			shared->orders = state->orders;
			return;
		}
	}
	if (!n) {
		shared->ends++;
		game->rules->end();
		orders = 1;
	}
	for (i = 0; i < n; i++)
		orders += i + 1 < n ? step_in_child(events[i]) : step(events[i]);
	if (state)
		state->orders = orders;
	shared->orders = orders;
}

/*
 * Explores a setting in a child, so that the next setting starts from the initial state, for some
 * seconds, or to the end if that is 0. Returns whether no order failed.
 */
static bool explore(const struct game *chosen, unsigned int seconds)
{
	long start = u_seconds();
	int status;

	memset(shared, 0, sizeof(*shared));
	shared->limit = seconds ? start + seconds : 0;
	game = chosen;
	status = u_fork();
	if (status < 0) {
		game->rules->begin(game->setting);
		walk();
		u_exit(0);
	}
	if (status)
		say_path();
	u_say("%s %s: %lu steps, %lu ends, %llu orders%s, %ld s", status ? "FAIL" : "ok  ",
	      game->name, shared->steps, shared->ends, shared->orders,
	      shared->incomplete ? " (not all)" : "", u_seconds() - start);
	return !status;
}

static bool is_short(const struct game *one)
{
	const struct h_pairing *pairing = one->setting;

	return one->rules != &h_both_rules || (!pairing->longer && !pairing->random);
}

/* The settings with one role, and then those with both. */
static bool get(unsigned int i, struct game *found)
{
	const struct h_pairing *pairing;

	if (i < ARRAY_SIZE(settings)) {
		*found = (struct game) {
			settings[i].name, &settings[i], &h_client_rules, settings[i].prune,
		};
		return true;
	}
	pairing = &h_pairings[i - ARRAY_SIZE(settings)];
	*found = (struct game) { pairing->name, pairing, &h_both_rules, true };
	return pairing->name;
}

static struct game find(const char *name)
{
	struct game found;
	unsigned int i;

	for (i = 0; get(i, &found); i++)
		if (!strcmp(found.name, name))
			return found;
	u_fail("there is no setting %s", name);
}

/* Runs one order of events, and prints each event and the kernel's messages. */
static int replay(char **order, int count)
{
	struct game one = find(order[0]);

	u_watch();
	one.rules->begin(one.setting);
	for (order++, count--; count; order++, count--) {
		u_say("%s", *order);
		one.rules->event(*order);
	}
	one.rules->end();
	return 0;
}

int h_explore(int count, char **order, bool all)
{
	struct game one;
	unsigned int i;
	bool good = true;

	prune = !all;
	if (count > 1)
		return replay(order, count);
	h_quiet = true;
	shared = u_shared(sizeof(*shared));
	for (i = 0; get(i, &one); i++)
		if (count ? !strcmp(order[0], one.name) : is_short(&one))
			good = explore(&one, 0) && good;
	return !good;
}

/* --- Orders at random --- */

static u64 dice;

static unsigned int throw(unsigned int below)
{
	dice = dice * 6364136223846793005ull + 1442695040888963407ull;
	return (dice >> 33) % below;
}

/* Chooses an event. Faults, which have capital letters, are rarer than other events. */
static const char *choose(char events[H_EVENTS][H_EVENT_NAME], unsigned int n)
{
	unsigned int i, others = 0;

	for (i = 0; i < n; i++)
		others += events[i][0] >= 'a';
	for (;;) {
		const char *event = events[throw(n)];

		if (event[0] >= 'a' || !others || !throw(8))
			return event;
	}
}

/* Runs one order, in a child. The number of an order determines its events. */
static void run_at_random(u64 order)
{
	char events[H_EVENTS][H_EVENT_NAME];
	unsigned int n;

	dice = order * 0x9e3779b97f4a7c15ull;
	while ((n = game->rules->events(events))) {
		const char *event = choose(events, n);

		add_to_path(event);
		shared->steps++;
		game->rules->event(event);
	}
	game->rules->end();
}

/* Runs orders in children until the time is over. */
static void run_for(u64 first, unsigned int seconds)
{
	long end = u_seconds() + seconds;

	game->rules->begin(game->setting);
	for (; u_seconds() < end; first++) {
		int status;

		shared->depth = 0;
		status = u_fork();
		if (status < 0) {
			run_at_random(first);
			u_exit(0);
		}
		if (status)
			u_exit(status);
		shared->ends++;
	}
}

static bool random_orders(const struct game *one, unsigned int seed, unsigned int seconds)
{
	int status;

	memset(shared, 0, sizeof(*shared));
	game = one;
	status = u_fork();
	if (status < 0) {
		run_for((u64)seed << 32, seconds);
		u_exit(0);
	}
	if (status)
		say_path();
	u_say("%s %s: %lu steps, %lu orders at random, seed %u", status ? "FAIL" : "ok  ",
	      one->name, shared->steps, shared->ends, seed);
	return !status;
}

int h_explore_at_random(const char *name, unsigned int seed, unsigned int seconds)
{
	struct game one = find(name);

	h_quiet = true;
	shared = u_shared(sizeof(*shared));
	return !random_orders(&one, seed, seconds);
}

/* The number of settings whose orders are chosen at random. */
static unsigned int random_count(void)
{
	const struct h_pairing *pairing;
	unsigned int n = 0;

	for (pairing = h_pairings; pairing->name; pairing++)
		n += pairing->random;
	return n;
}

/* Seconds for all orders of a setting. */
#define LONGEST	120

int h_explore_long(unsigned int seed, unsigned int seconds)
{
	unsigned int share = seconds / random_count(), i;
	struct game one;
	bool good = true;

	h_quiet = true;
	prune = true;
	shared = u_shared(sizeof(*shared));
	for (i = 0; get(i, &one); i++) {
		const struct h_pairing *pairing = one.setting;

		if (is_short(&one))
			continue;
		good = (pairing->random ? random_orders(&one, seed, share) :
			explore(&one, LONGEST)) && good;
	}
	return !good;
}
