# SPDX-License-Identifier: GPL-2.0
"""Checks the dependencies between rooms against Documentation/architecture.rst.

It reads every path in `use` declarations and expressions, and the includes of the C glue.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from . import rust
from .tree import Finding, Tree, line_of

NAME = "layering"

_CORE = {"core"}
_KERNEL = {"core", "kernel", "pin_init"}
_NEUTRAL = {"compat", "mem", "text", "work"}
_SHARED = {"wire", "proto", "rdma", "sunrpc", "observe", "conn"} | _NEUTRAL
_ALL = _SHARED | {"raw", "client", "server"}

# The rooms and crates that a room may name besides itself.
ROOMS: dict[str, set[str]] = {
    "wire": _CORE,
    "proto": _CORE | {"wire"},
    "raw": _KERNEL,
    # Reads a parameter of the module that the glue defines.
    "compat": _KERNEL | {"raw"},
    "mem": _KERNEL | {"compat", "raw"},
    "text": _KERNEL,
    "work": _KERNEL | {"compat"},
    "rdma": _KERNEL | {"raw"} | _NEUTRAL,
    "sunrpc": _KERNEL | {"raw"} | _NEUTRAL,
    "observe": _KERNEL | {"compat", "raw", "wire", "proto", "text"},
    # `conn` depends neither on SUNRPC nor on a role.
    "conn": _KERNEL | {"wire", "proto", "rdma", "observe"} | _NEUTRAL,
    # The roles, client and server, never name each other.
    "client": _KERNEL | _SHARED,
    "server": _KERNEL | _SHARED,
    "rpcrdma": _KERNEL | _ALL | {"kunit"},
    "kunit": _KERNEL | {"wire", "proto"},
}

# Rooms that must contain `#![forbid(unsafe_code)]`.
FORBID_UNSAFE = ("wire", "proto", "conn", "client", "server")

# Rooms that may not name `kernel::bindings`.
_NO_BINDINGS = ("wire", "proto", "conn", "client", "server")

# Sets of rooms that a sample may include with #[path]. None has both rdma and sunrpc, so that
# samples show that these rooms are independent.
_SAMPLE_ROOMS = ({"raw", "rdma"} | _NEUTRAL, {"raw", "sunrpc"} | _NEUTRAL)

# The includes that a C file must not have, because its room may not depend on them.
GLUE: dict[str, str] = {
    "rust/glue/ib.c": r"linux/sunrpc/|glue_sunrpc\.h",
    "include/rpcrdma/glue_ib.h": r"linux/sunrpc/|glue_sunrpc\.h",
    "rust/glue/sunrpc.c": r"(?<!rpc)rdma/|glue_ib\.h",
    "include/rpcrdma/glue_sunrpc.h": r"(?<!rpc)rdma/|glue_ib\.h",
    "rust/glue/mem.c": r"linux/sunrpc/|(?<!rpc)rdma/|glue_(?!mem\.h)",
    "include/rpcrdma/glue_mem.h": r"linux/sunrpc/|(?<!rpc)rdma/|glue_",
    "rust/glue/compat.c": r"linux/sunrpc/|(?<!rpc)rdma/|glue_(?!compat\.h)",
    "include/rpcrdma/glue_compat.h": r"linux/sunrpc/|(?<!rpc)rdma/|glue_",
    "rust/glue/trace.c": r"linux/sunrpc/|glue_",
}

# What `module!` defines at the root of the crate. Every room may name it.
_MODULE = {"LocalModule", "THIS_MODULE"}

_EXTERNAL = {"core", "kernel", "pin_init", "alloc", "std", "zerocopy"}


def room_of(path: str) -> str | None:
    """Returns the room of a file under rust/."""
    parts = PurePath(path).parts
    if parts[0] != "rust" or not path.endswith(".rs"):
        return None
    return PurePath(parts[1]).stem


def _module_depth(path: str) -> int:
    """Returns the depth of a file's module: it is 2 for rust/proto/conn.rs."""
    return len(PurePath(path).parts) - 1


def resolve(path: rust.Path, depth: int, room: str) -> tuple[str, ...]:
    """Returns the absolute form of a path: the room or crate, then the rest.

    A local name belongs to the file's own room.
    """
    head, *rest = path.segments
    if head in ("crate", "$crate"):
        return tuple(rest)
    if head == "super":
        up = next((i for i, s in enumerate(path.segments) if s != "super"), len(path.segments))
        if up >= depth:
            return path.segments[up:]
        return (room, *path.segments[up:])
    if head in _EXTERNAL:
        return path.segments
    return (room, *path.segments)


def _check_file(tree: Tree, path: str, room: str) -> list[Finding]:
    text = tree.text(path)
    allowed = ROOMS[room] | {room}
    inner = rust.inline_modules(text)
    findings = []
    for named in rust.paths(text):
        depth = _module_depth(path) + sum(m.start < named.offset < m.end for m in inner)
        target = resolve(named, depth, room)
        if not target or (path == "rust/rpcrdma.rs" and target[0] not in _EXTERNAL):
            continue
        if target[0] in _MODULE and "kernel" in allowed:
            continue
        bindings = room in _NO_BINDINGS and target[:2] == ("kernel", "bindings")
        if target[0] not in allowed or bindings:
            written = "::".join(named.segments)
            message = f"room `{room}` may not use `{written}`"
            findings.append(Finding(path, line_of(text, named.offset), message))
    return findings


def _check_forbid(tree: Tree) -> list[Finding]:
    return [
        Finding(f"rust/{room}.rs", 1, "room must begin with #![forbid(unsafe_code)]")
        for room in FORBID_UNSAFE
        if f"rust/{room}.rs" in tree.files
        and not re.search(r"#!\[forbid\([^)]*unsafe_code", rust.code(tree.text(f"rust/{room}.rs")))
    ]


def _check_glue(tree: Tree) -> list[Finding]:
    findings = []
    for path, foreign in GLUE.items():
        if path not in tree.files:
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            include = re.match(r"\s*#\s*include\s*[<\"]([^>\"]*)", line)
            if include and re.search(foreign, include[1]):
                findings.append(Finding(path, number, f"may not include {include[1]}"))
    return findings


def _check_samples(tree: Tree) -> list[Finding]:
    findings = []
    for path in tree.under("samples", ".rs"):
        mounted = set(re.findall(r'#\[path = "[./]*rust/(\w+)\.rs"\]', tree.text(path)))
        if mounted and not any(mounted <= rooms for rooms in _SAMPLE_ROOMS):
            rooms = ", ".join(sorted(mounted))
            findings.append(Finding(path, 1, f"a sample may not mount these together: {rooms}"))
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports every dependency that is not allowed."""
    findings = []
    for path in tree.under("rust", ".rs"):
        room = room_of(path)
        if room not in ROOMS:
            findings.append(Finding(path, 0, f"room `{room}` is not in the table of layering.py"))
        elif "generated" not in path and path != "rust/raw/closure.rs":
            findings += _check_file(tree, path, room)
    return findings + _check_forbid(tree) + _check_glue(tree) + _check_samples(tree)
