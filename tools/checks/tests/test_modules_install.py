# SPDX-License-Identifier: GPL-2.0
"""Tests whether `make modules_install` has the kernel's makefiles sign the module."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]

# Says where the kernel's makefiles take the option from. The recipe also runs under `make -n`.
MAKEFILE = """
modules:
modules_install:
\t+@echo 'CONFIG_MODULE_SIG_ALL: $(origin CONFIG_MODULE_SIG_ALL)'
"""
SIGNED = "CONFIG_MODULE_SIG_ALL: undefined"
UNSIGNED = "CONFIG_MODULE_SIG_ALL: command line"


class ModulesInstall(unittest.TestCase):
    """Creates a kernel's tree whose makefile says whether the module is to be signed."""

    def setUp(self):
        self.tree = Path(tempfile.mkdtemp(prefix="install-"))
        self.addCleanup(shutil.rmtree, self.tree)
        (self.tree / "Makefile").write_text(MAKEFILE)
        self.key(self.tree / "certs/signing_key.pem")
        self.config("certs/signing_key.pem")

    def key(self, path):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def config(self, key):
        text = f'CONFIG_MODULE_SIG_ALL=y\nCONFIG_MODULE_SIG_KEY="{key}"\n'
        (self.tree / ".config").write_text(text)

    def installs(self, wanted):
        """Requires that `modules_install` begins the installation of the kernel this way."""
        command = ["make", "-n", "-C", TOP, f"KDIR={self.tree}", "JOBS=1", "modules_install"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        said = [line for line in done.stdout.splitlines() if line.startswith("CONFIG_")]
        self.assertEqual(said, [wanted])

    def test_key_of_the_tree(self):
        self.installs(SIGNED)

    def test_key_elsewhere(self):
        self.key(self.tree / "keys/own.pem")
        self.config(self.tree / "keys/own.pem")
        self.installs(SIGNED)

    def test_key_on_a_token(self):
        self.config("pkcs11:token=kernel;object=key")
        self.installs(SIGNED)

    def test_key_that_is_not_here(self):
        (self.tree / "certs/signing_key.pem").unlink()
        self.installs(UNSIGNED)

    def test_no_key(self):
        self.config("")
        self.installs(UNSIGNED)

    def test_no_configuration(self):
        (self.tree / ".config").unlink()
        self.installs(UNSIGNED)


if __name__ == "__main__":
    unittest.main()
