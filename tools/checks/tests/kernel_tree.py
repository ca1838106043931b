# SPDX-License-Identifier: GPL-2.0
"""A kernel tree for Rust modules, and the tools that built it; all are artificial."""

import shutil
import tempfile
import unittest
from pathlib import Path

CONFIG = """\
CONFIG_RUST=y
CONFIG_RUSTC_VERSION_TEXT="rustc 1.96.0 (abc)"
CONFIG_CC_IS_CLANG=y
CONFIG_MODULES=y
CONFIG_INFINIBAND=m
CONFIG_INFINIBAND_ADDR_TRANS=y
CONFIG_MODULE_UNLOAD=y
CONFIG_SUNRPC=y
CONFIG_SUNRPC_BACKCHANNEL=y
CONFIG_SYSCTL=y
CONFIG_SUNRPC_XPRT_RDMA=m
"""
MIN_VERSIONS = "case $1 in rustc) echo 1.85.0;; bindgen) echo 0.71.1;; llvm) echo 17.0.1;; esac\n"


class KernelTree(unittest.TestCase):
    """Creates a complete tree, built with clang, and its tools."""

    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="preflight-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.tree = self.dir / "tree"
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        for path, text in (
            ("Makefile", ""),
            (".config", CONFIG),
            ("scripts/min-tool-version.sh", MIN_VERSIONS),
            ("scripts/rust_is_available_bindgen_libclang.h", ""),
            ("include/generated/autoconf.h", ""),
            ("rust/libkernel.rmeta", ""),
        ):
            self.file(path, text)
        for tool in ("sh", "sed", "awk", "grep", "head", "cat"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.sysroot = self.dir / "sysroot"
        self.core = self.sysroot / "lib/rustlib/src/rust/library/core/src/lib.rs"
        self.core.parent.mkdir(parents=True)
        self.core.touch()
        self.rustc("rustc 1.96.0 (abc)")
        self.bindgen("0.73.0", "19.1.7")
        self.tool("rustfmt", "echo rustfmt 1.8.0")
        self.tool("clang-19", "")
        self.tool("ld.lld-19", "")
        self.release("trixie")

    def file(self, path, text):
        to = self.tree / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)

    def tool(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def rustc(self, version):
        self.tool("rustc", f'[ "$1" = --version ] && echo "{version}" || echo {self.sysroot}')

    def bindgen(self, version, libclang):
        self.tool(
            "bindgen",
            f"""[ "$1" = --version ] && echo bindgen {version} && exit
            echo "{self.tree}/x.h:2:9: warning: clang version {libclang} [-W#pragma-messages]" >&2
            """,
        )

    def release(self, codename):
        (self.dir / "os-release").write_text(f"VERSION_CODENAME={codename}\n")
