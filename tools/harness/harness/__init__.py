# SPDX-License-Identifier: GPL-2.0
"""The module's own object, linked into a program that stands in for the kernel.

See Documentation/harness.rst.
"""
