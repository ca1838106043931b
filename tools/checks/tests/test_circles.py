# SPDX-License-Identifier: GPL-2.0
"""Tests the check of import circles: it reports circles, and no other imports."""

import unittest
from unittest import mock

from fixture import TreeTest

from checks import circles


class Circles(TreeTest):
    check = circles.check

    def test_a_chain_is_no_circle(self):
        self.passes(
            {
                "rust/client/call/send.rs": "use crate::client::conn::endpoint;\n",
                "rust/client/conn/endpoint.rs": "use super::super::request::R;\n",
                "rust/client/request.rs": "use crate::rdma::send::S;\n",
            }
        )

    def test_files_of_one_folder_may_form_a_circle(self):
        files = {
            "rust/client/call/send.rs": "use super::reply;\n",
            "rust/client/call/reply.rs": "fn f() { crate::client::call::send::g() }\n",
        }
        self.passes(files)

    def test_two_folders(self):
        files = {
            "rust/client/call/send.rs": "use crate::client::conn::connect;\n",
            "rust/client/conn/connect.rs": "fn f() { crate::client::call::send::g() }\n",
        }
        self.fails(files, ("rust/client:0", "2 members import each other in a circle; at most 0"))

    def test_three_members_by_way_of_each_other(self):
        files = {
            "rust/client/a.rs": "use super::b::X;\n",
            "rust/client/b.rs": "use super::{c, d};\n",
            "rust/client/c/inner.rs": "use super::super::a::Y;\n",
            "rust/client/d.rs": "",
        }
        said = "3 members import each other in a circle; at most 0: a b c"
        self.fails(files, ("rust/client:0", said))

    def test_a_file_and_its_folder_are_one(self):
        self.passes(
            {
                "rust/client/qp.rs": "mod post;\nuse post::P;\n",
                "rust/client/qp/post.rs": "use super::Qp;\n",
            }
        )
        files = {
            "rust/client/qp.rs": "mod post;\n",
            "rust/client/qp/post.rs": "use super::super::mr::Mr;\n",
            "rust/client/mr.rs": "use super::qp::Qp;\n",
        }
        self.fails(files, ("rust/client:0", "2 members"))

    def test_tests_and_local_names_do_not_count(self):
        self.passes(
            {
                "rust/client/c/d.rs": "",
                "rust/client/a.rs": "use super::b::X;\n"
                "#[cfg(test)]\nmod tests { use super::super::b; }\n",
                "rust/client/b.rs": "use crate::conn::a;\nfn f() { a::g() }\n"
                "#[cfg(test)]\nmod tests {\n    use super::super::a;\n}\n",
            }
        )

    def test_a_limit_that_is_too_high(self):
        files = {"rust/client/a/b.rs": ""}
        with mock.patch.dict(circles.CIRCLES, {"rust/client": 2}):
            self.fails(files, ("rust/client:0", "lower the limit of 2"))


if __name__ == "__main__":
    unittest.main()
