#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Sets nfsd's listeners by netlink, as nfsdctl does: listeners.py (TRANSPORT ADDRESS PORT)*.

nfsd must have no threads. The listeners that are not named are closed.
"""

import os
import socket
import struct
import sys

#: linux/netlink.h, linux/genetlink.h, linux/nfsd_netlink.h
REQUEST_ACK, NESTED, ERROR, GENERIC = 1 | 4, 1 << 15, 2, 16
CONTROLLER, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
LISTENER_SET, SOCKET, SOCKET_ADDRESS, SOCKET_TRANSPORT = 6, 1, 1, 2


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def address(host, port):
    """Returns a sockaddr_in or sockaddr_in6."""
    if ":" in host:
        packed = socket.inet_pton(socket.AF_INET6, host)
        return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0) + packed + bytes(4)
    packed = socket.inet_aton(host)
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + packed + bytes(8)


def ask(netlink, family, command, attributes):
    """Sends a request and returns the attributes of the answers.

    # Errors
    `OSError` with the error of the kernel.
    """
    body = struct.pack("=BBH", command, 1, 0) + attributes
    netlink.send(struct.pack("=IHHII", 16 + len(body), family, REQUEST_ACK, 1, 0) + body)
    answer = b""
    while True:
        data = netlink.recv(1 << 16)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            if kind == ERROR:
                (code,) = struct.unpack_from("=i", data, 16)
                if code:
                    raise OSError(-code, os.strerror(-code))
                return answer
            answer, data = answer + data[20:length], data[length + -length % 4 :]


def family_of(netlink, name):
    """Returns the number of a family of generic netlink."""
    asked = attribute(FAMILY_NAME, name.encode() + b"\0")
    answer = ask(netlink, CONTROLLER, GET_FAMILY, asked)
    while answer:
        length, kind = struct.unpack_from("=HH", answer)
        if kind == FAMILY_ID:
            return struct.unpack_from("=H", answer, 4)[0]
        answer = answer[length + -length % 4 :]
    raise SystemExit(f"no family {name}")


def main():
    words = sys.argv[1:]
    listeners = b""
    for transport, host, port in zip(words[::3], words[1::3], words[2::3]):
        inside = attribute(SOCKET_ADDRESS, address(host, int(port)))
        inside += attribute(SOCKET_TRANSPORT, transport.encode() + b"\0")
        listeners += attribute(SOCKET | NESTED, inside)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC) as netlink:
        ask(netlink, family_of(netlink, "nfsd"), LISTENER_SET, listeners)


main()
