/* SPDX-License-Identifier: GPL-2.0 */
/* Declares the settings whose orders of events explore.c runs. harness.h includes this header. */
#ifndef HARNESS_SCHEDULE_H
#define HARNESS_SCHEDULE_H

#define H_RPCS 3

/* A set of RPCs that are in flight together, and the events that may occur. */
struct h_setting {
	const char *name;
	unsigned int count;
	enum h_kind_number kinds[H_RPCS];
	enum h_invalidate how[H_RPCS];
	bool either;		/* each reply may invalidate remotely, or not */
	bool again;		/* each reply may come twice */
	bool anew;		/* each call may be retransmitted once, as for NFSv3 */
	bool disconnect;	/* the connection may be lost, once */
	bool at_once;		/* a message is handled when it arrives */
	bool slow;		/* the driver sleeps while it maps a region */
	bool prune;		/* equal states are followed once, but not by explore-all */
};

#define H_EVENTS 48
#define H_EVENT_NAME 4

/* How the events of a setting are found, and occur. */
struct h_rules {
	void (*begin)(const void *setting);
	/* Writes the names of the events that may occur next. Returns their number. */
	unsigned int (*events)(char names[H_EVENTS][H_EVENT_NAME]);
	void (*event)(const char *name);
	/* Lets all RPCs end, and checks that nothing is left. */
	void (*end)(void);
	/* Returns a hash of the state. */
	u64 (*look)(void);
};

extern const struct h_rules h_client_rules;

#endif /* HARNESS_SCHEDULE_H */
