# SPDX-License-Identifier: GPL-2.0
"""A mount or a listener that fails leaves one line in the log: a row of the tables in the guide."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lab import hostile, paths
from lab.agent import Exit
from lab.failures import KINDS, Failures
from lab.pair import MOUNT_POINT, SERVER_ADDRESS, Guest, Pair
from lab.relay import Relay

#: Over iWARP a port that is silent, and one that nobody has, are matters of TCP.
pytestmark = [pytest.mark.needs_ours, pytest.mark.rxe_only]

NOWHERE = "ip link add nowhere0 type dummy && ip link set nowhere0 up"
#: The files with the rows about mounts, and about listeners.
CLIENT, LISTENERS = "rust/client/advice.rs", "rust/server/log.rs"
#: An address of the network that no host has, and a way to it.
STRANGER = "10.0.0.98"
WAY = f"ip neighbour replace {STRANGER} lladdr 02:00:00:00:00:98 dev eth0"


def _rows(path: str) -> list[tuple[str, str, str]]:
    """Returns message, cause and next step of each row, as the guide has them."""
    sys.path.insert(0, str(paths.ROOT / "tools/checks"))
    try:
        from checks import errors_table  # noqa: PLC0415
    finally:
        sys.path.pop(0)
    return list(errors_table.rows((paths.ROOT / path).read_text()))


def _log(guest: Guest) -> list[str]:
    return guest.sh("dmesg | grep 'rpcrdma: ' || true").splitlines()


@contextmanager
def _one_line(guest: Guest, path: str, message: str, begin: str) -> Iterator[list[str]]:
    """Checks that the block leaves one line, a row for this message. Yields the log."""
    rows = [(cause, step) for told, cause, step in _rows(path) if told == message]
    assert rows, f"the table has no row for '{message}'"
    before = len(_log(guest))
    wanted = [f"{cause}; next: {step}" for cause, step in rows]
    yield wanted
    texts = [text for text in _log(guest)[before:] if "cannot" in text or "connecting" in text]
    # mount(8) tries some errors once more after a second, which makes another transport.
    (line,) = {text.partition("] ")[2] for text in texts}
    print(line)
    assert begin in line
    assert any(line.endswith(text) for text in wanted), line


@dataclass(frozen=True)
class Case:
    """A mount that fails."""

    message: str
    address: str = SERVER_ADDRESS
    port: int = 20049
    prepare: str = "true"
    undo: str = "true"


CASES = {
    "refused": Case("Connection refused", port=20050),
    "no-route": Case("Network is unreachable", "192.168.77.1"),
    "other-interface": Case(
        "Protocol error",
        "192.0.2.7",
        prepare=f"{NOWHERE} && ip route add 192.0.2.0/24 dev nowhere0",
        undo="ip link del nowhere0",
    ),
    "unreachable": Case(
        "No route to host",
        "198.51.100.1",
        prepare="ip route add unreachable 198.51.100.0/24",
        undo="ip route del unreachable 198.51.100.0/24",
    ),
    "absent": Case("Protocol error", "10.0.0.99"),
    "no-device": Case(
        "Protocol error",
        prepare="rdma link del rxe0",
        undo="rdma link add rxe0 type rxe netdev eth0",
    ),
}


def _mount(pair: Pair, address: str, port: int = 20049, limit: float = 30) -> Exit:
    """Tries to mount, for at most this number of seconds."""
    words = f"vers=4.2,proto=rdma,port={port},retry=0 {address}:/export {MOUNT_POINT}"
    command = f"mkdir -p {MOUNT_POINT}; timeout -s KILL {limit} mount -t nfs -o {words}"
    done = pair.client.run(command, timeout=limit + 30)
    assert done.status
    return done


@pytest.mark.parametrize("name", CASES)
def test_mount(pair: Pair, name: str) -> None:
    """The mount command and the log describe the problem on the path to the server."""
    case = CASES[name]
    begin = f"connecting to {case.address} port {case.port}: "
    pair.client.sh(case.prepare)
    try:
        with _one_line(pair.client, CLIENT, case.message, begin):
            said = _mount(pair, case.address, case.port).stderr.decode()
            assert case.message in said
    finally:
        pair.client.sh(case.undo)


def _mount_until(pair: Pair, address: str, wanted: list[str], limit: float) -> None:
    """Tries to mount in vain until the log has one of the lines."""
    words = f"vers=4.2,proto=rdma,port=20049,retry=0 {address}:/export {MOUNT_POINT}"
    command = f"mkdir -p {MOUNT_POINT}; exec mount -t nfs -o {words}"
    trying = pair.client.vm.start(command)
    deadline = time.monotonic() + limit
    before = len(_log(pair.client))
    while time.monotonic() < deadline:
        if any(line.endswith(text) for text in wanted for line in _log(pair.client)[before:]):
            break
        time.sleep(0.5)
    pair.client.run(f"kill -KILL {trying}; pkill -KILL mount.nfs")
    pair.client.vm.agent.wait(trying, 60)


@pytest.mark.full
def test_silent_host(pair: Pair) -> None:
    """No host answers the connection request; the mount would keep trying."""
    message, begin = "Connection timed out", f"connecting to {STRANGER} port 20049: "
    pair.client.sh(WAY)
    try:
        with _one_line(pair.client, CLIENT, message, begin) as wanted:
            _mount_until(pair, STRANGER, wanted, 90)
    finally:
        pair.client.sh(f"ip neighbour del {STRANGER} dev eth0")


#: A device whose first queue pair has the number that the first one of the last device had.
AGAIN = "rdma link del rxe0; rdma link add rxe0 type rxe netdev eth0"


def test_server_that_ends_the_handshake(pair: Pair, relay: Relay) -> None:
    """The server still has a connection to the queue pair of this number, and ends the handshake.

    That one is gone with its device, and the server is not notified. The mount retries.
    """
    begin = f"connecting to {SERVER_ADDRESS} port 20049: "
    pair.client.sh(AGAIN)
    pair.mount("3", options="nolock")
    relay.set("blackout", 1)
    pair.client.sh(f"umount -f -l {MOUNT_POINT}; {AGAIN}", timeout=120)
    relay.set("blackout", 0)
    with _one_line(pair.client, CLIENT, "no message, it retries", begin):
        pair.mount("3", options="nolock")
    pair.umount()


WAITS = "no message, it waits"


@pytest.mark.breaks_rules
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        pytest.param("leaves", WAITS, marks=pytest.mark.full),
        ("versions", "mount system call failed"),
        pytest.param("mute", WAITS, marks=pytest.mark.full),
    ],
)
def test_unwilling_server(pair: Pair, mode: str, message: str) -> None:
    """The connection is made, and the first call gets no reply, or one that refuses it."""
    peer = hostile.take_port(pair, mode, program="unwilling.py")
    begin = f"connecting to {SERVER_ADDRESS} port 20049: "
    try:
        with _one_line(pair.client, CLIENT, message, begin) as wanted:
            if message == WAITS:
                _mount_until(pair, SERVER_ADDRESS, wanted, 60)
            else:
                assert message in _mount(pair, SERVER_ADDRESS).stderr.decode()
    finally:
        hostile.drop(pair, peer)
        hostile.return_port(pair)
    pair.mount()
    pair.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
def test_listeners(pair: Pair) -> None:
    """The port is in use, the host lacks the address, or its interface is no RDMA device's."""
    lacking = "Cannot assign requested address"
    with _one_line(pair.server, LISTENERS, lacking, "cannot listen on 0.0.0.0:20049: error -99: "):
        done = pair.server.run("echo 'rdma 20049' > /proc/fs/nfsd/portlist")
        assert lacking in done.stderr.decode()
    pair.stop_nfsd()
    pair.server.sh(f"{NOWHERE} && ip address add 192.0.2.7/24 dev nowhere0")
    try:
        for address, message in (
            ("192.0.2.8", lacking),
            ("192.0.2.7", "No such device"),
        ):
            begin = f"cannot listen on {address}:20049: error "
            with _one_line(pair.server, LISTENERS, message, begin):
                done = pair.server.run(f"python3 /lab/listeners.py rdma {address} 20049")
                assert message in done.stderr.decode()
    finally:
        pair.server.run("ip link del nowhere0; rpc.nfsd 0", timeout=120)
        pair.start_nfsd()
    pair.mount()
    pair.umount()


