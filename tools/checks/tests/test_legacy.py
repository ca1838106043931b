# SPDX-License-Identifier: GPL-2.0
"""Tests the check that few files mention RFC 5666."""

import unittest

from fixture import TreeTest

from checks import legacy

DOOR = "//! The door to RFC 5666.\n#[cfg(RPCRDMA_LEGACY)]\nmod legacy;\n"


class Legacy(TreeTest):
    check = legacy.check

    def test_sound(self):
        self.passes(
            {
                "rust/client.rs": DOOR,
                "rust/client/legacy.rs": "//! RFC 5666.\n",
                "rust/client/legacy/none.rs": "//! No RFC 5666.\n",
                "rust/client/send.rs": "    #[cfg(RPCRDMA_LEGACY)]\nfn f() {}\n",
                "rust/proto/credits.rs": "    //= 5666-3.3-2 not stuck on zero\nfn f() {}\n",
                "rust/proto/cases/legacy.rs": "//! RFC 5666.\n",
                "rust/observe/trace.rs": "mod legacy;\npub(crate) use legacy::*;\n",
                "rust/wire/v1.rs": "//! RFC 8166 and RFC 5666.\n",
            }
        )

    def test_mention_in_a_comment(self):
        files = {"rust/server/send.rs": "//! Sends.\n\n// A client of RFC 5666 reads it.\n"}
        self.fails(files, ("rust/server/send.rs:3", "mentions RFC 5666"))

    def test_mention_in_code(self):
        for line in ("use crate::proto::legacy::done;", "fn is_legacy();", "use self::legacy::X;"):
            files = {"rust/conn/credits.rs": line + "\n"}
            self.fails(files, ("rust/conn/credits.rs:1", "mentions RFC 5666"))

    def test_door_without_a_mention(self):
        files = {"rust/server.rs": "#[cfg(RPCRDMA_LEGACY)]\nmod legacy;\n"}
        self.fails(files, ("rust/server.rs:0", "no door any more"))

    def test_at_most_four_doors(self):
        self.assertLessEqual(len(legacy.DOORS), 4)


if __name__ == "__main__":
    unittest.main()
