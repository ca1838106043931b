# SPDX-License-Identifier: GPL-2.0
"""An honest server in the wrong place: whatever exposes memory gets its answer late.

Calls without chunks get the real server's answer at once. A call that exposes memory gets an honest
error, by Send With Invalidate of its own R_key, after a time that goes through `LATENESS` from
call to call: some before the client has lost patience, some just then, some long after it. Goes on
until /run/late.stop exists, and prints how many answers it has kept back.
"""

import heapq
import os
import time

from misdeeds import honest
from peer import SilenceError

#: Seconds, around the client's patience of half a second; less than that and its rest together.
LATENESS = (0.40, 0.46, 0.48, 0.49, 0.50, 0.51, 0.52, 0.53, 0.55, 0.60, 0.80)
STOP = "/run/late.stop"
#: How long to wait for a call before looking whether to stop.
LOOK = 0.2


class Late:
    """Answers kept back, the next one first."""

    def __init__(self, peer):
        self._peer, self._waiting, self.count = peer, [], 0

    def keep(self, call):
        due = time.monotonic() + LATENESS[self.count % len(LATENESS)]
        self.count += 1
        heapq.heappush(self._waiting, (due, self.count, call))

    def pause(self):
        """Seconds until the next one is due."""
        if not self._waiting:
            return LOOK
        return min(max(self._waiting[0][0] - time.monotonic(), 0), LOOK)

    def send(self):
        """Those that are due."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, call = heapq.heappop(self._waiting)
            handle, answer = f"{call.handles[0]:x}", honest(call).hex()
            said = self._peer.tell("sendinv", call.connection, handle, answer)
            if said != "success":
                print(f"failed: {said}", flush=True)


def serve(host):
    """One connection until told to stop, or until the client leaves; whether it has stayed."""
    late = Late(host.peer)
    call, stayed = None, True
    while stayed and not os.path.exists(STOP):
        late.send()
        try:
            call = host.next_call(late.pause())
        except SilenceError:
            continue
        stayed = call is not None
        if stayed and call.handles:
            late.keep(call)
        elif stayed:
            host.answer(call)
    print(f"kept back {late.count}", flush=True)
    return stayed
