# SPDX-License-Identifier: GPL-2.0
"""Checks that each trace event is declared in C, wrapped in Rust, emitted and documented."""

from __future__ import annotations

import fnmatch
import re
from pathlib import PurePath
from typing import NamedTuple

from . import rust
from .tree import Finding, Tree, line_of

NAME = "trace events"

HEADERS = "include/trace/events"
SHARED = "include/rpcrdma/glue_trace.h"
WRAPPERS = "rust/observe/trace"
CALL = "rust/observe/trace/call.rs"
PAGE = "Documentation/tracing.rst"
# The section of the page about events of the C implementation that this module lacks.
ABSENT = "Not here"

# Events that have no wrapper, because nothing can emit them, each with the reason. They are
# declared since tools name them. A name may be a pattern with `*`.
UNUSED: dict[str, str] = {
    "svcrdma_fabric_err": "the connection manager knows no device of another fabric",
}

_TASK = ["task_id", "client_id"]
_PEER = ["addr", "port"]
_CID = ["cq_id", "completion_id"]
# Words of the macro `events!` for several parameters.
_GROUPS = {"task": _TASK, "peer": _PEER, "cid": _CID, "segment": ["handle", "length", "offset"]}


def _prototype(text: str) -> list[str]:
    """Returns the parameter names of the first TP_PROTO in `text`."""
    proto = re.search(r"TP_PROTO\(([^)]*)\)", text)
    names: list[str] = []
    for part in proto[1].replace("\\", "").split(",") if proto else []:
        word = re.findall(r"\w+", part)
        if word == ["RPCRDMA_TASK_PROTO"]:
            names += _TASK
        elif word == ["RPCRDMA_PEER_PROTO"]:
            names += _PEER
        elif word == ["RPCRDMA_CID_PROTO"]:
            names += _CID
        elif word:
            names.append(word[-1])
    return names


def declared(header: str) -> dict[str, tuple[int, list[str]]]:
    """Returns the events of a header: line, and parameters in order."""
    shorthand = {}
    for macro in re.finditer(r"#define (DEFINE_\w+)\(([^)]*)\)((?:.*\\\n)+.*)", header):
        shorthand[macro[1]] = _prototype(macro[3])
    events = {}
    for match in re.finditer(r"^TRACE_EVENT\((\w+),", header, re.MULTILINE):
        events[match[1]] = (line_of(header, match.start()), _prototype(header[match.start() :]))
    for match in re.finditer(r"^DEFINE_EVENT\(\w+,\s*(\w+),", header, re.MULTILINE):
        events[match[1]] = (line_of(header, match.start()), _prototype(header[match.start() :]))
    for match in re.finditer(r"^(DEFINE_\w+)\((?:\w+,\s*)?(\w+)\);", header, re.MULTILINE):
        if match[1] in shorthand:
            events[match[2]] = (line_of(header, match.start()), shorthand[match[1]])
    return events


def _parameters(src: str, start: int) -> tuple[list[str], int]:
    """Returns the names of the parameters in the braces that open before `start`, and their end."""
    end = rust.closing_brace(src, start - 1)
    found = re.findall(rf"^\s*(?:(\w+):|({'|'.join(_GROUPS)})\()", src[start:end], re.MULTILINE)
    return [name for single, group in found for name in _GROUPS.get(group, [single])], end


def wrapped(text: str) -> dict[str, tuple[str, int, list[str]]]:
    """Returns the events that a file wraps: function name, line, and parameters in order."""
    found = {}
    src = rust.code(text)
    for match in re.finditer(r"\bfn (\w+)\([^)]*\)\s*=>\s*(\w+)\s*\{", src):
        parameters, _ = _parameters(src, match.end())
        found[match[2]] = (match[1], line_of(text, match.start()), parameters)
    for match in re.finditer(r"\bclass\([^)]*\)\s*\{", src):
        parameters, end = _parameters(src, match.end())
        for event in re.finditer(r"\bfn (\w+)\s*=>\s*(\w+);", src[end : src.index("}", end + 1)]):
            found[event[2]] = (event[1], line_of(text, end + event.start()), parameters)
    return found


class Event(NamedTuple):
    """A declared event: where, and its parameters in order."""

    header: str
    line: int
    parameters: list[str]


def _all_declared(tree: Tree) -> dict[str, Event]:
    """Returns the events of all headers."""
    return {
        event: Event(path, line, parameters)
        for path in tree.under(HEADERS, ".h")
        for event, (line, parameters) in declared(tree.text(path)).items()
    }


