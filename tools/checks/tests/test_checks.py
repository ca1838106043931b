# SPDX-License-Identifier: GPL-2.0
"""Tests the checks: each passes a correct tree, and reports the faults of a broken one."""

import re
import unittest
from unittest import mock

from fixture import TreeTest

from checks import headers, layering, make_help, sizes, trace_events, unsafe_budget, words

FORBID = "#![forbid(unsafe_code)]\n"


class Layering(TreeTest):
    check = layering.check

    def test_sound(self):
        self.passes(
            {
                "rust/wire.rs": FORBID + "use core::fmt;\n",
                "rust/proto.rs": FORBID + "use super::wire::Segment;\nuse self::plan::P;\n",
                "rust/proto/plan.rs": "use super::super::wire::{len, Segment};\nuse super::x::Y;\n",
                "rust/client.rs": FORBID + "use crate::rdma::Qp;\nuse kernel::prelude::*;\n",
                "rust/rdma/qp.rs": "use crate::raw as bindings;\nfn f() { bindings::g() }\n",
                "rust/rpcrdma.rs": "mod client;\nuse client::X;\nuse crate::raw::Y;\n",
            }
        )

    def test_use_declaration(self):
        files = {"rust/rdma/qp.rs": "//! Doc.\nuse crate::{mem::Piece, sunrpc::Xprt};\n"}
        self.fails(files, ("rust/rdma/qp.rs:2", "`rdma` may not use `crate::sunrpc::Xprt`"))

    def test_path_in_expression(self):
        files = {"rust/client.rs": FORBID + "fn f() {\n    crate::raw::g();\n}\n"}
        self.fails(files, ("rust/client.rs:3", "crate::raw::g"))

    def test_super_out_of_the_room(self):
        files = {"rust/proto/plan/extent.rs": "use super::super::super::rdma::Qp;\n"}
        self.fails(files, ("rust/proto/plan/extent.rs:1", "super::super::super::rdma::Qp"))

    def test_super_in_inline_module(self):
        files = {
            "rust/wire.rs": FORBID + "mod tests {\n    use super::Segment;\n"
            "    use super::super::proto::X;\n}\n"
        }
        self.fails(files, ("rust/wire.rs:4", "super::super::proto::X"))

    def test_kernel_in_wire(self):
        files = {"rust/wire.rs": FORBID + "use kernel::prelude::*;\n"}
        self.fails(files, ("rust/wire.rs:2", "kernel::prelude"))

    def test_conn_names_neither_sunrpc_nor_a_role(self):
        files = {
            "rust/conn.rs": FORBID + "use crate::rdma::qp::Qp;\n",
            "rust/conn/role.rs": "use crate::client::X;\nuse crate::sunrpc::Y;\n",
        }
        self.fails(
            files,
            ("rust/conn/role.rs:1", "`conn` may not use `crate::client::X`"),
            ("rust/conn/role.rs:2", "`conn` may not use `crate::sunrpc::Y`"),
        )

    def test_client_and_server_apart(self):
        self.fails(
            {
                "rust/client.rs": FORBID + "use crate::server::X;\n",
                "rust/server.rs": FORBID + "use crate::client::X;\n",
            },
            ("rust/client.rs:2", "crate::server::X"),
            ("rust/server.rs:2", "crate::client::X"),
        )

    def test_server_names_no_c(self):
        files = {
            "rust/server.rs": FORBID + "use kernel::bindings;\n",
            "rust/server/config.rs": "use crate::raw::X;\nuse crate::sunrpc::sysctl::IntSysctl;\n",
        }
        self.fails(
            files,
            ("rust/server.rs:2", "kernel::bindings"),
            ("rust/server/config.rs:1", "`server` may not use `crate::raw::X`"),
        )

    def test_server_forbids_unsafe(self):
        files = {"rust/server.rs": "mod config;\n"}
        self.fails(files, ("rust/server.rs:1", "must begin with #![forbid(unsafe_code)]"))

    def test_bindings_in_client(self):
        files = {"rust/client.rs": FORBID + "use kernel::bindings;\n"}
        self.fails(files, ("rust/client.rs:2", "kernel::bindings"))

    def test_forbid_is_missing(self):
        self.fails({"rust/client.rs": "//! Doc.\n"}, ("rust/client.rs:1", "forbid"))

    def test_unknown_room(self):
        self.fails({"rust/attic.rs": ""}, ("rust/attic.rs:0", "not in the table"))

    def test_glue(self):
        files = {
            "rust/glue/ib.c": "#include <rdma/ib_verbs.h>\n#include <linux/sunrpc/xprt.h>\n",
            "rust/glue/sunrpc.c": "#include <rpcrdma/glue_sunrpc.h>\n#include <rdma/rw.h>\n",
        }
        self.fails(
            files,
            ("rust/glue/ib.c:2", "linux/sunrpc/xprt.h"),
            ("rust/glue/sunrpc.c:2", "rdma/rw.h"),
        )

    def test_sample(self):
        one = '#[path = "../rust/rdma.rs"]\nmod rdma;\n'
        self.passes({"samples/ping.rs": one})
        both = one + '#[path = "../rust/sunrpc.rs"]\nmod sunrpc;\n'
        self.fails({"samples/ping.rs": both}, ("samples/ping.rs:1", "rdma, sunrpc"))


