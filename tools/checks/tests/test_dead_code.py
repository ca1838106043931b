# SPDX-License-Identifier: GPL-2.0
"""Tests the check of items at which dead code is allowed."""

import unittest

from fixture import TreeTest

from checks import dead_code

ALLOW = '#[allow(dead_code, reason = "for the sample ping")]\n'
SAMPLES = {
    "samples/ping_main.rs": "#![allow(dead_code)]\nfn main() { post_read(); }\n",
    "samples/ping/end.rs": "use x::Buffer;\n",
    "samples/other_main.rs": "fn main() { call(); } // post_read\n",
}


class DeadCode(TreeTest):
    check = staticmethod(dead_code.check)

    def of(self, text):
        return {**SAMPLES, "rust/rdma/qp.rs": "//! Title.\n" + text}

    def says(self, text, words, line=2):
        self.fails(self.of(text), (f"rust/rdma/qp.rs:{line}", words))

    def test_items_of_a_sample(self):
        for item in (
            "pub(crate) fn post_read() {}\n",
            "/// Text.\n#[inline]\npub(super) unsafe fn post_read() {}\n",
            "pub(crate) struct Buffer;\n",
            "impl Buffer {}\n",
            "Buffer,\n",
        ):
            self.passes(self.of(ALLOW + item))

    def test_other_lints(self):
        self.passes(self.of("#[allow(clippy::too_many_arguments)]\nfn f() {}\n"))
        self.passes(self.of("// #[allow(dead_code)]\nfn f() {}\n"))

    def test_no_reason_or_another_one(self):
        for attribute in (
            "#[allow(dead_code)]\n",
            '#[allow(dead_code, reason = "for the host tests")]\n',
            '#[expect(dead_code, reason = "rooms are mounted whole in samples")]\n',
            "#[allow(clippy::all, unused)]\n",
        ):
            self.says(attribute + "fn post_read() {}\n", "the reason is not")

    def test_no_such_use(self):
        self.says(ALLOW + "fn post_write() {}\n", "the sample ping does not use post_write")
        self.says(ALLOW.replace("ping", "gone") + "fn call() {}\n", "sample gone does not use call")
        other = ALLOW.replace("ping", "other")
        self.says(other + "fn post_read() {}\n", "the sample other does not use post_read")

    def test_whole_modules(self):
        self.says(ALLOW + "pub(crate) mod post_read;\n", "a whole module")
        self.says("#![allow(dead_code)]\n", "a whole module")
        allow = ALLOW.replace("dead_code", "unused_imports")
        self.says(allow + "pub(crate) use end::Buffer;\n", "a whole module")

    def test_bindings(self):
        self.passes({"rust/raw.rs": "#[allow(dead_code)]\nmod generated {}\n"})


if __name__ == "__main__":
    unittest.main()
