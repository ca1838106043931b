/* SPDX-License-Identifier: GPL-2.0 */
/* A peer that breaks the protocol, which the fuzzer needs. harness.h includes this header. */
#ifndef HARNESS_HOSTILE_H
#define HARNESS_HOSTILE_H

/*
 * The peer may break the protocol: what is a violation elsewhere ends the connection, or is
 * ignored, as the device or a real peer does. The module's own conduct is checked as elsewhere.
 */
extern bool h_hostile;
extern bool h_fuzzed;	/* the peer has been hostile before */

/* Changes a message in the Receive that takes it, if not NULL. Returns its new length. */
extern u32 (*h_alter)(u8 *message, u32 len);

/* Notes that the peer has invalidated a key; returns whether it has. */
void h_mr_given_up(const struct h_qp *qp, u32 key);
bool h_mr_is_given_up(const struct h_qp *qp, u32 key);

/* The requester has no call any more. */
void h_requester_reset(void);
/* Gives one of its two pieces of memory to a call that it does not encode itself. */
u64 h_requester_expose(u32 which, u32 readable, u32 writable, u32 *key);

#endif /* HARNESS_HOSTILE_H */
