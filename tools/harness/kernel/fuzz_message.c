// SPDX-License-Identifier: GPL-2.0
/* The fuzzer's messages: correct ones that are changed, lists of words, and mere bytes. */
#include "fuzz.h"

#define MOST_CHANGES	4
#define MOST_WORDS	24
#define MOST_BYTES	160

enum change { WORD, BYTE, CUT, LONGER, MOST_KINDS };

bool h_fuzz_two;

/* A change of a message, as the input demands it. */
static struct {
	enum change kind;
	u32 at, value;
} changes[MOST_CHANGES];
static unsigned int count;

static u32 change_one(u8 *message, u32 len, enum change kind, u32 at, u32 value)
{
	switch (kind) {
	case WORD:
		if (at * 4 + 4 <= len)
			put_unaligned_be32(value, message + at * 4);
		return len;
	case BYTE:
		if (at < len)
			message[at] = value;
		return len;
	case CUT:
		return min(len, at);
	default:
		return len;
	}
}

/* Gives a message of version one the header of version two, which has a word more. */
static u32 to_two(u8 *message, u32 len)
{
	if (len < 16 || len > 4000 || get_unaligned_be32(message + 4) != 1)
		return len;
	put_unaligned_be32(2, message + 4);
	memmove(message + 20, message + 16, len - 16);
	put_unaligned_be32(0, message + 16);
	return len + 4;
}

static u32 alter(u8 *message, u32 len)
{
	unsigned int i;

	h_alter = NULL;
	if (h_fuzz_two && h_qp->passive)
		len = to_two(message, len);
	for (i = 0; i < count; i++)
		len = change_one(message, len, changes[i].kind, changes[i].at, changes[i].value);
	return len;
}

void h_message_alter(void)
{
	unsigned int i;

	count = h_input_below(MOST_CHANGES + 1);
	for (i = 0; i < count; i++) {
		changes[i].kind = h_input_below(LONGER);
		changes[i].at = h_input_byte();
		changes[i].value = changes[i].kind == CUT ? 0 : h_input_number();
		h_event("  changed: %s %u, %#x", changes[i].kind == WORD ? "word" :
			changes[i].kind == BYTE ? "byte" : "cut at", changes[i].at,
			changes[i].value);
	}
	h_alter = alter;
}

void h_message_two(void)
{
	count = 0;
	h_alter = alter;
}

/* The next message that is made up invalidates a region; its number plus one. */
static u32 invalidates;

void h_message_invalidates(void)
{
	invalidates = 1 + h_input_byte();
	h_event("the next message invalidates region %u", invalidates - 1);
}

static void arrive(const u8 *message, u32 len)
{
	u32 key = invalidates ? h_mr_nth(h_qp, invalidates - 1) : 0;

	invalidates = 0;
	h_arrive(h_qp, message, len, key);
}

void h_message_words(u32 xid)
{
	u32 n = h_input_below(MOST_WORDS), i;
	u8 message[4 * MOST_WORDS + 4];
	struct h_writer out = { message };

	h_put(&out, xid);
	for (i = 0; i < n; i++)
		h_put(&out, h_input_number());
	h_event("a message: XID %#x, %u words", xid, n);
	arrive(message, out.len);
}

void h_message_bytes(void)
{
	u32 n = h_input_below(MOST_BYTES), i;
	u8 message[MOST_BYTES];

	for (i = 0; i < n; i++)
		message[i] = h_input_byte();
	h_event("a message: %u bytes", n);
	arrive(message, n);
}
