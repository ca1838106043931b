// SPDX-License-Identifier: GPL-2.0
/*
 * Lengthens the window of a race: insmod lab_slow.ko microseconds=300
 *
 * When SUNRPC ends a call without a reply, it takes the call off its queues
 * first and releases the memory a little later. A reply in between finds no
 * call, although the memory is still registered. While this module is loaded,
 * that window is longer by this time for every call that has failed.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/xprt.h>
#include <linux/tracepoint.h>

static unsigned int microseconds = 300;
module_param(microseconds, uint, 0);
MODULE_PARM_DESC(microseconds, "how much longer that takes");

static unsigned int slowed;
module_param(slowed, uint, 0444);
MODULE_PARM_DESC(slowed, "how many calls it took longer");

static struct tracepoint *released;

/* xprt_release_cong fires when a call has left the queues, and after each transmission. */
static void on_release(void *unused, struct rpc_xprt *xprt, struct rpc_task *task)
{
	if (!task || task->tk_rpc_status >= 0 || !task->tk_rqstp)
		return;
	slowed++;
	/* Lets other emulated processors run meanwhile. */
	udelay(microseconds);
}

static void look_at(struct tracepoint *one, void *unused)
{
	if (!strcmp(one->name, "xprt_release_cong"))
		released = one;
}

static int __init lab_slow_init(void)
{
	for_each_kernel_tracepoint(look_at, NULL);
	return released ? tracepoint_probe_register(released, on_release, NULL) : -ENOENT;
}
module_init(lab_slow_init);

static void __exit lab_slow_exit(void)
{
	tracepoint_probe_unregister(released, on_release, NULL);
	tracepoint_synchronize_unregister();
}
module_exit(lab_slow_exit);

MODULE_DESCRIPTION("Slows the end of failed RPCs down for the lab");
MODULE_LICENSE("GPL");
