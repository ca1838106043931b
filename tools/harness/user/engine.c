// SPDX-License-Identifier: GPL-2.0
/*
 * Runs inputs: of libFuzzer, or from files. Only the fuzzer's program has this file and libFuzzer.
 * The module alone is compiled with coverage.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../user.h"

#define LONGEST	(1 << 16)

int LLVMFuzzerRunDriver(int *argc, char ***argv,
			int (*one)(const uint8_t *bytes, size_t size));

/* A counter for each block of the module, and the block's address and kind. */
extern unsigned char __start___sancov_cntrs[], __stop___sancov_cntrs[];

struct place {
	uintptr_t address, flags;	/* bit 0 of flags: the entry of a function */
};

extern const struct place __start___sancov_pcs[];

static unsigned char *reached;

static size_t places(void)
{
	return __stop___sancov_cntrs - __start___sancov_cntrs;
}

/* Notes what has been reached since the last call. */
static void note(void)
{
	size_t i;

	for (i = 0; i < places(); i++)
		reached[i] |= !!__start___sancov_cntrs[i];
	memset(__start___sancov_cntrs, 0, places());
}

/*
 * libFuzzer puts numbers that were compared into later inputs, from two tables of the 32 that came
 * last. It gets those that the events of some inputs lead to. The end of an input, which is always
 * the same, would fill the tables with its own.
 */
#define EACH	4

static int traced;

#define TRACE(name, type)							\
	void __real___sanitizer_cov_trace_##name(type a, type b);		\
	void __wrap___sanitizer_cov_trace_##name(type a, type b);		\
	void __wrap___sanitizer_cov_trace_##name(type a, type b)		\
	{									\
		if (__builtin_expect(traced && k_fuzz_happens, 0))		\
			__real___sanitizer_cov_trace_##name(a, b);		\
	}

TRACE(cmp1, uint8_t)
TRACE(cmp2, uint16_t)
TRACE(cmp4, uint32_t)
TRACE(cmp8, uint64_t)
TRACE(const_cmp1, uint8_t)
TRACE(const_cmp2, uint16_t)
TRACE(const_cmp4, uint32_t)
TRACE(const_cmp8, uint64_t)

static int run(const uint8_t *bytes, size_t size)
{
	static unsigned long count;

	traced = count++ % EACH == 0;
	k_fuzz_input(bytes, size);
	u_restore();
	return 0;
}

static void run_file(const char *directory, const char *name)
{
	static uint8_t bytes[LONGEST];
	char path[4096];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", name);
	file = fopen(path, "rb");
	if (!file)
		u_fail("%s cannot be read", path);
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	run(bytes, size);
	u_check_restored();
	/* A counter that is not read for long returns to zero. */
	note();
}

static void run_directory(const char *directory)
{
	DIR *all = opendir(directory);
	struct dirent *one;

	if (!all)
		u_fail("%s cannot be read", directory);
	while ((one = readdir(all)))
		if (one->d_name[0] != '.')
			run_file(directory, one->d_name);
	closedir(all);
}

/* Runs the inputs in a directory. Prints the address of each block, its kind, if it was reached. */
static int cover(const char *directory)
{
	size_t i;

	run_directory(directory);
	for (i = 0; i < places(); i++)
		printf("%#lx %lu %u\n", __start___sancov_pcs[i].address,
		       __start___sancov_pcs[i].flags & 1, reached[i]);
	return 0;
}

int u_fuzz(int argc, char **argv)
{
	const char *what = argv[1], *target = argv[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "events"))
		return k_fuzz_list(target), 0;
	if (!strcmp(what, "replay"))
		k_fuzz_loud();
	k_fuzz_begin(target);
	reached = calloc(places(), 1);
	note();
	printf("%s: %lu bytes of state\n", target, u_snapshot());
	if (!strcmp(what, "replay") && argc == 4)
		return run_file("", argv[3]), 0;
	if (!strcmp(what, "cover") && argc == 4)
		return cover(argv[3]);
	if (strcmp(what, "fuzz"))
		u_fail("usage: events TARGET | fuzz TARGET OPTIONS... | replay TARGET FILE | "
		       "cover TARGET DIRECTORY");
	u_abort_on_failure();
	argc -= 2;
	argv += 2;
	return LLVMFuzzerRunDriver(&argc, &argv, run);
}
