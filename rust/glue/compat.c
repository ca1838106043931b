// SPDX-License-Identifier: GPL-2.0
/*
 * The C part of rust/compat/. The Kbuild compiles this file for kernels before 7.3 only.
 */
#include <linux/moduleparam.h>
#include <rpcrdma/glue_compat.h>

bool rr_completion_workqueue = true;
module_param_named(completion_workqueue, rr_completion_workqueue, bool, 0);
MODULE_PARM_DESC(completion_workqueue,
		 "Handle replies on rpcrdma_completion, not on ib-comp-wq (default: yes)");
