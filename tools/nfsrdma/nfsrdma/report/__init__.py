# SPDX-License-Identifier: GPL-2.0
"""``nfsrdma report``: a recording as one self-contained HTML page.

- `record`: the recording.
- `tally`: calls by operation and form.
- `mask`: replaces addresses and names.
- `svg`: charts.
- `page`: the page.
- `command`: records and writes.
"""
