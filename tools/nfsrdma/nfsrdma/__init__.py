# SPDX-License-Identifier: GPL-2.0
"""The command ``nfsrdma``: shows connections of NFS over RDMA, and diagnoses problems.

It uses only the standard library of Python, and reads the output of the kernel module, the kernel
and the tools of iproute2. It does not need the sources of the module.
"""
