# SPDX-License-Identifier: GPL-2.0
"""The requirements map: a sound tree passes, and each kind of hole is found."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import fixture  # noqa: F401 - finds rfc_map

import rfc_map

REGISTRY = (
    "# id\tlevel\tstatement\twhat shows it\n"
    "8166-3.3-1\tMUST\tA call has credit.\t\n"
    "8166-3.3-2\tMAY\tA server refuses.\tlater: server\n"
    "8166-3.3-3\tmust\tData come back whole.\tscenario checksums: every file\n"
)

SOUND = {
    "tools/host/requirements.tsv": REGISTRY,
    "tools/lab/scenarios/test_checksums.py": "",
    "rust/wire.rs": "",
    "rust/proto/credits.rs": "//= 8166-3.3-1\npub fn take() {}\n",
    "rust/proto/cases/flow.rs": "pub fn check() {\n    credits();\n}\n\n"
    "//~ 8166-3.3-1\nfn credits() {}\n",
}


class RfcMapTest(unittest.TestCase):
    """A sound tree passes, and each kind of hole is found."""

    def run_on(self, files):
        """Exit status, and what was said on stderr."""
        root = Path(tempfile.mkdtemp(prefix="rfc-map-"))
        for path, text in {"Documentation/x": "", **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            if rfc_map.MAP not in files:
                rfc_map.main(["--root", str(root), "--write"])
            said.truncate(0)
            status = rfc_map.main(["--root", str(root)])
        return status, said.getvalue().strip("\0")

    def fails(self, words, **changed):
        """The sound tree with some files changed fails, and says just this."""
        files = SOUND | {changed.pop("path"): changed.pop("text")}
        status, said = self.run_on(files)
        self.assertEqual(status, 1)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(words, said)

    def registry(self, words, old, new):
        """As `fails`, with one thing changed in the registry."""
        self.assertIn(old, REGISTRY)
        text = REGISTRY.replace(old, new)
        self.fails(words, path="tools/host/requirements.tsv", text=text)

    def test_sound(self):
        self.assertEqual(self.run_on(SOUND), (0, ""))

    def test_no_place(self):
        self.fails("no place carries it", path="rust/proto/credits.rs", text="pub fn take() {}\n")

    def test_no_test(self):
        text = "pub fn check() {}\n"
        self.fails("no test names it", path="rust/proto/cases/flow.rs", text=text)

    def test_test_that_nothing_runs(self):
        text = "//~ 8166-3.3-1\nfn credits() {}\n"
        self.fails("nothing runs the test credits", path="rust/proto/cases/flow.rs", text=text)

    def test_test_with_attribute(self):
        text = "#[test]\n//~ 8166-3.3-1\nfn credits() {}\n"
        files = SOUND | {"rust/proto/cases/flow.rs": text}
        self.assertEqual(self.run_on(files), (0, ""))

    def test_test_run_by_another_module(self):
        files = SOUND | {
            "rust/proto/cases/flow.rs": "//~ 8166-3.3-1\npub fn check() {}\n",
            "rust/proto/cases.rs": "pub fn check_all() {\n    flow::check();\n}\n",
        }
        self.assertEqual(self.run_on(files), (0, ""))
        files["rust/proto/cases.rs"] = "pub fn check_all() {\n    conn::check();\n}\n"
        self.assertEqual(self.run_on(files)[0], 1)

    def test_row_without_mark(self):
        text = REGISTRY + "8166-4-1\tMUST\tNew.\t\n"
        status, said = self.run_on(SOUND | {"tools/host/requirements.tsv": text})
        self.assertEqual(status, 1)
        self.assertIn("8166-4-1: no place", said)
        self.assertIn("8166-4-1: no test", said)

    def test_mark_without_row(self):
        text = SOUND["rust/proto/credits.rs"] + "//= 8166-9-1\nfn more() {}\n"
        self.fails("mark without requirement", path="rust/proto/credits.rs", text=text)

    def test_mark_of_the_wrong_kind(self):
        text = "//= 8166-3.3-1\npub fn take() {\n    take()\n}\n//~ 8166-3.3-1\nfn more() {}\n"
        status, said = self.run_on(SOUND | {"rust/proto/credits.rs": text})
        self.assertEqual(status, 1)
        self.assertIn("rust/proto/credits.rs:5: mark of the wrong kind", said)

    def test_gap_in_the_numbers(self):
        self.registry(
            "8166-3.3-2: not listed", "8166-3.3-2\tMAY\tA server refuses.\tlater: server\n", ""
        )

    def test_listed_twice(self):
        self.registry("listed 2 times", "# id", "8166-3.3-2\tMAY\tAgain.\tlater: server\n# id")

    def test_unknown_document(self):
        self.registry("names no document", "# id", "9999-1-1\tMAY\tElse.\tlater: server\n# id")

    def test_unknown_level(self):
        self.registry("no such level", "\tMAY\t", "\tMIGHT\t")

    def test_unknown_witness(self):
        self.registry("shown by nothing that is known", "later: server", "trust me")

    def test_unknown_scenario(self):
        self.registry("there is no scenario", "scenario checksums:", "scenario dreams:")

    def test_document_out_of_date(self):
        self.fails("out of date", path=rfc_map.MAP, text="old\n")


if __name__ == "__main__":
    unittest.main()
