# SPDX-License-Identifier: GPL-2.0
"""How tests in a folder are run: which outcomes count as a failure, and what is printed."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKS = Path(__file__).resolve().parents[1]
RUN = "import sys, selftest, pathlib; sys.exit(not selftest.run(pathlib.Path(sys.argv[1])))"
CASE = """
import unittest


class Case(unittest.TestCase):
    def test_one(self):
        {}

    def test_two(self):
        pass
"""


class Selftest(unittest.TestCase):
    """Folders with one file of two tests, or without any."""

    def run_tests(self, *bodies):
        folder = Path(tempfile.mkdtemp(prefix="selftest-"))
        self.addCleanup(shutil.rmtree, folder)
        for body in bodies:
            (folder / "test_made_up.py").write_text(CASE.format(body))
        command = [sys.executable, "-B", "-c", RUN, str(folder)]
        done = subprocess.run(command, cwd=CHECKS, capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_all_pass(self):
        self.assertEqual(self.run_tests("pass"), (0, "tests of the checks: 2 passed, 0 failed\n"))

    def test_a_failure(self):
        self.assertEqual(
            self.run_tests("self.fail()"), (1, "tests of the checks: 1 passed, 1 failed\n")
        )

    def test_no_tests(self):
        status, said = self.run_tests()
        self.assertEqual(status, 1)
        self.assertIn("there are no tests", said)
        self.assertIn("0 passed, 1 failed", said)

    def test_a_skip_is_shown(self):
        status, said = self.run_tests("self.skipTest('no tool')")
        self.assertEqual(status, 0)
        self.assertRegex(said, "skipped: test_one .*: no tool")
        self.assertIn("1 passed, 0 failed", said)


if __name__ == "__main__":
    unittest.main()
