# SPDX-License-Identifier: GPL-2.0
"""Tests which failures of suites count as the notice of a fault."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/mutants"))

import faults
import rooms
from rooms import Failure, Suite

SCENARIO = faults.Scenario("removal::amid", (("SERVER", "ours"),))
FAULT = faults.Fault("conn/waits", "conn/a.rs", "a", "b", "why", "removal::amid", (SCENARIO,))
ORDER = ["compiler", "harness", "kunit", "removal::amid SERVER=ours"]


class NoticeTest(unittest.TestCase):
    """Only the failure of the suite that is expected to notice is a proof."""

    def checked(self, fails, failure=None, fault=FAULT):
        """Returns the outcome, the suites that ran, and the output, if one suite fails."""
        ran, said = [], []

        def run(suite, _tree):
            ran.append(suite.name)
            return (failure or Failure("E  x")) if suite.name == fails else None

        with (
            mock.patch.object(rooms, "copy"),
            mock.patch.object(faults.Fault, "apply"),
            mock.patch.object(Suite, "run", run),
            mock.patch.object(rooms, "say", said.append),
        ):
            return rooms.check(Path("/tree"), fault), ran, "".join(said)

    def test_the_expected_suite(self):
        good, ran, said = self.checked(ORDER[3])
        self.assertTrue(good)
        self.assertEqual(ran, ORDER)
        self.assertIn("conn/waits: removal::amid SERVER=ours, ", said)
        self.assertIn("E  x", said)

    def test_another_suite(self):
        for number in (1, 2):
            good, ran, said = self.checked(ORDER[number])
            self.assertFalse(good)
            self.assertEqual(ran, ORDER[: number + 1])
            self.assertIn(f"conn/waits: {ORDER[number]} (EXPECTED: removal::amid), ", said)

    def test_no_suite(self):
        good, ran, said = self.checked("")
        self.assertFalse(good)
        self.assertEqual(ran, ORDER)
        self.assertIn(f"conn/waits: NOTHING ({', '.join(ORDER[1:])}), ", said)

    def test_the_compiler(self):
        good, ran, said = self.checked("compiler")
        self.assertFalse(good)
        self.assertEqual(ran, ORDER[:1])
        self.assertIn("the compiler, so replace it", said)

    def test_the_expected_suite_does_not_end(self):
        good, _, said = self.checked(ORDER[3], Failure("not done", ended=False))
        self.assertFalse(good)
        self.assertIn("removal::amid SERVER=ours DID NOT END, ", said)

    def test_the_ends_of_a_suite(self):
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "program"
            for body, want in (
                ("exit 0", None),
                ("exit 3", Failure("status 3")),
                ("echo 'E  wrong'; exit 1", Failure("E  wrong")),
                ("exec sleep 5", Failure("not done after 0.2 s", ended=False)),
            ):
                program.write_text(f"#!/bin/sh\n{body}\n")
                program.chmod(0o755)
                with mock.patch.object(rooms, "LIMIT", 0.2 if "sleep" in body else 60):
                    self.assertEqual(Suite("x", ("program",)).run(Path(directory)), want)


if __name__ == "__main__":
    unittest.main()