class UnsafeBudget(TreeTest):
    check = unsafe_budget.check

    def test_sound(self):
        text = (
            "/// Text.\n///\n/// # Safety\n///\n/// Rule.\nunsafe fn f() {}\n"
            "// SAFETY: Why.\nunsafe impl Send for X {}\n"
            "fn g() {\n    // SAFETY: Why,\n    // at length.\n"
            "    let x =\n        unsafe { f() };\n}\n"
        )
        self.passes({"rust/rdma.rs": text})

    def test_block_without_reason(self):
        text = "fn g() {\n    let a = 1;\n    unsafe { f(a) };\n}\n"
        self.fails({"rust/rdma.rs": text}, ("rust/rdma.rs:3", "without a SAFETY comment"))

    def test_reason_belongs_to_another_statement(self):
        text = "fn g() {\n    // SAFETY: Why.\n    unsafe { f() };\n    unsafe { f() };\n}\n"
        self.fails({"rust/rdma.rs": text}, ("rust/rdma.rs:4", "without a SAFETY comment"))

    def test_function_without_contract(self):
        self.fails(
            {"rust/mem.rs": "/// Text.\nunsafe fn f() {}\n"},
            ("rust/mem.rs:2", "unsafe fn f without"),
        )

    def test_callback_without_contract(self):
        self.fails(
            {"rust/mem.rs": '/// Text.\nunsafe extern "C" fn f() {}\n'},
            ("rust/mem.rs:2", "unsafe fn f without"),
        )

    def test_room_without_budget(self):
        text = "// SAFETY: Why.\nunsafe impl Send for X {}\n"
        self.fails({"rust/client/x.rs": text}, ("rust/client.rs:0", "budget is 0"))

    def test_budget_is_used_up(self):
        text = "// SAFETY: Why.\nunsafe impl Send for X {}\n"
        more = text * (unsafe_budget.BUDGET["observe"] + 1)
        self.fails({"rust/observe.rs": more}, ("rust/observe.rs:0", "its budget is"))


class Sizes(TreeTest):
    check = sizes.check

    def test_sound(self):
        body = "    x();\n" * 58
        self.passes({"rust/a.rs": f"fn f() {{\n{body}}}\n"})

    def test_long_function(self):
        body = "    x();\n" * 59
        self.fails({"rust/a.rs": f"\nfn f() {{\n{body}}}\n"}, ("rust/a.rs:2", "f has 61 lines"))

    def test_long_c_function(self):
        body = "\tx();\n" * 60
        text = f"static int f(int a,\n\t     int b)\n{{\n{body}}}\n"
        self.fails({"rust/glue/a.c": text}, ("rust/glue/a.c:3", "f has 62 lines"))

    def test_long_python_function(self):
        body = "    x()\n" * 60
        self.fails({"a.py": f"def f():\n{body}"}, ("a.py:1", "f has 61 lines"))

    def test_long_file(self):
        self.fails({"a.rs": "// x\n" * 601}, ("a.rs:0", "601 lines"))

    def test_long_line(self):
        self.passes({"a.rs": "x" * 100, "a.py": "#" + "─" * 99, "a.rst": "x" * 101})
        self.fails({"a.rs": "// x\n" + "x" * 101}, ("a.rs:2", "101 columns"))
        self.fails({"a.c": "\t" + "x" * 93}, ("a.c:1", "101 columns"))


