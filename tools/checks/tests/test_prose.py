# SPDX-License-Identifier: GPL-2.0
"""Tests the check of prose."""

import unittest
from unittest import mock

from fixture import TreeTest

from checks import prose

# A sentence with each phrase, and the words in the finding.
PHRASES = {
    "It would wait for ever.": "for ever",
    "It is encoded anew.": "anew",
    "So many calls fit.": "So many",
    "The sizes in force are these.": "in force",
    "A command mends it.": "mends",
    "The change has led to it.": "has led to",
    "No reply has come.": "has come",
    "The reply counts, too.": ", too",
    "Both, too, count.": ", too",
}
SOUND = "There are so many that it ends. Chunks, too many, are refused. It comes for every call."


class Prose(TreeTest):
    """Each phrase is found where text is, and nowhere else."""

    check = staticmethod(prose.check)

    def setUp(self):
        limits = mock.patch.dict(prose.LIMITS, {"rust": 0})
        limits.start()
        self.addCleanup(limits.stop)

    def test_each_phrase(self):
        for sentence, words in PHRASES.items():
            with self.subTest(sentence):
                self.fails({"README.md": f"x\n{sentence}\n"}, ("README.md:2", words))
                self.fails({"rust/wire.rs": f"// {sentence}\n"}, ("rust/wire.rs:1", words))
                self.fails({"a.py": f"# {sentence}\n"}, ("a.py:1", words))
                self.fails({"a.c": f"/* {sentence} */\n"}, ("a.c:1", words))
                self.fails({"a.c": f"/*\n * {sentence}\n */\n"}, ("a.c:2", words))

    def test_sound_text(self):
        self.passes({"README.md": SOUND, "rust/wire.rs": f"/// {SOUND}\n", "a.py": f"# {SOUND}\n"})

    def test_code_of_c_and_rust_is_no_text(self):
        self.passes({"a.c": "bool anew = setting->anew;\n", "rust/wire.rs": "let mends = anew;\n"})

    def test_a_comment_that_begins_with_a_question(self):
        for text in ("/// What it is.\n", "//! What it is.\n", "fn f();\n    /// What it is.\n"):
            place = f"rust/wire.rs:{text.count(chr(10))}"
            self.fails({"rust/wire.rs": text}, (place, "begins with a question"))
        self.fails({"a.py": '"""What it is."""\n'}, ("a.py:1", "begins with a question"))
        self.fails({"a.py": "#: What it is.\n"}, ("a.py:1", "begins with a question"))

    def test_later_lines_of_a_comment_may_ask(self):
        self.passes({"rust/wire.rs": "/// Returns\n/// What it is.\n", "a.py": "#: Is\n#: What.\n"})

    def test_a_limit(self):
        text = "// anew\n// for ever\n"
        with mock.patch.dict(prose.LIMITS, {"rust": 2}):
            self.passes({"rust/wire.rs": text})
            self.fails({"rust/wire.rs": text, "tools/a.py": "# anew\n"}, ("tools/a.py:1", "anew"))
        with mock.patch.dict(prose.LIMITS, {"rust": 1}):
            self.fails(
                {"rust/wire.rs": text}, ("rust/wire.rs:1", "anew"), ("rust/wire.rs:2", "for ever")
            )

    def test_files_without_text(self):
        self.passes({"Documentation/rfc-map.rst": "for ever\n", "a.bin": "for ever\n"})


if __name__ == "__main__":
    unittest.main()