#: Holds the port at the server's address, as another program would.
HOLDER = """
import ctypes, socket, struct, sys, time
cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
cm.rdma_create_event_channel.restype = ctypes.c_void_p
ident = ctypes.c_void_p()
cm.rdma_create_id(ctypes.c_void_p(cm.rdma_create_event_channel()), ctypes.byref(ident), None, 0x106)
address = struct.pack("=H", socket.AF_INET) + struct.pack(">H", int(sys.argv[2]))
address += socket.inet_aton(sys.argv[1]) + bytes(8)
failed = cm.rdma_bind_addr(ident, address) or cm.rdma_listen(ident, 1)
print("failed" if failed else "holds", flush=True)
time.sleep(600)
"""


@pytest.mark.needs_our_server
@pytest.mark.server
def test_listener_beside_another_program(pair: Pair) -> None:
    """Another program listens at the same address and port."""
    message, begin = "Address already in use", f"cannot listen on {SERVER_ADDRESS}:20049: error -98"
    pair.stop_nfsd()
    pair.server.write("/run/holder.py", HOLDER.encode())
    holder = pair.server.vm.start(
        f"exec python3 /run/holder.py {SERVER_ADDRESS} 20049 > /run/holder"
    )
    try:
        pair.server.sh("until grep -q . /run/holder; do sleep 0.1; done")
        assert pair.server.read("/run/holder") == "holds\n"
        with _one_line(pair.server, LISTENERS, message, begin):
            done = pair.server.run(f"python3 /lab/listeners.py rdma {SERVER_ADDRESS} 20049")
            assert message in done.stderr.decode()
    finally:
        pair.server.run(f"kill {holder}")
        pair.server.vm.agent.wait(holder, 20)
        pair.server.run("rpc.nfsd 0", timeout=120)
        pair.start_nfsd()
    pair.mount()
    pair.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
