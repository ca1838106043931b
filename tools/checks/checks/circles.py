# SPDX-License-Identifier: GPL-2.0
"""Import circles: files of one folder that import each other, directly or by way of others.

A circle can only be read as a whole. A folder has none, unless `CIRCLES` names its largest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from . import rust
from .tree import Finding, Tree

NAME = "circles"

# Folder: the most files that one of its circles may have. The numbers may only fall.
CIRCLES: dict[str, int] = {
    # A queue pair and its buffers: a message returns its Receive to the queue, and what was posted
    # refers to the progress of its queue pair.
    "rust/rdma": 7,
    # One C structure, `rpc_xprt`, whose operations lead to all of these.
    "rust/sunrpc/xprt": 14,
}

Graph = dict[str, set[str]]


def _module(path: str) -> tuple[str, ...]:
    """The module that a file is: rust/proto/requester/plan.rs is proto, requester, plan."""
    return PurePath(path).with_suffix("").parts[1:]


def _targets(tree: Tree, path: str) -> Iterator[tuple[str, ...]]:
    """The absolute paths that a file names outside its tests."""
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
        # Any other head is a name that a `use` has declared, or a module of this file.


def graph(tree: Tree, folder: str) -> Graph:
    """Which member of a folder imports which; a member is a file with the folder of its name."""
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
    """The circles of a graph, the largest first."""
    reach = {member: _reachable(edges, member) for member in edges}
    found = {frozenset(m for m in reach[a] if a in reach[m]) for a in edges if a in reach[a]}
    return sorted((set(circle) for circle in found), key=lambda c: (-len(c), sorted(c)))


def folders(tree: Tree) -> list[str]:
    """Every folder below rust/ that holds Rust sources."""
    paths = {str(PurePath(f).parent) for f in tree.under("rust", ".rs")}
    return sorted(p for p in paths if p != "rust")


def check(tree: Tree) -> list[Finding]:
    """Every circle that is larger than its folder may have, and every limit that is too high."""
    findings = []
    for folder in folders(tree):
        found = circles(graph(tree, folder))
        largest, limit = max(map(len, found), default=0), CIRCLES.get(folder, 0)
        if largest > limit:
            names = " ".join(sorted(found[0]))
            message = f"{largest} files import each other in a circle; at most {limit}: {names}"
            findings.append(Finding(folder, 0, message))
        elif largest < limit:
            message = f"the largest circle has {largest} files: lower the limit of {limit}"
            findings.append(Finding(folder, 0, message))
    return findings
