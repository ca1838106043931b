// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a siw device such that mapping memory sleeps, as the driver of
 * HiSilicon's hns does: insmod lab_sleepy.ko microseconds=200
 *
 * The device also has that driver's number, by which a consumer knows. A
 * consumer that maps memory in atomic context gets a report of the kernel.
 * rxe does not work with another number: it finds its devices by their own.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

static unsigned int microseconds = 200;
module_param(microseconds, uint, 0);
MODULE_PARM_DESC(microseconds, "how long mapping sleeps");

static atomic_t mapped = ATOMIC_INIT(0);
module_param_named(mapped, mapped.counter, int, 0444);
MODULE_PARM_DESC(mapped, "how often memory was mapped");

/* The guests have one kind of device. */
static int (*map)(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset);
static enum rdma_driver_id driver;

static int map_slowly(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
		      unsigned int *sg_offset)
{
	might_sleep();
	usleep_range(microseconds, 2 * microseconds);
	atomic_inc(&mapped);
	return map(mr, sg, sg_nents, sg_offset);
}

static int on_add(struct ib_device *device)
{
	if (!device->ops.map_mr_sg || (map && map != device->ops.map_mr_sg))
		return -EOPNOTSUPP;
	map = device->ops.map_mr_sg;
	driver = device->ops.driver_id;
	device->ops.driver_id = RDMA_DRIVER_HNS;
	WRITE_ONCE(device->ops.map_mr_sg, map_slowly);
	return 0;
}

static void on_remove(struct ib_device *device, void *unused)
{
	WRITE_ONCE(device->ops.map_mr_sg, map);
	device->ops.driver_id = driver;
}

static struct ib_client client = {
	.name = "lab_sleepy",
	.add = on_add,
	.remove = on_remove,
};

static int __init lab_sleepy_init(void)
{
	return ib_register_client(&client);
}
module_init(lab_sleepy_init);

/* Nothing may be mapping memory. */
static void __exit lab_sleepy_exit(void)
{
	ib_unregister_client(&client);
}
module_exit(lab_sleepy_exit);

MODULE_DESCRIPTION("Makes mapping of memory for RDMA sleep, for the lab");
MODULE_LICENSE("GPL");
