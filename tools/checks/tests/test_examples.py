# SPDX-License-Identifier: GPL-2.0
"""Tests the check of examples: each must be quoted from compiled code."""

import unittest
from unittest import mock

from fixture import TreeTest

from checks import examples

PING = """\
fn ping(qp: &Qp) -> Result {
    let first = qp.post()?;
    first.wait()?;
    qp.drain();
    Ok(())
}
"""


def documented(*code, item="pub(crate) struct Qp;"):
    lines = ["/// A queue pair.", "///", "/// # Examples", "///", "/// ```"]
    lines += [f"/// {line}" for line in code]
    return "\n".join([*lines, "/// ```", item, ""])


class Examples(TreeTest):
    check = examples.check

    def test_quoted_from_a_sample(self):
        self.passes(
            {
                "samples/ping.rs": PING,
                "rust/rdma/qp.rs": documented("let first = qp.post()?;", "    first.wait()?;"),
            }
        )

    def test_quoted_from_a_suite(self):
        suite = f"#[cfg(RPCRDMA_KUNIT)]\nmod tests {{\n{PING}}}\n"
        self.passes(
            {
                "rust/sunrpc/a.rs": suite,
                "rust/sunrpc.rs": documented("qp.drain();", "Ok(())"),
            }
        )

    def test_quoted_from_elsewhere(self):
        """Code of the module itself is no source of examples, even if the lines are equal."""
        files = {"rust/client.rs": PING, "rust/rdma/qp.rs": documented("qp.drain();")}
        self.fails(files, ("rust/rdma/qp.rs:5", "in no sample"))

    def test_lines_left_out(self):
        quoted = ["let first = qp.post()?;", "// ...", "qp.drain();"]
        files = {"samples/ping.rs": PING, "rust/rdma/qp.rs": documented(*quoted)}
        self.passes(files)
        files["rust/rdma/qp.rs"] = documented(*reversed(quoted))
        self.fails(files, ("rust/rdma/qp.rs:5", "in no sample"))
        del quoted[1]
        files["rust/rdma/qp.rs"] = documented(*quoted)
        self.fails(files, ("rust/rdma/qp.rs:5", "in no sample"))

    def test_changed_line(self):
        files = {"samples/ping.rs": PING, "rust/rdma/qp.rs": documented("qp.drain()?;")}
        self.fails(files, ("rust/rdma/qp.rs:5", "in no sample"))

    def test_empty(self):
        files = {"samples/ping.rs": PING, "rust/rdma/qp.rs": documented("// ...")}
        self.fails(files, ("rust/rdma/qp.rs:5", "empty"))

    def test_heading_alone(self):
        files = {"rust/rdma/x.rs": "/// A queue pair.\n///\n/// # Examples\nstruct Qp;\n"}
        self.fails(files, ("rust/rdma/x.rs:3", "no code block"))

    def test_other_blocks(self):
        """The check ignores diagrams, and code below another heading."""
        diagram, code = "//! ```text\n//! Qp -> Cq\n//! ```\n", "//! ```\n//! x\n//! ```\n"
        self.passes({"rust/rdma/x.rs": diagram + "//!\n" + code})

    def test_central_type(self):
        files = {
            "samples/ping.rs": PING,
            "rust/rdma/qp.rs": documented("qp.drain();", item="#[x]\npub(crate) struct Other;"),
        }
        with mock.patch.object(examples, "CENTRAL", {"rust/rdma/qp.rs": ("Other", "Qp")}):
            files["rust/rdma/qp.rs"] += "\npub(crate) struct Qp;\n"
            self.fails(files, ("rust/rdma/qp.rs:0", "Qp has no section"))


if __name__ == "__main__":
    unittest.main()