class Headers(TreeTest):
    check = headers.check

    def test_sound(self):
        self.passes(
            {
                "a.rs": "// SPDX-License-Identifier: GPL-2.0\n",
                "a.h": "/* SPDX-License-Identifier: GPL-2.0 */\n",
                "a.py": "#!/usr/bin/python3\n# SPDX-License-Identifier: GPL-2.0\n",
                "a.rst": ".. SPDX-License-Identifier: GPL-2.0\n",
                "a.bt": "#!/usr/bin/env bpftrace\n// SPDX-License-Identifier: GPL-2.0\n",
                "a.lua": "-- SPDX-License-Identifier: GPL-2.0\n",
                "data.json": "{}",
            }
        )

    def test_missing(self):
        self.fails({"a.rs": "//! Doc.\n"}, ("a.rs:1", "must begin with"))

    def test_wrong_comment(self):
        text = "/* SPDX-License-Identifier: GPL-2.0 */\n"
        self.fails({"a.c": text}, ("a.c:1", "// SPDX"))

    def test_script_without_suffix(self):
        self.fails({"tools/x": "#!/bin/sh\necho\n"}, ("tools/x:1", "must begin with"))


class Words(TreeTest):
    check = words.check

    def test_sound(self):
        text = (
            "fn f() { x.unwrap_or(1); }\n"
            "#[cfg(RPCRDMA_KUNIT)]\n#[kunit_tests(a)]\nmod tests { fn t() { x.unwrap(); } }\n"
            "fn g() {\n    // PANIC: Cannot be.\n    panic!()\n}\n"
        )
        self.passes({"rust/client.rs": text, "a.md": "a work/around, ../tmp/x\n"})

    def test_promise(self):
        self.fails({"a.rs": "// TO" + "DO: later\n"}, ("a.rs:1", "promise"))

    def test_unfinished(self):
        self.fails({"a.rs": "fn f() { to" + "do!() }\n"}, ("a.rs:1", "unfinished"))

    def test_registry(self):
        self.fails({"a.sh": "x\ncurl https://cra" + "tes.io/x\n"}, ("a.sh:2", "registry"))

    def test_mirror(self):
        self.fails({"a.sh": "get http://deb.deb" + "ian.org/x\n"}, ("a.sh:1", "registry"))

    def test_machine_path(self):
        self.fails({"a.sh": "cd /wo" + "rk/main\n"}, ("a.sh:1", "one machine"))

    def test_unwrap(self):
        text = "\nfn f() { x.unwrap(); }\n"
        self.fails({"rust/client/x.rs": text}, ("rust/client/x.rs:2", "may panic"))


TRACE_HEADER = """\
#define DEFINE_MR_EVENT(name) \\
    DEFINE_EVENT(c, name, \\
        TP_PROTO(RPCRDMA_TASK_PROTO, u32 id), \\
        TP_ARGS(task_id, client_id, id))

DEFINE_MR_EVENT(xprtrdma_mr_map);

TRACE_EVENT(xprtrdma_reply,
    TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid,
         const char *what),
    TP_ARGS(addr, port, xid, what),
);
"""
TRACE_PATH = trace_events.HEADERS + "/rpcrdma_rs.h"
TRACE_WRAPPERS = """\
mod form {
    pub(super) const INLINE: u32 = 0;
}
events! {
    fn mr_map(task: Task, id: u32) => xprtrdma_mr_map {
        task(task),
        id: id,
    }

    fn reply(peer: Peer<'_>, xid: u32, what: What) => xprtrdma_reply {
        addr: peer.addr,
        port: peer.port,
        xid: xid,
        what: what.name(),
    }
}
"""


TRACE_PAGE = """\
Call
====

===================  ====
``xprtrdma_mr_map``  text
``xprtrdma_reply``   text, unlike ``xprtrdma_other``
===================  ====

``task_id``
    a field

Not here
========

``xprtrdma_frwr_*`` and ``xprtrdma_gone``.
"""


