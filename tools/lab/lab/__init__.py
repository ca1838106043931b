# SPDX-License-Identifier: GPL-2.0
"""The lab of rpcrdma.ko: kernels, guest images, virtual machines and scenarios.

The lab sees the module only as a user does: mounts, counters, tracepoints and
packets. It needs nothing but Debian's own tools and the standard library, so
that ``python3 -m lab deps`` works on a machine where nothing is installed yet.
"""
