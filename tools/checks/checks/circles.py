# SPDX-License-Identifier: GPL-2.0
"""Finds import circles of folders: rooms within rooms that import each other.

A reader must read a circle as a whole. The files of one folder may form one: they are the state and
the behaviour of one thing. A folder that holds other folders has no circle among its members,
unless `CIRCLES` allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from . import rust
from .tree import Finding, Tree

NAME = "circles"

# The largest circle of a folder that holds other folders. The numbers may only fall.
CIRCLES: dict[str, int] = {
    # A queue pair and its buffers: a message returns its Receive to the queue, and what was posted
    # refers to the progress of its queue pair.
    "rust/rdma": 6,
    # One C structure, `rpc_xprt`, whose operations lead to all of these.
    "rust/sunrpc/xprt": 10,
}

Graph = dict[str, set[str]]


def _module(path: str) -> tuple[str, ...]:
    """Returns the module path of a file: rust/proto/conn.rs is proto, conn."""
    return PurePath(path).with_suffix("").parts[1:]


def _targets(tree: Tree, path: str) -> Iterator[tuple[str, ...]]:
    """Yields the absolute paths that a file names outside its tests."""
    text = tree.text(path)
    module = _module(path)
    tests = rust.test_modules(text)
    inner = rust.inline_modules(text)
    for named in rust.paths(text):
        if any(t.start <= named.offset <= t.end for t in tests):
            continue
        head = named.segments[0]
        if head == "crate":
            yield named.segments[1:]
        elif head == "super":
            ups = sum(1 for segment in named.segments if segment == "super")
            inside = sum(m.start < named.offset < m.end for m in inner)
            yield module[: len(module) - max(ups - inside, 0)] + named.segments[ups:]
        # Any other first segment is a name declared by `use`, or a module of this file.


def graph(tree: Tree, folder: str) -> Graph:
    """Returns the imports of each member of a folder.

    A member is a file together with the folder of the same name.
    """
    base = PurePath(folder).parts[1:]
    files = tree.under(folder, ".rs")
    members = {_module(f)[len(base)] for f in files}
    edges: Graph = {member: set() for member in members}
    for path in files:
        source = _module(path)[len(base)]
        for target in _targets(tree, path):
            if target[: len(base)] == base and len(target) > len(base):
                edges[source] |= {target[len(base)]} & members - {source}
    return edges


def _reachable(edges: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = edges[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def circles(edges: Graph) -> list[set[str]]:
    """Returns the circles of a graph, the largest first."""
    reach = {member: _reachable(edges, member) for member in edges}
    found = {frozenset(m for m in reach[a] if a in reach[m]) for a in edges if a in reach[a]}
    return sorted((set(circle) for circle in found), key=lambda c: (-len(c), sorted(c)))


def folders(tree: Tree) -> list[str]:
    """Returns every folder below rust/ that holds folders with Rust sources."""
    paths = {str(PurePath(f).parent) for f in tree.under("rust", ".rs")}
    above = {str(parent) for path in paths for parent in PurePath(path).parents}
    return sorted(above - {"rust", "."})


def check(tree: Tree) -> list[Finding]:
    """Reports circles above the limit of their folder, and limits that are too high."""
    findings = []
    for folder in folders(tree):
        found = circles(graph(tree, folder))
        largest, limit = max(map(len, found), default=0), CIRCLES.get(folder, 0)
        if largest > limit:
            names = " ".join(sorted(found[0]))
            message = f"{largest} members import each other in a circle; at most {limit}: {names}"
            findings.append(Finding(folder, 0, message))
        elif largest < limit:
            message = f"the largest circle has {largest} members: lower the limit of {limit}"
            findings.append(Finding(folder, 0, message))
    return findings
