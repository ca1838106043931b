# SPDX-License-Identifier: GPL-2.0
"""The command ``nfsrdma``: shows connections of NFS over RDMA, and diagnoses problems.

It uses only the standard library of Python, and reads what the kernel module, the kernel and the
tools of iproute2 show. Nothing here needs the sources of the module.
"""