def test_listener_with_another_error(pair: Pair) -> None:
    """An address of a link without its interface: the row for all other errors."""
    cause, begin = "the connection manager refuses it; next: ", "cannot listen on [fe80::1]:20049"
    before = len(_log(pair.server))
    pair.stop_nfsd()
    try:
        done = pair.server.run("python3 /lab/listeners.py rdma fe80::1 20049")
        assert "Invalid argument" in done.stderr.decode()
        (line,) = _log(pair.server)[before:]
        assert f"{begin}: error -22: {cause}" in line
    finally:
        pair.server.run("rpc.nfsd 0", timeout=120)
        pair.start_nfsd()
    pair.mount()
    pair.umount()


@pytest.mark.needs_our_server
@pytest.mark.server
@pytest.mark.debug_kernel
@pytest.mark.debug_only
def test_listener_without_memory(pair: Pair) -> None:
    """No allocation of the module succeeds."""
    message, begin = "Cannot allocate memory", "cannot listen on 0.0.0.0:20049: error -12"
    pair.starved = True
    pair.server.sh(f"rpc.nfsd 0 && rpc.nfsd {pair.setup.threads}", timeout=120)
    try:
        with (
            _one_line(pair.server, LISTENERS, message, begin),
            Failures(pair.server, KINDS[0], 100) as failures,
        ):
            done = pair.server.run("echo 'rdma 20049' > /proc/fs/nfsd/portlist")
        assert message in done.stderr.decode()
        assert failures.failed
    finally:
        pair.server.run("echo 'rdma 20049' > /proc/fs/nfsd/portlist")
    pair.mount()
    pair.umount()


def test_settings(pair: Pair) -> None:
    """A value outside its range is refused at once, and fails no mount later."""
    before = _log(pair.client)
    for name, value in (
        ("rdma_slot_table_entries", 0),
        ("rdma_max_inline_read", 1),
        ("rdma_version", 7),
    ):
        told = pair.client.run(f"sysctl sunrpc.{name}={value}").stderr.decode()
        assert f'setting key "sunrpc.{name}"' in told
        assert "Invalid argument" in told
    assert _log(pair.client) == before
    pair.mount()
    pair.umount()
