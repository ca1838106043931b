# SPDX-License-Identifier: GPL-2.0
"""Tests tools/preflight.sh with artificial kernel trees and tools, each with one part missing."""

import re
import subprocess
import unittest
from pathlib import Path

from kernel_tree import CONFIG, KernelTree

TOP = Path(__file__).resolve().parents[3]
PREFLIGHT = TOP / "tools/preflight.sh"


def options():
    """Returns the options of the kernel without which DKMS skips it."""
    script = f'. "{TOP}/dkms.conf"; echo $BUILD_EXCLUSIVE_CONFIG'
    done = subprocess.run(["/bin/bash", "-c", script], check=True, capture_output=True, text=True)
    return re.findall(r"CONFIG_(\w+)", done.stdout)


class Preflight(KernelTree):
    """Each test removes or changes one part of the tree."""

    def config(self, old, new):
        self.file(".config", CONFIG.replace(old, new))

    def run_preflight(self, **env):
        environment = {
            "PATH": str(self.bin),
            "KDIR": str(self.tree),
            "LLVM": "-19",
            "OS_RELEASE": str(self.dir / "os-release"),
            **env,
        }
        return subprocess.run(
            ["/bin/sh", str(PREFLIGHT)], env=environment, capture_output=True, text=True
        )

    def says(self, *words, **env):
        """Requires that preflight.sh fails, and that its one line has all of the words."""
        done = self.run_preflight(**env)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_all_is_well(self):
        done = self.run_preflight()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_kdir(self):
        self.says("KDIR", KDIR="")

    def test_kdir_missing(self):
        self.says("no such directory", "KDIR=", KDIR=str(self.dir / "nothing"))

    def test_not_a_build_tree(self):
        (self.tree / ".config").unlink()
        self.says("not a kernel build tree", "KDIR=")

    def test_not_a_kernel_of_this_age(self):
        (self.tree / "scripts/min-tool-version.sh").unlink()
        self.says("min-tool-version.sh", "KDIR=")

    def test_kernel_below_the_range(self):
        self.file("include/config/kernel.release", "7.1.13+deb13-amd64\n")
        self.says("7.1.13+deb13-amd64", "needs Linux 7.2 or newer")

    def test_kernels_in_the_range(self):
        for release in ("7.2.0", "7.3.999+deb13-amd64"):
            self.file("include/config/kernel.release", f"{release}\n")
            done = self.run_preflight()
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_kernel_above_the_range(self):
        self.file("include/config/kernel.release", "7.4.0-rc1\n")
        done = self.run_preflight()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1))
        self.assertIn("7.4.0-rc1: rpcrdma was not tried", done.stderr)

    def test_source_tree_apart_from_build_tree(self):
        (self.tree / "scripts").rename(self.dir / "scripts")
        (self.tree / "source").symlink_to(self.dir)
        self.assertEqual(self.run_preflight().returncode, 0)

    def test_without_rust(self):
        self.config("CONFIG_RUST=y", "# CONFIG_RUST is not set")
        self.says("CONFIG_RUST=y", "KDIR=")

    def test_without_an_option_that_dkms_asks_for(self):
        for option in options():
            with self.subTest(option):
                self.file(".config", re.sub(rf"(?m)^CONFIG_{option}=.*\n", "", CONFIG))
                self.says(f"CONFIG_{option}", "KDIR=")

    def test_the_options_that_dkms_asks_for_are_enough(self):
        lines = [f"CONFIG_{option}=y\n" for option in (*options(), "CC_IS_CLANG")]
        self.file(".config", "".join(lines))
        done = self.run_preflight()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_infiniband(self):
        self.config("CONFIG_INFINIBAND=m", "# CONFIG_INFINIBAND is not set")
        self.says("CONFIG_INFINIBAND:")

    def test_without_cm(self):
        self.config("CONFIG_INFINIBAND_ADDR_TRANS=y\n", "")
        self.says("CONFIG_INFINIBAND_ADDR_TRANS")

    def test_without_sunrpc(self):
        self.config("CONFIG_SUNRPC=y", "# CONFIG_SUNRPC is not set")
        self.says("CONFIG_SUNRPC:")

    def test_trimmed_exports(self):
        trimmed = "CONFIG_TRIM_UNUSED_KSYMS=y\nCONFIG_UNUSED_KSYMS_WHITELIST="
        self.file(".config", f'{CONFIG}{trimmed}""\n')
        self.says("CONFIG_TRIM_UNUSED_KSYMS", "rebuild that kernel")
        self.file(".config", f'{CONFIG}{trimmed}"kept"\n')
        self.assertEqual(self.run_preflight().returncode, 0)

    def test_stock_built_in(self):
        self.config("XPRT_RDMA=m", "XPRT_RDMA=y")
        self.says("CONFIG_SUNRPC_XPRT_RDMA", "built in")

    def test_not_prepared(self):
        (self.tree / "rust/libkernel.rmeta").unlink()
        self.says("libkernel.rmeta", "modules_prepare")

    def test_clang_tree_without_llvm(self):
        self.says("LLVM=1", LLVM="")

    def test_gcc_tree_with_llvm(self):
        self.config("CONFIG_CC_IS_CLANG=y", "CONFIG_CC_IS_GCC=y")
        self.says("leave LLVM= out")

    def test_gcc_missing(self):
        self.config("CONFIG_CC_IS_CLANG=y", "CONFIG_CC_IS_GCC=y")
        self.says("install gcc", LLVM="")

    def test_clang_missing(self):
        (self.bin / "clang-19").unlink()
        self.says("install clang-19", "LLVM=")

    def test_lld_missing(self):
        (self.bin / "ld.lld-19").unlink()
        self.says("install lld-19")

    def test_rustc_missing(self):
        (self.bin / "rustc").unlink()
        self.says("install rustc,", "RUSTC=")

    def test_rustc_missing_on_debian_12(self):
        (self.bin / "rustc").unlink()
        self.release("bookworm")
        self.says("install rustc-web,")

    def test_rustc_too_old(self):
        self.rustc("rustc 1.63.0 (abc)")
        self.says("1.63.0 is too old", "1.85.0", "RUSTC=")

    def test_rustc_of_another_build(self):
        self.rustc("rustc 1.95.0 (abc)")
        self.says("1.96.0", "1.95.0", "RUSTC=")

    def test_rust_src_missing(self):
        self.core.unlink()
        self.says("install rust-src")

    def test_rust_src_missing_on_debian_12(self):
        self.core.unlink()
        self.release("bookworm")
        self.says("install rust-web-src")

    def test_bindgen_missing(self):
        (self.bin / "bindgen").unlink()
        self.says("install bindgen", "BINDGEN=")

    def test_bindgen_too_old(self):
        self.bindgen("0.60.1", "19.1.7")
        self.says("0.60.1 is too old", "0.71.1", "cargo install")

    def test_bindgen_missing_on_debian_12_whose_own_is_too_old(self):
        (self.bin / "bindgen").unlink()
        self.release("bookworm")
        self.says("cargo install --locked bindgen-cli")
        self.assertNotIn("install bindgen,", self.run_preflight().stderr)

    def test_rustfmt_missing(self):
        (self.bin / "rustfmt").unlink()
        self.says("install rustfmt")

    def test_libclang_missing(self):
        self.tool("bindgen", '[ "$1" = --version ] && echo bindgen 0.73.0 || exit 1')
        self.says("libclang", "install libclang-dev")

    def test_libclang_too_old(self):
        self.bindgen("0.73.0", "14.0.6")
        self.says("14.0.6 is too old", "17.0.1")

    def test_chosen_tools_are_used(self):
        for name in ("rustc", "bindgen"):
            (self.bin / name).rename(self.dir / f"my-{name}")
        done = self.run_preflight(
            RUSTC=str(self.dir / "my-rustc"), BINDGEN=str(self.dir / "my-bindgen")
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
