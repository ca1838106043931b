// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer's inputs. A target prepares the module once. An input begins there: its bytes name the
 * events, and the bytes of messages. Then everything ends, and nothing may be left. user/engine.c
 * has the state of the beginning copied back.
 */
#include "fuzz.h"

/* Longer inputs have no further effects. */
#define MOST_EVENTS	96

struct h_cursor h_input;
int k_fuzz_happens;
static const struct h_target *target;
static bool loud;

void k_fuzz_loud(void)
{
	loud = true;
	h_quiet = false;
}

void h_event(const char *format, ...)
{
	va_list list;

	if (!loud)
		return;
	va_start(list, format);
	u_say_list(format, list);
	va_end(list);
}

u8 h_input_byte(void)
{
	if (!h_input.left)
		return 0;
	h_input.left--;
	return *h_input.p++;
}

u32 h_input_below(u32 limit)
{
	return h_input_byte() % limit;
}

u32 h_input_word(void)
{
	u32 high = h_input_byte() << 8 | h_input_byte();

	return high << 16 | h_input_byte() << 8 | h_input_byte();
}

u32 h_input_number(void)
{
	u8 first = h_input_byte();

	if (first < 160)
		return first;
	if (first < 224)
		return (1u << (first % 32)) + h_input_byte() % 8 - 4;
	return h_input_word();
}

static const struct h_target *find(const struct h_target *in, const char *name)
{
	for (; in->name; in++)
		if (!strcmp(in->name, name))
			return in;
	return NULL;
}

static void choose(const char *name)
{
	target = find(h_client_targets, name) ?: find(h_server_targets, name);
	h_expect(target, "there is no target %s", name);
}

void k_fuzz_list(const char *name)
{
	unsigned int i;

	choose(name);
	for (i = 0; i < target->count; i++)
		u_say("%s", target->events[i].name);
}

void k_fuzz_begin(const char *name)
{
	choose(name);
	h_quiet = !loud;
	h_hostile = true;
	h_fuzzed = true;
	target->begin();
}

void k_fuzz_input(const u8 *bytes, unsigned long size)
{
	unsigned int i;

	h_input = (struct h_cursor) { bytes, size };
	k_fuzz_happens = true;
	for (i = 0; i < MOST_EVENTS && h_input.left; i++) {
		target->events[h_input_below(target->count)].happen();
		h_settle();
	}
	k_fuzz_happens = false;
	h_event("the end");
	h_fuzz_mend();
	target->end();
}
