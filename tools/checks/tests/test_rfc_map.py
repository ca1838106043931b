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
    "8166-3.3-2\tMAY\tA server refuses.\tunused: it serves all\n"
    "8166-3.3-3\tmust\tData come back whole.\tscenario checksums: every file\n"
)

TITLE = "//! Title.\n\n"
PLACE = "//= 8166-3.3-1 a call has credit\npub fn take() {}\n"
TEST = "//~ 8166-3.3-1 a call has credit\nfn credits() {}\n"

SOUND = {
    "tools/host/requirements.tsv": REGISTRY,
    "tools/lab/scenarios/test_checksums.py": "",
    "rust/wire.rs": TITLE,
    "rust/proto/credits.rs": TITLE + PLACE,
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
        self.credits("no place carries it", TITLE + "pub fn take() {}\n")

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
        text = TITLE + PLACE + "//= 8166-9-1 three more words\nfn more() {}\n"
        self.credits("mark without requirement", text)

    def test_mark_of_the_wrong_kind(self):
        text = TITLE + PLACE + TEST + "pub fn more() {\n    credits()\n}\n"
        self.credits("rust/proto/credits.rs:5: mark of the wrong kind", text)

    def test_place_in_any_room(self):
        files = SOUND | {"rust/proto/credits.rs": TITLE, "rust/client/send.rs": PLACE}
        self.assertEqual(self.run_on(files), (0, ""))

    def test_words_of_another_requirement(self):
        text = TITLE + PLACE.replace("a call has credit", "a server refuses")
        self.credits("rust/proto/credits.rs:3: 8166-3.3-1 does not say: a server refuses", text)

    def test_number_of_words(self):
        for words in ("", "has credit", "a call has credit, a call has credit"):
            text = TITLE + PLACE.replace("a call has credit", words)
            self.credits("words behind 8166-3.3-1, not 3 to 7", text)
        text = TITLE + PLACE.replace("a call has credit", "has credit: A call has credit.")
        self.assertEqual(self.run_on(SOUND | {"rust/proto/credits.rs": text}), (0, ""))

    def test_one_requirement_a_mark(self):
        text = TITLE + PLACE.replace("a call has credit", "8166-3.3-2")
        self.credits("8166-3.3-1", text)

    def test_words_of_a_test(self):
        text = SOUND["rust/proto/cases/flow.rs"].replace("a call has credit", "whatever it is")
        self.fails("does not say", path="rust/proto/cases/flow.rs", text=text)

    def test_place_outside_the_module(self):
        files = {"rust/proto/credits.rs": TITLE, "tools/host/src/model.rs": PLACE}
        status, said = self.run_on(SOUND | files)
        self.assertEqual(status, 1)
        self.assertIn("model.rs:1: a place that does not count: the module does not", said)

    def test_place_where_dead_code_is_allowed(self):
        allow = '#[allow(dead_code, reason = "for the sample x")]\n'
        dead = "a place that does not count: dead code is allowed here"
        for text in (
            allow + PLACE,
            PLACE.replace("pub", allow + "pub"),
            PLACE.replace("pub", "/// Text.\n#[inline]\n" + allow + "pub"),
            "impl X {}\n" + allow + "impl Credits {\n    fn f() { g() }\n" + PLACE + "}\n",
            PLACE.replace("//=", "#![allow(dead_code, unused_imports)]\n//="),
            allow.replace("allow", "expect") + PLACE,
        ):
            self.credits(dead, text)

    def test_place_in_code_for_tests(self):
        tests = "a place that does not count: it is code for tests"
        for attribute in ("cfg(test)", "cfg(any(test, RPCRDMA_KUNIT))", "cfg(fuzzing)"):
            self.credits(tests, f"#[{attribute}]\n{PLACE}")
            self.credits(tests, f"#[{attribute}]\nmod tests {{\n{PLACE}}}\n")
        self.credits(tests, "#[kernel::prelude::kunit_tests(a)]\nmod b {\n" + PLACE + "}\n")
        files = {
            "rust/proto/credits.rs": TITLE,
            "rust/proto.rs": "#[cfg(RPCRDMA_KUNIT)]\nmod helpers;\nmod more;\n",
            "rust/proto/helpers/deep.rs": PLACE,
        }
        self.assertIn(tests, self.run_on(SOUND | files)[1])
        files["rust/proto/more.rs"] = files.pop("rust/proto/helpers/deep.rs")
        self.assertEqual(self.run_on(SOUND | files), (0, ""))

    def test_place_beside_such_code(self):
        allow = '#[allow(dead_code, reason = "for the sample x")]\n'
        for text in (
            allow + "fn f() {\n}\n" + PLACE,
            PLACE + allow + "fn f() {}\n",
            "struct X {\n    //= 8166-3.3-1 a call has credit\n    a: u32,\n}\n"
            + allow
            + "fn f() {}\n",
            PLACE + "#[cfg(test)]\nmod tests {}\n",
            "#[cfg(not(test))]\n" + PLACE,
            "// #[cfg(test)]\n" + PLACE,
            "#[cfg(CONFIG_X)]\n" + PLACE,
        ):
            self.assertEqual(self.run_on(SOUND | {"rust/proto/credits.rs": text}), (0, ""), text)

    def test_where_it_is_seen(self):
        counts, text = self.map_of()
        self.assertEqual(
            counts,
            "all: 3 requirements: 0 in a capture, 0 by a hostile peer, 1 by another scenario, "
            "1 by unit tests alone, 1 unused",
        )
        places = "``rust/proto/credits.rs take``; ``rust/proto/cases/flow.rs credits``"
        self.assertIn(f"     - {places}\n     - unit tests alone\n", text)
        self.assertIn("     -\n     - scenario checksums: every file\n", text)

    def test_kinds_of_witnesses(self):
        scenarios = {f"tools/lab/scenarios/test_{name}.py": "" for name in ("hostile", "mount")}
        rows = "scenario hostile: a reply", "scenario hostile: in a capture", "scenario mount: all"
        registry = REGISTRY.replace("scenario checksums: every file", rows[0])
        registry += "".join(
            f"8166-3.3-{n}\tmust\tA.\t{row}\n" for n, row in zip((4, 5), rows[1:], strict=True)
        )
        counts, _ = self.map_of(**{"tools/host/requirements.tsv": registry, **scenarios})
        self.assertIn("1 in a capture, 1 by a hostile peer, 1 by another scenario", counts)

    def test_case_of_the_hostile_requester(self):
        files = {
            "tools/lab/scenarios/test_requester.py": "",
            "tools/lab/guest/misheaders.py": "Case(2, a),\nCase(\n    4, b),\n",
        }
        for shown, gone in (
            ("cases 2 to 4", []),
            ("cases 2, 4 and 5", [5]),
            ("case 3, all credits", [3]),
            ("cases 2 to 7, in version one; and 512 bytes", [7]),
        ):
            rows = REGISTRY.replace("checksums: every file", f"requester: {shown}")
            status, said = self.run_on(SOUND | files | {"tools/host/requirements.tsv": rows})
            self.assertEqual(status, 1 if gone else 0, said)
            for number in gone:
                self.assertIn(f"8166-3.3-3: the hostile requester has no case {number}", said)

    def test_gap_in_the_numbers(self):
        self.registry(
            "8166-3.3-2: not listed",
            "8166-3.3-2\tMAY\tA server refuses.\tunused: it serves all\n",
            "",
        )

    def test_listed_twice(self):
        self.registry(
            "listed 2 times", "# id", "8166-3.3-2\tMAY\tAgain.\tunused: it serves all\n# id"
        )

    def test_unknown_document(self):
        self.registry(
            "names no document", "# id", "9999-1-1\tMAY\tElse.\tunused: it serves all\n# id"
        )

    def test_unknown_level(self):
        self.registry("no such level", "\tMAY\t", "\tMIGHT\t")

    def test_unknown_witness(self):
        self.registry("shown by nothing that is known", "unused: it serves all", "trust me")

    def test_unknown_scenario(self):
        self.registry("there is no scenario", "scenario checksums:", "scenario dreams:")

    def test_document_out_of_date(self):
        self.fails("out of date", path=rfc_map.MAP, text="old\n")


if __name__ == "__main__":
    unittest.main()
