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

LIVE = "//! Title.\n//!\n//! State: live.\n\n"
PLACE = "//= 8166-3.3-1 a call has credit\npub fn take() {}\n"
TEST = "//~ 8166-3.3-1 a call has credit\nfn credits() {}\n"

SOUND = {
    "tools/host/requirements.tsv": REGISTRY,
    "tools/lab/scenarios/test_checksums.py": "",
    "rust/wire.rs": LIVE,
    "rust/proto/credits.rs": LIVE + PLACE,
    "rust/proto/cases/flow.rs": "pub fn check() {\n    credits();\n}\n\n" + TEST,
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

    def credits(self, words, text):
        """As `fails`, with another text of the module with the place."""
        self.fails(words, path="rust/proto/credits.rs", text=text)

    def map_of(self, **changed):
        """Standard output on a sound tree with some files changed, and the document written."""
        root = Path(tempfile.mkdtemp(prefix="rfc-map-"))
        for path, text in {**SOUND, "Documentation/x": "", **changed}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(rfc_map.main(["--root", str(root), "--write"]), 0)
        return said.getvalue().splitlines()[-1], (root / rfc_map.MAP).read_text()

    def registry(self, words, old, new):
        """As `fails`, with one thing changed in the registry."""
        self.assertIn(old, REGISTRY)
        text = REGISTRY.replace(old, new)
        self.fails(words, path="tools/host/requirements.tsv", text=text)

    def test_sound(self):
        self.assertEqual(self.run_on(SOUND), (0, ""))

    def test_no_place(self):
        self.credits("no place carries it", LIVE + "pub fn take() {}\n")

    def test_no_test(self):
        text = "pub fn check() {}\n"
        self.fails("no test names it", path="rust/proto/cases/flow.rs", text=text)

    def test_test_that_nothing_runs(self):
        path = "rust/proto/cases/flow.rs"
        self.fails("nothing runs the test credits", path=path, text=TEST)

    def test_test_with_attribute(self):
        for text in ("#[test]\n" + "// More.\n" * 9 + TEST, TEST.replace("fn", "#[test]\nfn")):
            files = SOUND | {"rust/proto/cases/flow.rs": text}
            self.assertEqual(self.run_on(files), (0, ""))

    def test_test_run_by_another_module(self):
        files = SOUND | {
            "rust/proto/cases/flow.rs": TEST.replace("fn credits", "pub fn check"),
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
        text = LIVE + PLACE + "//= 8166-9-1 three more words\nfn more() {}\n"
        self.credits("mark without requirement", text)

    def test_mark_of_the_wrong_kind(self):
        text = LIVE + PLACE + TEST + "pub fn more() {\n    credits()\n}\n"
        self.credits("rust/proto/credits.rs:7: mark of the wrong kind", text)

    def test_place_in_any_room(self):
        files = SOUND | {"rust/proto/credits.rs": LIVE, "rust/client/send.rs": PLACE}
        self.assertEqual(self.run_on(files), (0, ""))

    def test_words_of_another_requirement(self):
        text = LIVE + PLACE.replace("a call has credit", "a server refuses")
        self.credits("rust/proto/credits.rs:5: 8166-3.3-1 does not say: a server refuses", text)

    def test_number_of_words(self):
        for words in ("", "has credit", "a call has credit, a call has credit"):
            text = LIVE + PLACE.replace("a call has credit", words)
            self.credits("words behind 8166-3.3-1, not 3 to 7", text)
        text = LIVE + PLACE.replace("a call has credit", "has credit: A call has credit.")
        self.assertEqual(self.run_on(SOUND | {"rust/proto/credits.rs": text}), (0, ""))

    def test_one_requirement_a_mark(self):
        text = LIVE + PLACE.replace("a call has credit", "8166-3.3-2")
        self.credits("8166-3.3-1", text)

    def test_words_of_a_test(self):
        text = SOUND["rust/proto/cases/flow.rs"].replace("a call has credit", "whatever it is")
        self.fails("does not say", path="rust/proto/cases/flow.rs", text=text)

    def test_file_without_state(self):
        self.credits("credits.rs: its first lines do not say its state", PLACE)
        self.credits("do not say its state", "//! Title.\n" + "//!\n" * 8 + LIVE + PLACE)
        self.fails("wire.rs: its first lines do not say", path="rust/wire.rs", text="")

    def test_unknown_state(self):
        self.credits("no such state: alive", LIVE.replace("live", "alive") + PLACE)

    def test_state_of_the_file(self):
        counts, text = self.map_of()
        self.assertEqual(
            counts,
            "all: 3 requirements: 1 on the wire, 1 by unit test alone, 0 not wired, 1 later",
        )
        self.assertNotIn("*not wired, for the server*", text)
        server = LIVE.replace("live", "for the server") + PLACE
        counts, text = self.map_of(**{"rust/proto/credits.rs": server})
        self.assertIn("0 by unit test alone, 1 not wired", counts)
        self.assertIn("     - *not wired, for the server*: ``rust/proto/credits.rs take``", text)

    def test_state_of_the_item(self):
        for reason, state in (("RFC 5666 only", "1 not wired"), ("for tests", "0 not wired")):
            allow = f'#[allow(dead_code, reason = "{reason}")]\n'
            for text in (allow + PLACE, PLACE.replace("pub", allow + "pub")):
                counts, _ = self.map_of(**{"rust/proto/credits.rs": LIVE + text})
                self.assertIn(state, counts)

    def test_one_live_place_is_enough(self):
        server = LIVE.replace("live", "for the server") + PLACE
        changed = {"rust/proto/credits.rs": server, "rust/client/send.rs": PLACE}
        self.assertIn("0 not wired", self.map_of(**changed)[0])

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
