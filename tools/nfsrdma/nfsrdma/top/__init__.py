# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma top``: the activity of the connections, live in the terminal.

- `latencies`: latencies by form, from trace events.
- `sample`: the events of one interval.
- `frame`: an interval as lines of text.
- `terminal`: keys and the screen.
- `command`: the loop.
"""
