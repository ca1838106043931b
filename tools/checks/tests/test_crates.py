# SPDX-License-Identifier: GPL-2.0
"""Tests which crates the check of Cargo.lock objects to."""

import unittest

import fixture

import crates


def workspace(needs, **others):
    """Returns what cargo says about a workspace with a rust-version and with other crates."""
    packages = [{"id": "own", "name": "own", "version": "0.1.0", "rust_version": needs}]
    packages += [
        {"id": name, "name": name, "version": "1.0.0", "rust_version": version}
        for name, version in others.items()
    ]
    return {"resolve": {"root": "own"}, "packages": packages}


class Findings(unittest.TestCase):
    def test_sound(self):
        found = workspace("1.85", old="1.56.0", same="1.85.0", silent=None)
        self.assertEqual(crates.findings(found, "1.85"), [])

    def test_crate_that_is_too_new(self):
        found = workspace("1.85", old="1.9", young="1.85.1", younger="1.88")
        self.assertEqual(
            crates.findings(found, "1.85"),
            [
                "young 1.0.0 needs rustc 1.85.1, and 1.85 is to build it",
                "younger 1.0.0 needs rustc 1.88, and 1.85 is to build it",
            ],
        )

    def test_another_rust_version(self):
        for version in ("1.88", "1.70", None):
            with self.subTest(version):
                said = crates.findings(workspace(version), "1.85")
                self.assertEqual(said, [f"rust-version is {version}, but 1.85 in tools/host"])

    def test_compiler_of_the_release(self):
        self.assertEqual(crates.too_old("1.85", "rustc 1.85.0 (4d91de4e4 2025-02-17)"), "")
        self.assertIn("has rustc 1.85.0", crates.too_old("1.88", "rustc 1.85.0 (4d91de4e4 2025)"))

    def test_workspace_that_cargo_cannot_read(self):
        self.assertEqual(len(crates.check(fixture.Path("/nonexistent"), "tools/host", "1.85")), 1)


if __name__ == "__main__":
    unittest.main()
