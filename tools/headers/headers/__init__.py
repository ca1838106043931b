# SPDX-License-Identifier: GPL-2.0
"""Prepares a distribution's installed kernel headers for out-of-tree Rust modules.

Debian's kernels have CONFIG_RUST=y, but their header packages contain nothing of `rust/`. A build
of the kernel's Rust crates from the same source, with the same configuration and the same
compilers, has the same symbol names as the running image. This package makes that build, verifies
it, and installs the metadata.

It uses only the standard library, because it runs inside DKMS on a user's machine.
"""
