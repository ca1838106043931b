#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""An NFS server that accepts connections and serves nothing: unwilling.py MODE VERSION.

``leaves`` ends each connection at once, ``mute`` answers no call, ``versions`` answers each call
with ERR_VERS for a version that does not exist. VERSION is not used. It runs until it is killed.
"""

import sys

from peer import ERR_VERS, ERROR, Call, Peer, header, words

#: Seconds without a connection request after which this server is no longer needed.
COMING = 600
#: The only version that it takes.
LATER = 9


def serve(peer, mode):
    """Handles the next event."""
    event, connection, *rest = peer.event(COMING, "request", "received")
    if event == "request":
        peer.accept(connection)
        if mode == "leaves":
            peer.tell("disconnect", connection)
    elif mode == "versions":
        call = Call(connection, bytes.fromhex(rest[0]))
        peer.send(connection, header(call.xid, ERROR) + words(ERR_VERS, LATER, LATER))


def main():
    peer = Peer()
    print("ready", flush=True)
    try:
        while True:
            serve(peer, sys.argv[1])
    finally:
        peer.kill()


main()
