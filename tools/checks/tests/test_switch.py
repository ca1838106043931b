# SPDX-License-Identifier: GPL-2.0
"""Tests tools/headers/switch.sh: the commands that replace a loaded module."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SWITCH = Path(__file__).resolve().parents[3] / "tools/headers/switch.sh"
RELOAD = "    modprobe -r -w 10000 rpcrdma && modprobe rpcrdma"


class Switch(unittest.TestCase):
    """Creates a machine on which the module is loaded."""

    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="switch-"))
        self.addCleanup(shutil.rmtree, self.dir)
        for folder in ("bin", "proc/fs/nfsd", "sys/module/rpcrdma"):
            (self.dir / folder).mkdir(parents=True)
        for name, text in (("depmod", ""), ("modinfo", "echo /lib/modules/rpcrdma.ko")):
            program = self.dir / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)

    def mounts(self, *points, kind="nfs4", proto="rdma"):
        lines = [f"server:/x {point} {kind} rw,proto={proto},port=20049 0 0\n" for point in points]
        (self.dir / "proc/mounts").write_text("".join(lines))

    def commands(self):
        """Returns the commands for the running kernel."""
        path = f"{self.dir / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "PROC": str(self.dir / "proc"), "SYS": str(self.dir / "sys")}
        argv = ["/bin/sh", str(SWITCH), os.uname().release]
        done = subprocess.run(argv, env=environment, cwd=self.dir, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line for line in done.stdout.splitlines() if line.startswith("    ")]

    def test_mounts_by_rdma(self):
        self.mounts("/mnt/a-b_c.1", "/mnt/two", proto="rdma6")
        self.assertEqual(
            self.commands(), ["    umount /mnt/a-b_c.1", "    umount /mnt/two", RELOAD]
        )

    def test_other_mounts(self):
        self.mounts("/mnt/a", proto="tcp")
        self.assertEqual(self.commands(), [RELOAD])
        self.mounts("/mnt/a", kind="ext4")
        self.assertEqual(self.commands(), [RELOAD])

    def test_names_that_are_no_plain_words(self):
        """A name of the server is neither printed nor expanded."""
        others = "    umount the others: see findmnt -t nfs,nfs4"
        for name in ("*", "a;reboot", "$(reboot)", "my\\040files", "a\x1b[2J", "\u00e9", "a\u0085"):
            with self.subTest(name):
                self.mounts("/mnt/plain", f"/mnt/{name}")
                self.assertEqual(self.commands(), ["    umount /mnt/plain", others, RELOAD])

    def test_server(self):
        self.mounts()
        (self.dir / "proc/fs/nfsd/portlist").write_text("rdma 20049\n")
        stop = "    stop the NFS server: it listens on RDMA"
        self.assertEqual(self.commands(), [stop, RELOAD])


if __name__ == "__main__":
    unittest.main()
