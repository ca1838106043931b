# SPDX-License-Identifier: GPL-2.0
"""Make a distribution's installed kernel headers fit for out-of-tree Rust modules.

Debian's kernels have CONFIG_RUST=y, but their header packages carry nothing of
`rust/`. Built again from the same source, with the same configuration and the
same compilers, the kernel's Rust crates get the very symbol names the running
image exports; this package does that, proves it, and installs the metadata.

Standard library only: it runs inside DKMS on a user's machine.
"""
