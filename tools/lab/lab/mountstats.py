# SPDX-License-Identifier: GPL-2.0
"""Parses the `xprt: rdma` line of /proc/self/mountstats, which has 27 values."""

from __future__ import annotations

#: The names of the values in the order in which the stock module prints them.
FIELDS = (
    "port",
    "bind_count",
    "connect_count",
    "connect_seconds",
    "idle_seconds",
    "sends",
    "recvs",
    "bad_xids",
    "req_u",
    "bklog_u",
    "read_chunks",
    "write_chunks",
    "reply_chunks",
    "rdma_request_bytes",
    "rdma_reply_bytes",
    "pullup",
    "fixup",
    "hardway",
    "failed_marshal",
    "bad_reply",
    "nomsg",
    "recycled",
    "orphaned",
    "allocated",
    "local_inv",
    "empty_sendctx",
    "reply_waits_for_send",
)


def parse(text: str, mount_point: str) -> dict[str, int]:
    """Returns the transport's counters of one mount by name.

    # Errors
    `ValueError` when the mount has no `xprt: rdma` line of exactly 27 values.
    """
    inside = False
    for line in text.splitlines():
        if line.startswith("device "):
            inside = f" mounted on {mount_point} " in line
        elif inside and line.strip().startswith("xprt:"):
            return parse_line(line)
    raise ValueError(f"no xprt line for {mount_point}")


def parse_line(line: str) -> dict[str, int]:
    """Returns the values of one `xprt:` line by name."""
    words = line.split()
    if words[:2] != ["xprt:", "rdma"]:
        raise ValueError(f"not an rdma transport: {line.strip()}")
    values = [int(word) for word in words[2:]]
    if len(values) != len(FIELDS):
        raise ValueError(f"{len(values)} values instead of {len(FIELDS)}: {line.strip()}")
    return dict(zip(FIELDS, values, strict=True))


def operations(text: str, mount_point: str) -> dict[str, int]:
    """Returns how often the client called each operation of NFS on one mount."""
    return {name: values[0] for name, values in calls(text, mount_point).items()}


def calls(text: str, mount_point: str) -> dict[str, list[int]]:
    """Returns the values of each operation of NFS on one mount.

    The first ones are: calls, transmissions, timeouts; the last one: calls that failed.
    """
    inside, found = False, {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("device "):
            inside = f" mounted on {mount_point} " in line
        elif inside and len(words) > 8 and words[0].endswith(":") and words[0].isupper():
            found[words[0].rstrip(":")] = [int(word) for word in words[1:]]
    return found
