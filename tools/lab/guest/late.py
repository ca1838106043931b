# SPDX-License-Identifier: GPL-2.0
"""An honest but slow server takes nfsd's place.

Calls without chunks get the real server's answer at once. A READ of NFSv3 with a write chunk gets
its answer after a while: end of file, no data, and Send With Invalidate of the R_key that it has
exposed. If the client aborts the READ meanwhile, its memory is invalidated at any time. It runs
until /run/late.stop exists, and prints how many answers it has kept back.
"""

import heapq
import os
import time

from misdeeds import honest
from peer import SilenceError, header, lists, words

#: Seconds until a READ is answered: in turns, so that answers come one by one.
LATENESS = (0.10, 0.13, 0.16, 0.19, 0.22, 0.25)
STOP = "/run/late.stop"
#: How long to wait for a call before looking whether to stop.
LOOK = 0.2
#: Where an RPC call has program, version and procedure, and what these are for READ.
READ = (slice(12, 24), words(100003, 3, 6))


def end_of_file(call):
    """Returns the answer to a READ: success, no attributes, no bytes, end of file."""
    ((handle, _, offset),) = call.writes[0]
    unused = lists(writes=[[(handle, 0, offset)]])
    return header(call.xid) + unused + words(call.xid, 1, 0, 0, 0, 0) + words(0, 0, 0, 1, 0)


def is_read(call):
    return call.payload[READ[0]] == READ[1] and len(call.handles) == 1


class Late:
    """The answers that are kept back; the next one to be sent comes first."""

    def __init__(self, peer):
        self._peer, self._waiting, self.count = peer, [], 0

    def keep(self, call):
        due = time.monotonic() + LATENESS[self.count % len(LATENESS)]
        self.count += 1
        heapq.heappush(self._waiting, (due, self.count, call))

    def pause(self):
        """Returns how many seconds it takes until the next answer is due."""
        if not self._waiting:
            return LOOK
        return min(max(self._waiting[0][0] - time.monotonic(), 0), LOOK)

    def send(self):
        """Takes out the answers that are due, and returns them."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            _, _, call = heapq.heappop(self._waiting)
            answer = (end_of_file(call) if is_read(call) else honest(call)).hex()
            handle = f"{call.handles[0]:x}"
            said = self._peer.tell("sendinv", call.connection, handle, answer)
            if said != "success":
                print(f"failed: {said}", flush=True)


def serve(host):
    """Serves a connection until stopped or until the client leaves; returns if it stayed."""
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
