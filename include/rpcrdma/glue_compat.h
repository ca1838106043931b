/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/glue/compat.c defines for kernels before 7.3.
 */
#ifndef _RPCRDMA_GLUE_COMPAT_H
#define _RPCRDMA_GLUE_COMPAT_H

#include <linux/types.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)
/* The parameter "completion_workqueue". */
extern bool rr_completion_workqueue;
#endif

#endif /* _RPCRDMA_GLUE_COMPAT_H */