def _check_parameters(tree: Tree, events: dict[str, Event]) -> list[Finding]:
    findings = []
    for path in tree.under(WRAPPERS, ".rs"):
        for event, (name, line, parameters) in wrapped(tree.text(path)).items():
            if event not in events:
                findings.append(Finding(path, line, f"no event {event} in {HEADERS}"))
            elif parameters != events[event].parameters:
                wanted = ", ".join(events[event].parameters)
                findings.append(Finding(path, line, f"{event} takes ({wanted}), in this order"))
            if not event.endswith("_" + name):
                findings.append(Finding(path, line, f"{name} does not match the event {event}"))
    return findings


def _of_server(path: str) -> bool:
    """Returns whether a file belongs to the server.

    The functions of the server's events are in `trace::server`, and may have the names of others.
    """
    return "server" in (PurePath(part).stem for part in PurePath(path).parts)


def _calls(tree: Tree, name: str, of_server: bool) -> bool:
    """Returns whether something calls the function of an event."""
    for path in tree.under("rust", ".rs"):
        src = rust.code(tree.text(path))
        # Other rooms call `trace::name`. Inside the room `observe` any call by name counts.
        inside = path.startswith("rust/observe/")
        call = rf"(?<!fn )(?<!\.)\b{name}\(" if inside else rf"\btrace::{name}\b"
        if _of_server(path) == of_server and re.search(call, src):
            return True
        if of_server and re.search(rf"\btrace::server::{name}\b", src):
            return True
    return False


def _check_uses(tree: Tree, events: dict[str, Event]) -> list[Finding]:
    names = {
        event: (name, _of_server(path))
        for path in tree.under(WRAPPERS, ".rs")
        for event, (name, _, _) in wrapped(tree.text(path)).items()
    }
    findings, unused = [], []
    for event, (header, line, _) in events.items():
        if event not in names:
            unused.append(event)
            if not any(fnmatch.fnmatch(event, pattern) for pattern in UNUSED):
                findings.append(Finding(header, line, f"{event} has no wrapper in {WRAPPERS}"))
        elif not _calls(tree, *names[event]):
            findings.append(Finding(header, line, f"nothing emits {event}"))
    for pattern in UNUSED:
        there = fnmatch.filter(events, pattern)
        if there and not fnmatch.filter(unused, pattern):
            where = events[there[0]]
            message = f"{pattern} has a wrapper: take it off the list UNUSED"
            findings.append(Finding(where.header, where.line, message))
    return findings


def _check_forms(tree: Tree) -> list[Finding]:
    """Reports numbers of forms in Rust that C does not have. C has one more, that of stock."""
    in_c = dict(re.findall(r"#define RPCRDMA_FORM_(\w+)\s+(\d+)", tree.text(SHARED)))
    in_rust = dict(re.findall(r"const (\w+): u32 = (\d+);", tree.text(CALL)))
    if in_rust and in_rust.items() <= in_c.items():
        return []
    return [Finding(CALL, 0, f"numbers of the forms differ from {SHARED}")]


def described(page: str) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the events in the tables of the page, and the absent ones, each with its line.

    The name of an absent event may be a pattern with `*`.
    """
    entries: dict[str, int] = {}
    absent: dict[str, int] = {}
    section, lines = "", page.splitlines()
    for number, line in enumerate(lines, 1):
        if re.match(r"=+$", line) and number > 1 and len(line) == len(lines[number - 2]):
            section = lines[number - 2]
        if section == ABSENT:
            absent |= dict.fromkeys(re.findall(r"``((?:xprt|svc)rdma_[\w*]+)``", line), number)
        elif entry := re.match(r"``((?:xprt|svc)rdma_\w+)``\s+\S", line):
            entries.setdefault(entry[1], number)
    return entries, absent


def _check_page(tree: Tree, events: dict[str, Event]) -> list[Finding]:
    """Reports declared events without an entry, and entries without a declared event."""
    entries, absent = described(tree.text(PAGE) if PAGE in tree.files else "")
    findings = [
        Finding(where.header, where.line, f"{event} has no entry in {PAGE}")
        for event, where in events.items()
        if event not in entries
    ]
    for event, line in entries.items():
        if event not in events:
            findings.append(Finding(PAGE, line, f"no event {event} in {HEADERS}"))
    for pattern, line in absent.items():
        there = fnmatch.filter(events, pattern)
        findings += [Finding(PAGE, line, f"{event} exists in {HEADERS}") for event in there]
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports events that are not declared, wrapped, emitted and documented alike."""
    events = _all_declared(tree)
    if not events:
        return [Finding(HEADERS, 0, "no trace events found")]
    return (
        _check_parameters(tree, events)
        + _check_uses(tree, events)
        + _check_forms(tree)
        + _check_page(tree, events)
    )
