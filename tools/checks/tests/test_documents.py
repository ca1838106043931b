# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the documents: it reports wrong names and long lines."""

import unittest

from fixture import TreeTest

from checks import documents

SOUND = {
    "rust/proto.rs": "pub mod plan;\npub fn now() {}\n",
    "rust/proto/plan.rs": "pub struct Plan;\n",
    "tools/lab/run": "",
    "Documentation/one.rst": """\
See ``rust/proto/plan.rs``, ``rust/proto``, ``rust/proto/`` and ``tools/*/run``.
The functions ``proto::now()`` and ``proto::plan::Plan::new`` are in ``proto::plan``.
``make doc`` writes ``Documentation/output/x.html``; ``mem`` and ``a/rust/b`` are no paths.

    tools/lab/run -x
""",
    "README.md": "See [one](Documentation/one.rst), [two](https://x.invalid/x), `rust/proto.rs`.\n",
}


class Documents(TreeTest):
    check = documents.check

    def broken(self, path, old, new):
        self.assertIn(old, SOUND[path])
        return {**SOUND, path: SOUND[path].replace(old, new)}

    def test_sound(self):
        self.passes(SOUND)

    def test_file(self):
        files = self.broken("Documentation/one.rst", "rust/proto/plan.rs", "rust/proto/gone.rs")
        self.fails(files, ("Documentation/one.rst:1", "no such file: rust/proto/gone.rs"))

    def test_scenario(self):
        path = "tools/lab/scenarios/test_one.py"
        files = {**SOUND, path: "def test_first(pair):\n    pass\n"}
        one = "Documentation/one.rst"
        self.passes({**files, one: f"{SOUND[one]}\n``{path}::test_first``\n"})
        line = SOUND[one].count("\n") + 2
        files[one] = f"{SOUND[one]}\n``{path}::test_second``\n"
        self.fails(files, (f"{one}:{line}", f"no such scenario: {path}::test_second"))

    def test_scenario_beside_a_link(self):
        path = "tools/lab/scenarios/test_one.py"
        files = {**SOUND, path: "def test_first(pair):\n    pass\n"}
        one, target = "Documentation/one.rst", f".. _test_one.py: ../{path}\n"
        named = f"{SOUND[one]}\n``test_first`` in test_one.py_\n\n"
        self.passes({**files, one: named + target})
        line = SOUND[one].count("\n") + 2
        wrong = named.replace("first", "second") + target
        message = f"no such scenario: {path}::test_second"
        self.fails({**files, one: wrong}, (f"{one}:{line}", message))
        gone = target.replace("lab/", "gone/")
        message = "no such file: ../tools/gone/scenarios/test_one.py"
        self.fails({**files, one: named + gone}, (f"{one}:{line + 2}", message))

    def test_folder(self):
        files = self.broken("Documentation/one.rst", "``rust/proto/``", "``rust/gone/``")
        self.fails(files, ("Documentation/one.rst:1", "no such file: rust/gone"))

    def test_pattern(self):
        files = self.broken("Documentation/one.rst", "tools/*/run", "tools/*/walk")
        self.fails(files, ("Documentation/one.rst:1", "no such file: tools/*/walk"))

    def test_command(self):
        files = self.broken("Documentation/one.rst", "tools/lab/run -x", "tools/lab/walk -x")
        self.fails(files, ("Documentation/one.rst:5", "no such file: tools/lab/walk"))

    def test_module(self):
        files = self.broken("Documentation/one.rst", "``proto::plan``", "``proto::gone``")
        self.fails(files, ("Documentation/one.rst:2", "no such module: proto::gone"))

    def test_item_of_a_module(self):
        files = self.broken("Documentation/one.rst", "proto::now", "proto::then")
        self.fails(files, ("Documentation/one.rst:2", "no such module: proto::then"))
        files = self.broken("Documentation/one.rst", "plan::Plan", "plan::Gone")
        self.fails(files, ("Documentation/one.rst:2", "no such module: proto::plan::Gone"))

    def test_item_alone(self):
        self.passes(self.broken("Documentation/one.rst", "``mem``", "``Plan::now``"))
        files = self.broken("Documentation/one.rst", "``mem``", "``Plan::gone``")
        self.fails(files, ("Documentation/one.rst:3", "has these names: Plan::gone"))

    def test_markdown(self):
        files = self.broken("README.md", "rust/proto.rs", "rust/gone.rs")
        self.fails(files, ("README.md:1", "no such file: rust/gone.rs"))
        files = self.broken("README.md", "Documentation/one.rst", "one.rst")
        self.fails(files, ("README.md:1", "no such file: one.rst"))

    def test_columns(self):
        self.passes({"Documentation/one.rst": "x" * 100 + "\n"})
        for path in ("Documentation/one.rst", "README.md"):
            self.fails({path: "ok\n" + "x" * 101 + "\n"}, (f"{path}:2", "101 columns"))

    def test_state_that_no_row_has(self):
        text = (
            SOUND["README.md"]
            + """
In this table, *run* means that it was run, and *not wired*
that it is not.

| what | state |
| --- | --- |
| Client | run |
"""
        )
        place = ("README.md:3", "no row of the table has the state not wired")
        self.fails({**SOUND, "README.md": text}, place)
        self.passes({**SOUND, "README.md": text + "| Server | not wired | new |\n"})


if __name__ == "__main__":
    unittest.main()
