# SPDX-License-Identifier: GPL-2.0
"""Builds and runs the module's object in a program that replaces the kernel.

See Documentation/harness.rst.
"""
