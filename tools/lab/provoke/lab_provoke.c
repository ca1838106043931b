// SPDX-License-Identifier: GPL-2.0
/*
 * Provokes one real kernel report on load, for the scenarios that test the lab's
 * detector: insmod lab_provoke.ko report=warn|lockdep|atomic|kasan|leak|dma
 *
 * report=churn provokes no report. It makes the allocator of this processor drop
 * the pointers to the memory that it handed out last: the allocator keeps them in
 * its sheaves, and kmemleak takes them for references to memory that is lost.
 *
 * The load always fails with -EAGAIN: there is nothing to keep, and the same
 * report can be asked for again.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *report = "warn";
module_param(report, charp, 0);
MODULE_PARM_DESC(report, "warn, lockdep, atomic, kasan, leak, dma or churn");

static DEFINE_SPINLOCK(lab_first);
static DEFINE_SPINLOCK(lab_second);

static int provoke_lockdep(void)
{
	spin_lock(&lab_first);
	spin_lock(&lab_second);
	spin_unlock(&lab_second);
	spin_unlock(&lab_first);

	/* The other order: with a second CPU this could be a deadlock. */
	spin_lock(&lab_second);
	spin_lock(&lab_first);
	spin_unlock(&lab_first);
	spin_unlock(&lab_second);
	return 0;
}

static int provoke_atomic(void)
{
	spin_lock(&lab_first);
	might_sleep();
	spin_unlock(&lab_first);
	return 0;
}

static int provoke_kasan(void)
{
	char *freed = kmalloc(64, GFP_KERNEL);

	if (!freed)
		return -ENOMEM;
	kfree(freed);
	return READ_ONCE(freed[3]) == 42;
}

static int provoke_leak(void)
{
	int i;

	for (i = 0; i < 16; i++)
		if (!kmalloc(200, GFP_KERNEL))
			return -ENOMEM;
	return 0;
}

/* More objects than the sheaves of a processor keep of any size. */
#define CHURNED 512

static int churn(void)
{
	static const unsigned int sizes[] = {
		8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192
	};
	void **kept = kvcalloc(CHURNED, sizeof(*kept), GFP_KERNEL);
	int size, i;

	if (!kept)
		return -ENOMEM;
	for (size = 0; size < ARRAY_SIZE(sizes); size++) {
		for (i = 0; i < CHURNED; i++)
			kept[i] = kmalloc(sizes[size], GFP_KERNEL);
		for (i = 0; i < CHURNED; i++)
			kfree(kept[i]);
	}
	kvfree(kept);
	return 0;
}

static int provoke_dma(void)
{
	struct pci_dev *device = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, NULL);

	if (!device)
		return -ENODEV;
	/* This address was never mapped. */
	dma_unmap_single(&device->dev, 0x1000, 64, DMA_TO_DEVICE);
	pci_dev_put(device);
	return 0;
}

static int __init lab_provoke_init(void)
{
	int err = -EINVAL;

	if (!strcmp(report, "warn"))
		err = !WARN(1, "provoked by the lab\n");
	else if (!strcmp(report, "lockdep"))
		err = provoke_lockdep();
	else if (!strcmp(report, "atomic"))
		err = provoke_atomic();
	else if (!strcmp(report, "kasan"))
		err = provoke_kasan();
	else if (!strcmp(report, "leak"))
		err = provoke_leak();
	else if (!strcmp(report, "dma"))
		err = provoke_dma();
	else if (!strcmp(report, "churn"))
		err = churn();
	return err < 0 ? err : -EAGAIN;
}
module_init(lab_provoke_init);

MODULE_DESCRIPTION("Provokes kernel reports for the lab's detector");
MODULE_LICENSE("GPL");
