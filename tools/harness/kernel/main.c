// SPDX-License-Identifier: GPL-2.0
/* The program's commands. The Python package in tools/harness/harness/ calls them. */
#include <linux/kernel.h>
#include "harness.h"

static const struct h_scenario *find(const struct h_scenario *in, const char *name)
{
	for (; in->name; in++)
		if (!strcmp(in->name, name))
			return in;
	return NULL;
}

static int run_scenario(const char *name)
{
	const struct h_scenario *found = find(h_scenarios, name) ?: find(h_fault_scenarios, name);

	found = found ?: find(h_growth_scenarios, name);
	h_expect(found, "there is no scenario %s", name);
	found->run();
	return 0;
}

static void list(const struct h_scenario *scenarios)
{
	for (; scenarios->name; scenarios++)
		u_say("%s", scenarios->name);
}

static unsigned int number(const char *text)
{
	unsigned int n = 0;

	while (*text >= '0' && *text <= '9')
		n = n * 10 + *text++ - '0';
	return n;
}

int k_main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "list")) {
		list(h_scenarios);
		list(h_fault_scenarios);
		list(h_growth_scenarios);
		return 0;
	}
	if (!strcmp(what, "kinds")) {
		h_bench_list();
		return 0;
	}
	if (!strcmp(what, "run") && argc == 3)
		return run_scenario(argv[2]);
	if (!strcmp(what, "bench") && argc == 4)
		return h_bench(argv[2], number(argv[3]));
	if (!strcmp(what, "explore"))
		return h_explore(argc - 2, argv + 2, false);
	if (!strcmp(what, "explore-all"))
		return h_explore(argc - 2, argv + 2, true);
	if (!strcmp(what, "random") && argc == 5)
		return h_explore_at_random(argv[2], number(argv[3]), number(argv[4]));
	if (!strcmp(what, "long") && argc == 4)
		return h_explore_long(number(argv[2]), number(argv[3]));
	u_fail("usage: list | run SCENARIO | kinds | bench KIND COUNT | "
	       "explore[-all] [SETTING [EVENT...]] | "
	       "random SETTING SEED SECONDS | long SEED SECONDS");
}
