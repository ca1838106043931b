# SPDX-License-Identifier: GPL-2.0
"""Tests dkms.conf: what DKMS does for a kernel, by the tree that the kernel's modules have."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

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


class Dkms(unittest.TestCase):
    """Creates the tree of a kernel that was built on this machine. Each test changes it."""

    def setUp(self):
        self.tree = Path(tempfile.mkdtemp(prefix="dkms-"))
        self.addCleanup(shutil.rmtree, self.tree, ignore_errors=True)
        (self.tree / "rust").mkdir()
        (self.tree / "rust/libkernel.rmeta").touch()
        self.config = self.tree / ".config"
        self.config.write_text("CONFIG_RUST=y\nCONFIG_SUNRPC_XPRT_RDMA=m\n")

    def plan(self):
        """Returns whether DKMS skips the kernel, and what it runs before a build."""
        command = ["/bin/bash", "-c", SOURCE, "-", RELEASE, self.tree, CONF]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        *skipped, before = done.stdout.splitlines()
        return bool(skipped), before

    def test_own_kernel(self):
        self.assertEqual(self.plan(), (False, ""))

    def test_headers_of_debian(self):
        (self.tree / ".kernelvariables").touch()
        shutil.rmtree(self.tree / "rust")
        self.assertEqual(self.plan(), (False, f"tools/prepare-headers {RELEASE}"))

    def test_headers_of_own_kernel(self):
        """Those that the kernel's makefiles pack have neither a configuration nor metadata."""
        self.config.unlink()
        shutil.rmtree(self.tree / "rust")
        self.assertEqual(self.plan(), (True, ""))

    def test_own_kernel_without_configuration(self):
        self.config.unlink()
        self.assertEqual(self.plan(), (True, ""))

    def test_own_kernel_that_is_not_prepared(self):
        (self.tree / "rust/libkernel.rmeta").unlink()
        self.assertEqual(self.plan(), (True, ""))

    def test_own_kernel_with_stock_built_in(self):
        self.config.write_text("CONFIG_RUST=y\nCONFIG_SUNRPC_XPRT_RDMA=y\n")
        self.assertEqual(self.plan(), (True, ""))

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
