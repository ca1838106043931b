# SPDX-License-Identifier: GPL-2.0
"""Tests dkms.conf: what DKMS does for a kernel, by the tree that the kernel's modules have."""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

from kernel_tree import CONFIG, KernelTree

TOP = Path(__file__).resolve().parents[3]
CONF = TOP / "dkms.conf"
RELEASE = "7.3.4-own"

# DKMS sources the file with these variables, and skips a release that the pattern does not match.
SOURCE = """
kernelver=$1 kernel_source_dir=$2
unset PRE_BUILD BUILD_EXCLUSIVE_KERNEL
. "$3" >/dev/null
[[ $BUILD_EXCLUSIVE_KERNEL && ! $1 =~ $BUILD_EXCLUSIVE_KERNEL ]] && echo skipped
echo "$PRE_BUILD"
"""


class Dkms(KernelTree):
    """Each test changes the tree of a kernel that was built on this machine."""

    def setUp(self):
        super().setUp()
        for name in ("dirname", "ls", "sort", "tr"):
            (self.bin / name).symlink_to(shutil.which(name))
        for name in ("clang", "ld.lld"):
            self.tool(name, "")
        self.environment = {"PATH": str(self.bin), "HOME": str(self.dir)}

    def plan(self, reason=""):
        """Returns whether DKMS skips the kernel, and what it runs before a build.

        A kernel is skipped for a reason, and DKMS shows the line that has it.
        """
        command = ["/bin/bash", "-c", SOURCE, "-", RELEASE, self.tree, CONF]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn(reason, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1 if reason else 0, done.stderr)
        *skipped, before = done.stdout.splitlines()
        return bool(skipped), before

    def test_own_kernel(self):
        self.assertEqual(self.plan(), (False, ""))

    def test_own_kernel_of_gcc(self):
        self.file(".config", CONFIG.replace("CC_IS_CLANG", "CC_IS_GCC"))
        self.tool("gcc", "")
        for name in ("clang", "ld.lld"):
            (self.bin / name).unlink()
        self.assertEqual(self.plan(), (False, ""))

    def test_headers_of_debian(self):
        (self.tree / ".kernelvariables").touch()
        shutil.rmtree(self.tree / "rust")
        self.rustc("rustc 1.95.0 (abc)")
        self.assertEqual(self.plan(), (False, f"tools/prepare-headers {RELEASE}"))

    def test_headers_of_own_kernel(self):
        """Those that the kernel's makefiles pack have neither a configuration nor metadata."""
        (self.tree / ".config").unlink()
        shutil.rmtree(self.tree / "rust")
        self.assertEqual(self.plan("no .config"), (True, ""))

    def test_own_kernel_that_is_not_prepared(self):
        (self.tree / "rust/libkernel.rmeta").unlink()
        self.assertEqual(self.plan("no rust/libkernel.rmeta"), (True, ""))

    def test_own_kernel_with_stock_built_in(self):
        self.file(".config", CONFIG.replace("SUNRPC_XPRT_RDMA=m", "SUNRPC_XPRT_RDMA=y"))
        self.assertEqual(self.plan("built in"), (True, ""))

    def test_own_kernel_of_another_rustc(self):
        """It was built on another machine, or the compiler was replaced."""
        built = 'CONFIG_RUSTC_VERSION_TEXT="rustc 1.97.0 (def)"'
        self.file(".config", re.sub("CONFIG_RUSTC_VERSION_TEXT=.*", built, CONFIG))
        self.assertEqual(self.plan("built with 'rustc 1.97.0 (def)', but"), (True, ""))
        self.environment["RUSTC"] = str(self.dir / "rustc")
        (self.bin / "rustc").rename(self.dir / "rustc")
        self.assertEqual(self.plan("'rustc 1.96.0 (abc)': set RUSTC="), (True, ""))

    def test_own_kernel_without_its_compilers(self):
        for name in ("rustfmt", "ld.lld"):
            (self.bin / name).rename(self.dir / name)
            self.assertEqual(self.plan(f"no {name}"), (True, ""))
            (self.dir / name).rename(self.bin / name)

    def test_no_headers(self):
        """DKMS itself says which package is missing."""
        shutil.rmtree(self.tree)
        self.assertEqual(self.plan(), (False, ""))

    def test_package_needs_a_version_that_skips(self):
        """To 3.0.10 of Debian 12 a kernel that is skipped is a failure of its installation."""
        found = re.search(r"^ +dkms \(>= ([0-9.]+)\)", (TOP / "debian/control").read_text(), re.M)
        self.assertIsNotNone(found)
        self.assertGreaterEqual(tuple(map(int, found[1].split("."))), (3, 2))


if __name__ == "__main__":
    unittest.main()
