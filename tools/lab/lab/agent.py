# SPDX-License-Identifier: GPL-2.0
"""Clients of QEMU's two JSON sockets: the machine monitor and the guest agent.

Both exchange JSON objects, one on each line. The guest agent also needs a handshake, since its
virtio port may hold bytes of an earlier conversation.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import GuestError

#: A limit ends a program that hangs. The limits of scenarios were chosen on a host that had nothing
#: else to do, and another host may be as many times slower.
SLOW_HOST = 3
#: Seconds in which the guest agent answers.
_ANSWER = 60 * SLOW_HOST
#: Prints the state of a process, and of those that only the kernel can wake, with their stacks.
_PROCESSES = """
ps -eo pid,ppid,stat,args | awk '$1 == {0} || $2 == {0} || $3 ~ /D/'
for at in $(ps -eo pid,stat | awk '$1 == {0} || $2 ~ /D/ {{print $1}}'); do
	echo "stack of $at"
	cat /proc/$at/stack
done
"""
#: Seconds that a debugger may stop a guest.
_DEBUGGING = 86400.0


class JsonSocket:
    """A Unix socket that carries JSON objects, one on each line."""

    def __init__(self, path: Path) -> None:
        """Connects, with repetitions: QEMU makes the socket first and listens a little later."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._connect(time.monotonic() + 20)
        self._buffer = b""

    def _connect(self, deadline: float) -> None:
        while True:
            try:
                return self._socket.connect(str(self._path))
            except (ConnectionRefusedError, FileNotFoundError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def send(self, message: dict[str, Any], prefix: bytes = b"") -> None:
        """Sends one object."""
        self._socket.settimeout(30)
        try:
            self._socket.sendall(prefix + json.dumps(message).encode() + b"\n")
        except OSError as err:
            raise GuestError(f"{self._path.name}: QEMU is gone: {err}") from err

    def receive(self, timeout: float) -> dict[str, Any]:
        """Returns the next object; `TimeoutError` when none comes in time."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                raise GuestError(f"{self._path.name}: QEMU closed the connection")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line.lstrip(b"\xff")))

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


class Monitor:
    """QEMU's machine protocol (QMP): captures, network links, quitting."""

    def __init__(self, path: Path) -> None:
        """Connects and completes the capability negotiation."""
        self._json = JsonSocket(path)
        self._json.receive(60)
        self.call("qmp_capabilities")

    def call(self, command: str, **arguments: Any) -> Any:
        """Runs one command and returns its result; drops events that come in between."""
        self.begin(command, **arguments)
        return self.end(command)

    def begin(self, command: str, **arguments: Any) -> None:
        """Sends one command, whose answer `end` takes."""
        self._json.send({"execute": command, "arguments": arguments})

    def end(self, command: str) -> Any:
        """Returns the result of the command that `begin` has sent."""
        while True:
            answer = self._json.receive(30)
            if "error" in answer:
                raise GuestError(f"QMP {command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]

    def close(self) -> None:
        """Closes the connection; QEMU runs on."""
        self._json.close()


@dataclass(frozen=True)
class Exit:
    """How a command in the guest ended."""

    status: int
    stdout: bytes
    stderr: bytes


class Agent:
    """The guest agent: runs programs in the guest and returns their output."""

    def __init__(self, path: Path, *, stopped: bool = False) -> None:
        """Connects; the agent in the guest may start later.

        `stopped`: a debugger may stop the guest, so no answer comes too late.
        """
        self._json = JsonSocket(path)
        self._extra = _DEBUGGING if stopped else 0.0
        self._token = 0
        # Whether the answer to an abandoned call may still arrive.
        self._owed = False

    def wait_ready(self, timeout: float) -> None:
        """Repeats the handshake until the agent answers; drops late answers to other calls."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._token += 1
            request = {"execute": "guest-sync", "arguments": {"id": self._token}}
            self._json.send(request, prefix=b"\xff")
            try:
                while self._json.receive(10.0).get("return") != self._token:
                    pass
                self._owed = False
                return
            except TimeoutError:
                continue
        raise GuestError(f"no answer from the guest agent within {timeout:.0f} s")

    def _call(self, command: str, **arguments: Any) -> Any:
        if self._owed:
            # A late answer to an earlier call must not count as the answer to this one.
            self.wait_ready(60)
        self._owed = True
        self._json.send({"execute": command, "arguments": arguments})
        try:
            answer = self._json.receive(_ANSWER + self._extra)
        except TimeoutError as err:
            told = f"the guest agent did not answer {command} for {_ANSWER} s"
            raise GuestError(told) from err
        self._owed = False
        if "error" in answer:
            raise GuestError(f"{command}: {answer['error'].get('desc')}")
        return answer["return"]

    def start(self, argv: list[str], stdin: bytes = b"") -> int:
        """Starts a program, captures its output, and returns its process id."""
        arguments: dict[str, Any] = {"path": argv[0], "arg": argv[1:], "capture-output": True}
        arguments["env"] = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]
        if stdin:
            arguments["input-data"] = base64.b64encode(stdin).decode()
        return int(self._call("guest-exec", **arguments)["pid"])

    def poll(self, pid: int) -> Exit | None:
        """Returns how the program ended, or None while it runs. Call it only once after the end."""
        answer = self._call("guest-exec-status", pid=pid)
        if not answer["exited"]:
            return None
        status = answer.get("exitcode", 128 + answer.get("signal", 0))
        out, err = (base64.b64decode(answer.get(key, "")) for key in ("out-data", "err-data"))
        return Exit(status, out, err)

    def wait(self, pid: int, timeout: float) -> Exit:
        """Waits for the program to end, for `timeout` seconds on a host without other work.

        # Errors
        `GuestError` if it still runs after `SLOW_HOST` times as long.
        """
        timeout *= SLOW_HOST
        deadline, pause = time.monotonic() + timeout + self._extra, 0.005
        while time.monotonic() < deadline:
            done = self.poll(pid)
            if done:
                return done
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)
        told = f"guest process {pid} still runs after {timeout:.0f} s"
        raise GuestError(f"{told}\n{self._processes(pid)}".rstrip())

    def _processes(self, pid: int) -> str:
        """Returns the state of a process, and the processes that only the kernel can wake."""
        look = self.start(["/bin/sh", "-c", _PROCESSES.format(pid)])
        deadline = time.monotonic() + 10 * SLOW_HOST
        while not (done := self.poll(look)):
            if time.monotonic() > deadline:
                return ""
            time.sleep(0.2)
        return done.stdout.decode(errors="replace")
