# SPDX-License-Identifier: GPL-2.0
"""Tests the measurements of the crate's shape, and the check of their limits."""

import unittest
from unittest import mock

from fixture import TreeTest

from checks import shape

KUNIT = "#[cfg(RPCRDMA_KUNIT)]\nmod tests {\n    fn t() {}\n}\n"


class Shape(TreeTest):
    check = shape.check

    def test_comments_literals_and_tests_are_no_code(self):
        files = {
            "rust/client/a.rs": '//! Room.\n\nfn f() {\n    // why\n    g("{")\n}\n' + KUNIT,
            "rust/client/a/tests.rs": "fn t() {}\n",
            "rust/wire/vectors/rpc.rs": "fn t() {}\n",
        }
        # The attribute of a module of tests counts as a line.
        with mock.patch.object(shape, "CODE_MAX", 3):
            self.fails(files, ("rust:0", "4 code lines; at most 3"))

    def test_a_file_and_its_folder_are_one_box(self):
        files = {
            "rust/client/call.rs": "",
            "rust/client/call/send.rs": "",
            "rust/client/ops.rs": "",
        }
        with mock.patch.dict(shape.BOXES, {"rust/client": 2}):
            self.passes(files)
        with mock.patch.dict(shape.BOXES, {"rust/client": 1}):
            self.fails(files, ("rust/client:0", "2 boxes; at most 1"))

    def test_inlining_attributes(self):
        files = {
            "rust/a.rs": "#[inline]\nfn f() {}\n#[inline(always)]\n#[must_use]\n"
            "pub(crate) const fn g() {}\nfn h() {}\nfn i() {}\n"
        }
        self.fails(files, ("rust:0", "50 percent of the functions are inlined"))

    def test_traits_with_one_implementor(self):
        files = {
            "rust/a.rs": "trait One {}\nimpl<T> One for S<T> {}\n"
            "trait Two<T> {}\nimpl Two<u8> for S<u8> {}\nimpl Two<u8> for S<u16> {}\n"
        }
        with mock.patch.object(shape, "SINGLE_TRAITS_MAX", 1):
            self.passes(files)
        with mock.patch.object(shape, "SINGLE_TRAITS_MAX", 0):
            self.fails(files, ("rust:0", "1 traits with one implementor; at most 0"))

    def test_files_that_name_a_phase(self):
        files = {
            "rust/client/a.rs": "fn f() { x == Phase::Sent }\n",
            "rust/client/b.rs": "//! [`Phase::Sent`]\n",
        }
        with mock.patch.object(shape, "PHASE_FILES_MAX", 0):
            self.fails(files, ("rust/client:0", "1 files name a phase; at most 0"))


if __name__ == "__main__":
    unittest.main()
