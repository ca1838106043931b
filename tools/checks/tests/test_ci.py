# SPDX-License-Identifier: GPL-2.0
""".ci/run with a made-up `make check`: each suite must have printed its results."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

RUN = Path(__file__).resolve().parents[3] / ".ci/run"
RESULTS = """\
test result: ok. 61 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
checks: 11 passed, 0 failed
tests of the checks: 166 passed, 0 failed
linters: 4 passed, 0 failed
clippy: 1 passed, 0 failed
crates: 3 passed, 0 failed
[  32.8s] scenarios: 24 passed, 0 failed
lab's own tests: 100 passed, 0 failed
loom: 25 passed, 0 failed; 13968 executions
tests of nfsrdma: 585 passed, 0 failed
tests of prepare-headers: 27 passed, 0 failed
scenarios (plain kernel, ours client, rxe): 60 passed, 0 failed
Debian 13: test result: ok. 61 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
Debian 13: checks: 11 passed, 0 failed
Debian 13: tests of the checks: 166 passed, 0 failed
Debian 13: linters: 4 passed, 0 failed
Debian 13: crates: 3 passed, 0 failed
Debian 13: lab's own tests: 99 passed, 0 failed
Debian 13: tests of nfsrdma: 585 passed, 0 failed
Debian 13: tests of prepare-headers: 27 passed, 0 failed
Debian 13: scenarios (plain kernel, ours client, rxe): 1 passed, 0 failed
"""


class Ci(unittest.TestCase):
    """Outputs and statuses of `make check`."""

    def run_ci(self, results, then="true"):
        root = Path(tempfile.mkdtemp(prefix="ci-"))
        self.addCleanup(shutil.rmtree, root)
        (root / ".ci").mkdir()
        shutil.copy(RUN, root / ".ci/run")
        (root / "results").write_text(results)
        (root / "Makefile").write_text(f"check:\n\t@cat results\n\t@{then}\n")
        # An outer make that sorts the output of its jobs would make this one do the same, which
        # then loses its output when it is killed.
        clean = {name: value for name, value in os.environ.items() if "MAKE" not in name}
        run = [str(root / ".ci/run")]
        done = subprocess.run(run, env=clean, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()[-1]

    def test_all_pass(self):
        self.assertEqual(self.run_ci(RESULTS), (0, "2024 passed, 0 failed"))

    def test_silent_suite(self):
        lines = RESULTS.splitlines(keepends=True)
        for line in lines:
            with self.subTest(line):
                status, last = self.run_ci("".join(other for other in lines if other != line))
                self.assertEqual((status, last.split(", ")[1]), (1, "1 failed"))

    def test_nothing_printed(self):
        self.assertEqual(self.run_ci(""), (1, "0 passed, 21 failed"))

    def test_suite_in_which_nothing_passed(self):
        results = RESULTS.replace("100 passed", "0 passed")
        self.assertEqual(self.run_ci(results), (1, "1924 passed, 1 failed"))

    def test_failure(self):
        results = RESULTS.replace("60 passed, 0", "58 passed, 2")
        self.assertEqual(self.run_ci(results, "false"), (2, "2022 passed, 2 failed"))

    def test_death_of_make(self):
        status, last = self.run_ci(RESULTS, "kill -9 $$PPID")
        self.assertEqual((status, last), (137, "2024 passed, 1 failed"))


if __name__ == "__main__":
    unittest.main()