class TraceEvents(TreeTest):
    check = trace_events.check

    def files(
        self, header=TRACE_HEADER, wrappers=TRACE_WRAPPERS, client="", form=0, page=TRACE_PAGE
    ):
        return {
            trace_events.PAGE: page,
            TRACE_PATH: header,
            trace_events.SHARED: f"#define RPCRDMA_FORM_INLINE\t\t{form}\n",
            trace_events.CALL: wrappers,
            "rust/client.rs": client or "fn f() { trace::mr_map(t, 1); trace::reply(p, 1, w); }\n",
        }

    def test_sound(self):
        self.passes(self.files())

    def test_no_events(self):
        self.fails(self.files(header=""), (trace_events.HEADERS + ":0", "no trace events"))

    def test_not_wrapped(self):
        header = TRACE_HEADER + "DEFINE_MR_EVENT(xprtrdma_mr_unmap);\n"
        page = "``xprtrdma_mr_unmap``  text\n" + TRACE_PAGE
        place = TRACE_PATH + ":13"
        files = self.files(header=header, page=page)
        self.fails(files, (place, "xprtrdma_mr_unmap has no wrapper"))

    def test_not_declared(self):
        header = TRACE_HEADER.replace("DEFINE_MR_EVENT(xprtrdma_mr_map);\n", "")
        page = TRACE_PAGE.replace("``xprtrdma_mr_map``", "``mr_map``         ")
        files = self.files(header=header, page=page)
        self.fails(files, (trace_events.CALL + ":5", "no event"))

    def test_not_described(self):
        page = TRACE_PAGE.replace("``xprtrdma_reply``", "``xprtrdma_ripley``")
        self.fails(
            self.files(page=page),
            (trace_events.PAGE + ":6", "no event xprtrdma_ripley"),
            (TRACE_PATH + ":8", "xprtrdma_reply has no entry"),
        )

    def test_mentioned_is_not_described(self):
        page = TRACE_PAGE.replace("``xprtrdma_mr_map``", "``xprtrdma_reply``")
        page += "* ``xprtrdma_mr_map``: text\n"
        files = self.files(page=page.replace("Not here\n========\n", ""))
        self.fails(files, (TRACE_PATH + ":6", "xprtrdma_mr_map has no entry"))

    def test_another_header(self):
        files = self.files()
        more = trace_events.HEADERS + "/more.h"
        files[more] = "TRACE_EVENT(xprtrdma_more,\n"
        self.fails(
            files,
            (more + ":1", "xprtrdma_more has no entry"),
            (more + ":1", "xprtrdma_more has no wrapper"),
        )

    def server_files(self, server):
        """Returns files with an event of the server whose function has another one's name."""
        page = TRACE_PAGE.replace("Not here", "``svcrdma_reply``  text\n\nNot here")
        return self.files(page=page) | {
            trace_events.HEADERS + "/svc.h": "TRACE_EVENT(svcrdma_reply,\n"
            "\tTP_PROTO(RPCRDMA_CID_PROTO, u32 xid),\n",
            trace_events.WRAPPERS + "/server/reply.rs": "events! {\n"
            "    fn reply(cid: Cid, xid: u32) => svcrdma_reply {\n"
            "        cq_id: cid.cq_id,\n        completion_id: cid.id,\n        xid: xid,\n"
            "    }\n}\n",
            "rust/server/reply.rs": server,
        }

    @mock.patch.dict(trace_events.UNUSED, clear=True)
    def test_the_server_has_functions_of_its_own(self):
        self.passes(self.server_files("fn f() { trace::reply(c, 1); }\n"))
        self.passes(self.server_files("fn f() { trace::server::reply(c, 1); }\n"))
        place = trace_events.HEADERS + "/svc.h:1"
        self.fails(self.server_files("fn f() {}\n"), (place, "nothing emits svcrdma_reply"))

    @mock.patch.dict(trace_events.UNUSED, {"svcrdma_*": "a test"}, clear=True)
    def test_unused_events_are_listed(self):
        place = trace_events.HEADERS + "/svc.h:1"
        files = self.server_files("fn f() { trace::reply(c, 1); }\n")
        self.fails(files, (place, "take it off the list"))
        files = self.server_files("fn f() {}\n")
        del files[trace_events.WRAPPERS + "/server/reply.rs"]
        self.passes(files)

    def test_said_to_be_absent(self):
        page = TRACE_PAGE.replace("xprtrdma_frwr_*", "xprtrdma_mr_*")
        self.fails(self.files(page=page), (trace_events.PAGE + ":15", "xprtrdma_mr_map exists"))

    def test_no_page(self):
        files = self.files()
        del files[trace_events.PAGE]
        self.fails(
            files,
            (TRACE_PATH + ":6", "no entry"),
            (TRACE_PATH + ":8", "no entry"),
        )

    def test_parameters_in_another_order(self):
        wrappers = TRACE_WRAPPERS.replace(
            "        xid: xid,\n        what: what.name(),\n",
            "        what: what.name(),\n        xid: xid,\n",
        )
        self.fails(
            self.files(wrappers=wrappers),
            (trace_events.CALL + ":10", "takes (addr, port, xid, what)"),
        )

    def class_files(self, parameters, entries):
        header = TRACE_HEADER + "DEFINE_MR_EVENT(xprtrdma_mr_unmap);\n"
        wrappers = re.sub(r"    fn mr_map.*?\n    }\n\n", "", TRACE_WRAPPERS, flags=re.DOTALL)
        wrappers += "events! {\n    class(task: Task, id: u32) {\n"
        wrappers += f"{parameters}    }}\n{entries}}}\n"
        client = "fn f() { trace::mr_map(t, 1); trace::mr_unmap(t, 1); trace::reply(p, 1, w); }\n"
        page = "``xprtrdma_mr_unmap``  text\n" + TRACE_PAGE
        return self.files(header=header, wrappers=wrappers, client=client, page=page)

    def test_class(self):
        both = "    fn mr_map => xprtrdma_mr_map;\n\n    fn mr_unmap => xprtrdma_mr_unmap;\n"
        good = "        task_id: task.task_id,\n        client_id: c,\n        id: id,\n"
        self.passes(self.class_files(good, both))
        missing = self.class_files(good, both.partition("\n\n")[0] + "\n")
        self.fails(missing, (TRACE_PATH + ":13", "xprtrdma_mr_unmap has no wrapper"))
        short = self.class_files("        id: id,\n", both)
        places = [trace_events.CALL + f":{line}" for line in (16, 18)]
        self.fails(short, *((place, "takes (task_id, client_id, id)") for place in places))

    def test_never_emitted(self):
        files = self.files(client="fn f() { trace::mr_map(t, 1); }\n")
        self.fails(files, (TRACE_PATH + ":8", "nothing emits xprtrdma_reply"))

    def test_name_differs(self):
        wrappers = TRACE_WRAPPERS.replace("fn mr_map(", "fn mapped(")
        files = self.files(wrappers=wrappers, client="fn f() { trace::mapped(); trace::reply() }")
        self.fails(files, (trace_events.CALL + ":5", "does not match"))

    def test_forms_differ(self):
        self.fails(self.files(form=1), (trace_events.CALL + ":0", "numbers of the forms"))


