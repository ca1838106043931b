// SPDX-License-Identifier: GPL-2.0
/*
 * The responder's operations of version two: the size of the module's Receives, and of its own
 * (draft-dnoveck-nfsv4-rpcrdma-xcharext-01). Each posted Receive must have the size that the module
 * has announced. It does not answer the module's requests.
 */
#include "wire.h"

enum { INIT = 1, REQUEST, RESPONSE, UPDATE };
enum { CALL, REPLY };
#define RECEIVE_BUFFER_SIZE	1

unsigned int h_two_done;

void h_two_check(const struct h_qp *qp, const struct h_wr *wr)
{
	if (wr->len && wr->len < qp->announced)
		h_violation("a Receive has %u bytes, and %u are announced", wr->len, qp->announced);
}

static void announced(struct h_qp *qp, u32 size)
{
	struct h_wr *wr;

	qp->announced = size;
	list_for_each_entry(wr, &qp->rq, list)
		h_two_check(qp, wr);
}

/*
 * Reads a characteristic. All those that the module sends have four bytes. Returns the value if it
 * is a size of Receives, or 0.
 */
static u32 characteristic(struct h_cursor *cursor)
{
	u32 id = h_word(cursor), len = h_word(cursor), value = h_word(cursor);

	h_expect(len == 4, "violation: characteristic %u has %u bytes", id, len);
	return id == RECEIVE_BUFFER_SIZE ? value : 0;
}

static void announcement(struct h_qp *qp, struct h_cursor *cursor)
{
	u32 size = characteristic(cursor);

	if (size)
		announced(qp, size);
}

/* Notes for how large Receives the module asks. It may send no longer message from now on. */
static void request(struct h_qp *qp, struct h_cursor *cursor)
{
	u32 count;

	for (count = h_word(cursor); count; count--)
		qp->asked = characteristic(cursor) ?: qp->asked;
}

static void skip_subset(struct h_cursor *cursor)
{
	u32 count = h_word(cursor);

	while (count--)
		h_word(cursor);
}

/* Reads the answer to h_two_ask(): three subsets of the only element of the request. */
static void response(struct h_cursor *cursor)
{
	if (h_word(cursor))
		h_two_done += h_word(cursor) == 1;
	skip_subset(cursor);
	skip_subset(cursor);
}

static void operation(struct h_qp *qp, struct h_cursor *cursor, u32 type)
{
	u32 count;

	switch (type) {
	case INIT:
		for (count = h_word(cursor); count; count--)
			announcement(qp, cursor);
		return skip_subset(cursor);
	case REQUEST:
		return request(qp, cursor);
	case RESPONSE:
		return response(cursor);
	case UPDATE:
		announcement(qp, cursor);
		h_word(cursor);
		return;
	default:
		h_violation("the module sends operation %u", type);
	}
}

void h_two_receive(struct h_qp *qp, struct h_cursor *cursor)
{
	u32 direction = h_word(cursor), type = h_word(cursor), len = h_word(cursor);

	h_expect(direction == (type == RESPONSE ? REPLY : CALL),
		 "violation: operation %u has direction %u", type, direction);
	h_expect(len == cursor->left, "violation: operation %u has %u bytes, not %u", type,
		 cursor->left, len);
	operation(qp, cursor, type);
	h_expect(!cursor->left, "violation: operation %u has %u bytes too many", type,
		 cursor->left);
}

void h_two_ask(u32 size)
{
	const u32 words[] = {
		0x5150, 2, h_grant, H_TWO_OPTIONAL, CALL, REQUEST, 16,
		1, RECEIVE_BUFFER_SIZE, 4, size,
	};

	h_arrive_words(h_qp, words, ARRAY_SIZE(words));
}
