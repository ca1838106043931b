# SPDX-License-Identifier: GPL-2.0
"""A machine that does not exist: files by path, and programs by their command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from nfsrdma.host import MISSING, Host, Ran
from nfsrdma.ucm import Answer

UP = (
    "id=1 role=client net=1 peer=10.0.0.1:20049 state=up age_s=4000 state_s=125 connects=1"
    " lost=none failures=0 error=0 probes=0 breaches=0 device=rxe0 port=1 version=2 terms=3"
    " call_bytes=4096 reply_bytes=8192 invalidation=1 backward=1 credit_limit=128 credits=64"
    " in_use=5 inline=1 read=2 write=3 reply=4 fencing=6 regions=32 regions_idle=20"
    " regions_used=10 regions_unusable=2 receives=176 receives_posted=175 send_queue=1000"
    " send_queue_free=900 silent=0\n"
)
DOWN = (
    "id=2 role=client net=1 peer=10.0.0.3:20049 state=down age_s=90 state_s=30 connects=1"
    " lost=peer failures=4 error=-111 probes=2 breaches=0 failing_s=75 next_attempt_s=9\n"
)
SERVED = UP.replace("id=1 role=client", "id=3 role=server").replace("10.0.0.1:20049", "10.0.0.9:51")

MOUNTED = (
    "36 23 0:31 / /mnt/nfs rw,relatime shared:1 - nfs4 10.0.0.1:/export rw,vers=4.2,rsize=1048576,"
    "wsize=1048576,proto=rdma,port=20049,sec=sys,addr=10.0.0.1\n"
)

NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
#: Those of the address that the device has made of its MAC, and of 10.0.0.2.
GIDS = (
    "fe80:0000:0000:0000:0000:00ff:fe00:0002",
    "0000:0000:0000:0000:0000:ffff:0a00:0002",
    NO_GID,
)


class FakeHost(Host):
    """A machine with only the contents that a test gives it."""

    def __init__(self) -> None:
        """Makes a client of 10.0.0.1 at which nothing is wrong."""
        self.files: dict[str, str] = {}
        self.ran: dict[tuple[str, ...], Ran] = {}
        self.denied: set[str] = set()
        self.answer = Answer.LISTENS
        self.tcp = False
        self.root = True
        self.known = {"server": ["10.0.0.1"]}
        self.meanwhile: Callable[[], object] = lambda: None
        self.written: Callable[[str, str], str] = lambda _path, _text: "No such file or directory"
        self._module()
        self._device()
        self._network()

    def _module(self) -> None:
        self.files |= {
            "/sys/module/rpcrdma/version": "0.1.0\n",
            "/sys/module/rpcrdma/taint": "OE\n",
            "/sys/kernel/debug/rpcrdma/connections": UP,
            "/sys/kernel/debug/rpcrdma/breaches": "malformed_header 0\nsession 0\n",
            "/sys/kernel/debug/rpcrdma/requester_breaches": "slow 0\n",
            "/proc/sys/kernel/osrelease": "7.3.4\n",
            "/proc/self/mountinfo": MOUNTED,
            "/proc/sys/sunrpc/rdma_version": "auto\n",
            "/proc/sys/sunrpc/rdma_max_inline_read": "4096\n",
            "/proc/sys/sunrpc/rdma_max_inline_write": "4096\n",
            "/proc/sys/sunrpc/rdma_slot_table_entries": "128\n",
            "/proc/meminfo": "MemTotal: 1000000 kB\nMemFree: 10 kB\nMemAvailable: 500000 kB\n",
        }
        self.program("modinfo", "-n", "rpcrdma", out="/lib/modules/rpcrdma.ko\n")
        self.program("modinfo", "-F", "version", "rpcrdma", out="0.1.0\n")
        self.program("dmesg", out="rpcrdma: loaded\n")

    def _device(self) -> None:
        port = "/sys/class/infiniband/rxe0/ports/1"
        self.files |= {
            f"{port}/state": "4: ACTIVE\n",
            f"{port}/link_layer": "Ethernet\n",
            "/sys/class/infiniband/rxe0/node_type": "1: CA\n",
        }
        for index, value in enumerate(GIDS):
            self.gid(index, value)
        link = {"ifname": "rxe0", "port": 1, "state": "ACTIVE", "netdev": "eth0"}
        self.json("rdma", "-j", "link", "show", value=[link])

    def _network(self) -> None:
        address = {"family": "inet", "local": "10.0.0.2", "scope": "global"}
        local = {"family": "inet6", "local": "fe80::2", "scope": "link"}
        self.eth0 = {
            "ifname": "eth0",
            "flags": ["BROADCAST", "UP"],
            "mtu": 4200,
            "addr_info": [address, local],
        }
        self.program("ip", "-V", out="ip utility\n")
        self.json("ip", "-j", "address", "show", value=[self.eth0])
        self.route("10.0.0.1", [{"dst": "10.0.0.1", "dev": "eth0"}])
        self.neighbour("10.0.0.1", "REACHABLE")

    def gid(self, index: int, value: str, kind: str = "RoCE v2", netdev: str = "eth0") -> None:
        """Sets an entry of the GID table."""
        port = "/sys/class/infiniband/rxe0/ports/1"
        self.files[f"{port}/gids/{index}"] = f"{value}\n"
        if value != NO_GID:
            self.files[f"{port}/gid_attrs/types/{index}"] = f"{kind}\n"
            self.files[f"{port}/gid_attrs/ndevs/{index}"] = f"{netdev}\n"

    def route(self, address: str, value: Any) -> None:
        """Sets the route to an address."""
        self.json("ip", "-j", "route", "get", address, value=value)

    def neighbour(self, address: str, state: str) -> None:
        """Sets the state of a neighbour on eth0."""
        entry = {"dst": address, "state": [state]}
        where = ("to", address, "dev", "eth0")
        self.json("ip", "-j", "neighbour", "show", *where, value=[entry])

    def connection(self, **fields: object) -> None:
        """Replaces fields of the connection."""
        words = dict(word.split("=") for word in UP.split())
        words |= {name: str(value) for name, value in fields.items()}
        line = " ".join(f"{name}={value}" for name, value in words.items())
        self.files["/sys/kernel/debug/rpcrdma/connections"] = line + "\n"

    def remove(self, folder: str) -> None:
        """Removes all files below a folder."""
        self.files = {path: text for path, text in self.files.items() if folder not in path}

    def program(self, *argv: str, out: str = "", status: int = 0) -> None:
        """Installs a program that prints something."""
        self.ran[argv] = Ran(status, out)

    def json(self, *argv: str, value: Any) -> None:
        """Installs a program that prints JSON."""
        self.program(*argv, out=json.dumps(value))

    def read(self, path: str) -> str | None:
        """Returns the text of a file."""
        return None if path in self.denied else self.files.get(path)

    def write(self, path: str, text: str, _attempts: int = 1) -> str:
        """Runs the action that a test has set for such a write. Returns its error."""
        return self.written(path, text)

    def names(self, path: str) -> list[str]:
        """Returns the names below a folder."""
        prefix = PurePosixPath(path).parts
        parts = (PurePosixPath(file).parts for file in self.files)
        below = (part for part in parts if part[: len(prefix)] == prefix)
        return sorted({part[len(prefix)] for part in below if len(part) > len(prefix)})

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return path not in self.denied and (path in self.files or bool(self.names(path)))

    def is_denied(self, path: str) -> bool:
        """Whether a test has denied the file."""
        return path in self.denied

    def is_root(self) -> bool:
        """Whether a test has left it root."""
        return self.root

    def run(self, *argv: str) -> Ran:
        """Returns the output of the program, if a test has installed it."""
        return self.ran.get(argv, Ran(MISSING, ""))

    def pause(self, _seconds: float) -> None:
        """Runs the action that a test has set for such a pause."""
        self.meanwhile()

    def ask_port(self, _address: str, _port: int) -> Answer:
        """Returns the answer that a test has set."""
        return self.answer

    def answers_tcp(self, _address: str, _port: int) -> bool:
        """Returns the answer that a test has set."""
        return self.tcp

    def addresses(self, name: str) -> list[str]:
        """Returns the addresses of a known name."""
        return self.known.get(name, [])
