/* SPDX-License-Identifier: GPL-2.0 */
/* What bpftrace takes from a kernel's BTF where there is one. The lab's kernels have none. */
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
