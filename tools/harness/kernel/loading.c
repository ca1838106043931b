// SPDX-License-Identifier: GPL-2.0
/* Scenarios of a module whose initialisation fails after others could use it. */
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/xprt.h>
#include "harness.h"

int register_class_in_sunrpc(struct svc_xprt_class *class) __asm__("__real_svc_reg_xprt_class");
int register_class(struct svc_xprt_class *class) __asm__("__wrap_svc_reg_xprt_class");

/* The server class of another module, which has the name of this module's. */
static struct svc_xprt_class other = { .xcl_name = "rdma" };
static bool mount_first;

/* Mounts in front of the registration, if the scenario demands it. */
int register_class(struct svc_xprt_class *class)
{
	if (mount_first) {
		mount_first = false;
		h_make_xprt(NULL);
	}
	return register_class_in_sunrpc(class);
}

static int load_beside_other(void)
{
	h_expect(!register_class_in_sunrpc(&other), "the name of the server class is taken");
	return h_insmod();
}

/* The module does not start, and leaves nothing behind. */
void h_class_refused(void)
{
	int error = load_beside_other();

	h_expect(error == -EBUSY, "the module starts beside another server: %d", error);
	h_check_nothing_left();
}

/*
 * Another process has mounted before the server class is refused. The kernel frees a module that
 * does not start, with the code of that transport, so the module starts without a server.
 */
void h_class_refused_mounted(void)
{
	int error;

	mount_first = true;
	error = load_beside_other();
	h_expect(h_xprt, "there is no transport");
	h_expect(!error, "the module goes although a transport exists: %d", error);
	h_end();
}