HELP = r"""
## help: text
help:
	@sed -n 's/^## \([^ ]*\): \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@sed -n 's/^#: \([^ ]*\) \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
"""


class MakeHelp(TreeTest):
    check = make_help.check

    def test_sound(self):
        text = "X := 1\n## all: text\nall: preflight\n\techo $(X)\npreflight:\n\techo\n"
        more = "## check: text\ncheck: check-x\n## check-x: text\ncheck-x:\n"
        self.passes({"Makefile": text + HELP, "tools/x/targets.mk": more})

    def test_sound_variables(self):
        text = "A2 ?= 1\nexport B := $(shell x $(B))\nC = $(A2) $(B) $(CURDIR)\n"
        told = "#: A2= text, default: 1\n#: B= text\n#: KIND=one|two text\n"
        files = {"Makefile": text + told + HELP, "tools/x/x.py": '_choice("KIND")\n'}
        self.passes(files)

    def test_target_without_help(self):
        self.fails({"Makefile": "all:\n\techo\n" + HELP}, ("Makefile:1", "target all"))

    def test_help_without_target(self):
        self.fails({"Makefile": "## gone: text\n" + HELP}, ("Makefile:0", "gone"))

    def test_variable_without_help(self):
        self.fails(
            {"Makefile": "A ?= 1\n# $(X) here\nB = $(if $(C),c)\n" + HELP},
            ("Makefile:1", "variable A has no"),
            ("Makefile:3", "variable C has no"),
        )

    def test_help_without_variable(self):
        self.fails({"Makefile": "#: GONE= text\n" + HELP}, ("Makefile:1", "GONE, which nothing"))

    def test_hidden(self):
        narrow = HELP.replace("#: \\([^ ]*\\)", "#: \\([A-Z=]*\\)")
        self.fails(
            {"Makefile": "X = $(A) $(B)\n#: A= text\n#: B=y|n text\n" + narrow},
            ("Makefile:3", "does not print: #: B=y|n text"),
        )

    def test_no_help_at_all(self):
        text = "X = $(A)\n#: A= text\n## all: text\nall:\n"
        self.fails({"Makefile": text}, ("Makefile:2", "not print"), ("Makefile:3", "not print"))

    def test_form(self):
        self.fails(
            {"Makefile": "X = $(A) $(B)\n#: A= B= text\n#: B=\n#: B= text\n" + HELP},
            ("Makefile:2", "a line of its own"),
            ("Makefile:3", "does not print"),
        )


if __name__ == "__main__":
    unittest.main()
