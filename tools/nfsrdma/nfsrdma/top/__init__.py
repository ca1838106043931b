# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma top``: what the connections do, live in the terminal.

- `latencies`: latencies by form, from trace events.
- `sample`: what has happened in one interval.
- `frame`: an interval as lines of text.
- `terminal`: keys and the screen.
- `command`: the loop.
"""
