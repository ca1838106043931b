# SPDX-License-Identifier: GPL-2.0
"""Trace events: recording them, grouping them by RPC, and describing them in words.

- `events`: one line of the trace.
- `tracefs`: a recording of its own, which disturbs no other user of the trace.
- `rpcs`: the events of each RPC that this host makes; `words`: an RPC as a time line.
- `calls`: the events of each call that it serves; `call_words`: a call as a time line.
- `command`: ``nfsrdma trace``.
"""
