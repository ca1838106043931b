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
/* Returns the key of the n-th region that the peer can use, in turn; 0: there is none. */
u32 h_mr_nth(const struct h_qp *qp, u32 n);
bool h_mr_is_given_up(const struct h_qp *qp, u32 key);

/* Returns whether a message with this XID has arrived, or may have; over any connection. */
bool h_heard(const struct h_qp *qp, u32 xid);
bool h_heard_anywhere(u32 xid);

/* The requester has no call any more. */
void h_requester_reset(void);
/*
 * It sends a message, and no longer vouches for other calls with the same XID, nor for calls whose
 * memory the message names: the server may read a call there, or write.
 */
void h_requester_doubt(const struct h_qp *qp, const u8 *message, u32 len);
/* Whether a call is as it should be, and so its arguments and payload are right. */
bool h_vouched(u32 xid);
/* The segments of each chunk of its calls; 0: one. */
extern u32 h_split;
/* Gives one of its pieces of memory, with zeros, to a call that it does not encode itself. */
u64 h_requester_expose(u32 which, u32 readable, u32 writable, u32 *key);

/* The next queue pair after one, of all that there are, or after the last one the first. */
struct h_qp *h_qp_next(struct h_qp *qp);
/* The handler of a completion is running, perhaps in a thread that drains a queue pair. */
extern bool h_completing;
/* Writes the usual limits of a device. */
void h_device_attributes(struct ib_device_attr *attrs);
/* The number of threads of the service is being changed. */
extern bool h_threads_change;

#endif /* HARNESS_HOSTILE_H */
