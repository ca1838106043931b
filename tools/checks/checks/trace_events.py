# SPDX-License-Identifier: GPL-2.0
"""Checks that each trace event is declared in C, wrapped in Rust, emitted and documented."""

from __future__ import annotations

import fnmatch
import re

from . import rust
from .tree import Finding, Tree, line_of

NAME = "trace events"

HEADERS = "include/trace/events"
HEADER = f"{HEADERS}/rpcrdma_rs.h"
SHARED = "include/rpcrdma/glue_trace.h"
WRAPPERS = "rust/observe/trace"
CALL = "rust/observe/trace/call.rs"
PAGE = "Documentation/tracing.rst"
# The section of the page about events of the C implementation that this module lacks.
ABSENT = "Not here"

# Events that nothing emits yet, each with the reason for its declaration.
UNUSED: dict[str, str] = {}

_TASK = ["task_id", "client_id"]
_PEER = ["addr", "port"]


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


def wrapped(text: str) -> dict[str, tuple[str, int, list[str]]]:
    """Returns the events that a file wraps: function name, line, and parameters in order."""
    found = {}
    src = rust.code(text)
    for match in re.finditer(r"\bfn (\w+)\([^)]*\)\s*=>\s*(\w+)\s*\{", src):
        body = src[match.end() : rust.closing_brace(src, match.end() - 1)]
        parameters = re.findall(r"^\s*(\w+):", body, re.MULTILINE)
        found[match[2]] = (match[1], line_of(text, match.start()), parameters)
    return found


def _check_parameters(tree: Tree, events: dict[str, tuple[int, list[str]]]) -> list[Finding]:
    findings = []
    for path in tree.under(WRAPPERS, ".rs"):
        for event, (name, line, parameters) in wrapped(tree.text(path)).items():
            if event not in events:
                findings.append(Finding(path, line, f"no event {event} in {HEADER}"))
            elif parameters != events[event][1]:
                wanted = ", ".join(events[event][1])
                findings.append(Finding(path, line, f"{event} takes ({wanted}), in this order"))
            if not event.endswith("_" + name):
                findings.append(Finding(path, line, f"{name} does not match the event {event}"))
    return findings


def _check_uses(tree: Tree, events: dict[str, tuple[int, list[str]]]) -> list[Finding]:
    names = {}
    for path in tree.under(WRAPPERS, ".rs"):
        names.update({e: n for e, (n, _, _) in wrapped(tree.text(path)).items()})
    # Other rooms call `trace::name`. Inside the room `observe` any call by name counts.
    outside, inside = "", ""
    for path in tree.under("rust", ".rs"):
        if path.startswith("rust/observe/"):
            inside += rust.code(tree.text(path))
        else:
            outside += rust.code(tree.text(path))
    findings = []
    for event, (line, _) in events.items():
        if event not in names:
            findings.append(Finding(HEADER, line, f"{event} has no wrapper in {WRAPPERS}"))
            continue
        name = names[event]
        called = re.search(rf"(?<!fn )(?<!\.)\b{name}\(", inside)
        used = called is not None or re.search(rf"\btrace::{name}\b", outside) is not None
        if not used and event not in UNUSED:
            findings.append(Finding(HEADER, line, f"nothing emits {event}"))
        if used and event in UNUSED:
            findings.append(Finding(HEADER, line, f"{event} is used: take it off the list UNUSED"))
    return findings


def _check_forms(tree: Tree) -> list[Finding]:
    """Reports a difference between the numbers of the forms in C and in Rust."""
    in_c = dict(re.findall(r"#define RPCRDMA_FORM_(\w+)\s+(\d+)", tree.text(SHARED)))
    in_rust = dict(re.findall(r"const (\w+): u32 = (\d+);", tree.text(CALL)))
    if in_c and in_c == in_rust:
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
            absent |= dict.fromkeys(re.findall(r"``(xprtrdma_[\w*]+)``", line), number)
        elif entry := re.match(r"``(xprtrdma_\w+)``\s+\S", line):
            entries.setdefault(entry[1], number)
    return entries, absent


def _check_page(tree: Tree) -> list[Finding]:
    """Reports declared events without an entry, and entries without a declared event."""
    entries, absent = described(tree.text(PAGE) if PAGE in tree.files else "")
    findings, known = [], set()
    for path in tree.under(HEADERS, ".h"):
        for event, (line, _) in declared(tree.text(path)).items():
            known.add(event)
            if event not in entries:
                findings.append(Finding(path, line, f"{event} has no entry in {PAGE}"))
    for event, line in entries.items():
        if event not in known:
            findings.append(Finding(PAGE, line, f"no event {event} in {HEADERS}"))
    for pattern, line in absent.items():
        there = fnmatch.filter(known, pattern)
        findings += [Finding(PAGE, line, f"{event} exists in {HEADERS}") for event in there]
    return findings


def check(tree: Tree) -> list[Finding]:
    """Reports events that are not declared, wrapped, emitted and documented alike."""
    events = declared(tree.text(HEADER))
    if not events:
        return [Finding(HEADER, 0, "no trace events found")]
    return (
        _check_parameters(tree, events)
        + _check_uses(tree, events)
        + _check_forms(tree)
        + _check_page(tree)
    )
