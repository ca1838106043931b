# SPDX-License-Identifier: GPL-2.0
"""`make run`: builds everything and mounts NFS over our module, shown step by step.

Our server is mounted by our client, and then by the stock one.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from . import accel, deps, image, kernel, module, mountstats, paths, settings, splat
from .errors import LabError
from .pair import MOUNT_POINT, Pair, Setup
from .progress import say, step

TRACING = "/sys/kernel/tracing"
#: Names of the files that are copied, and their sizes in bytes.
FILES = (("empty", 0), ("small", 777), ("odd", 100_001), ("megabyte", 1 << 20), ("large", 16 << 20))
#: The events that show the stages of one RPC.
STORY = ("marshal", "chunk_read", "chunk_write", "post_send", "wc_receive", "reply", "mr_reminv")


def prepare(client: str, flavour: str) -> tuple[kernel.Kernel, Path]:
    """Builds all that a guest needs to boot; returns the kernel and the client's module."""
    deps.ensure()
    built = kernel.ensure(flavour)
    say(f"kernel {flavour}: {built.obj}")
    root = image.ensure(built.machine)
    say(f"guest image: {root}")
    if client == "stock":
        return built, built.stock_module
    ours = module.build(built).rpcrdma
    say(f"module: {ours} ({ours.stat().st_size >> 10} KiB)")
    return built, ours


def boot(built: kernel.Kernel, client_module: Path, name: str) -> Pair:
    """Boots a pair, loads the client's module, and mounts."""
    directory = paths.run_directory(name)
    server = kernel.ensure(built.flavour, "server")
    setup = Setup(
        built,
        client_module,
        module.chosen(server, settings.server()),
        server,
        link=settings.link(),
        accel=accel.choose(built),
        cpus=settings.cpus(built.flavour),
        gdb=settings.gdb(),
    )
    say(f"modules: {settings.modules()}")
    with step(f"booting a server and a client joined over {setup.link}", directory):
        pair = Pair(setup, directory)
    try:
        began = time.monotonic()
        pair.load()
        loaded = time.monotonic()
        pair.mount("4.2")
        took = time.monotonic() - loaded
        say(f"module loaded in {loaded - began:.1f} s, mounted in {took:.1f} s:")
        print("    " + pair.client.sh(f"grep ' {MOUNT_POINT} ' /proc/mounts").strip())
    except BaseException:
        pair.stop()
        raise
    return pair


def _rate(size: int, seconds: float) -> str:
    return f"{size / seconds / 1e6:.1f} MB/s" if size >= 1 << 20 else ""


def copy_up(pair: Pair) -> None:
    """Makes files on the client, copies them to the mount, and compares them on the server."""
    pair.client.sh("mkdir -p /tmp/files")
    for name, size in FILES:
        pair.client.sh(f"head -c {size} /dev/urandom > /tmp/files/{name}")
        seconds = _timed(
            pair, f"cp /tmp/files/{name} {MOUNT_POINT}/{name} && sync {MOUNT_POINT}/{name}"
        )
        here = pair.client.sh(f"sha256sum < /tmp/files/{name}")
        there = pair.server.sh(f"sha256sum < /srv/export/{name}")
        _same(name, here, there)
        print(f"    client -> server  {name:10} {size:>9} bytes  same  {_rate(size, seconds)}")


def copy_down(pair: Pair) -> None:
    """Makes files on the server and compares them on the client with nothing cached."""
    for name, size in FILES:
        pair.server.sh(f"head -c {size} /dev/urandom > /srv/export/from-server-{name}")
        path = f"{MOUNT_POINT}/from-server-{name}"
        pair.client.sh("echo 3 > /proc/sys/vm/drop_caches")
        seconds = _timed(pair, f"cp {path} /tmp/files/back")
        here = pair.client.sh("sha256sum < /tmp/files/back")
        there = pair.server.sh(f"sha256sum < /srv/export/from-server-{name}")
        _same(name, here, there)
        print(f"    server -> client  {name:10} {size:>9} bytes  same  {_rate(size, seconds)}")


def _timed(pair: Pair, command: str) -> float:
    """Runs a command; returns its seconds by the guest's own clock."""
    timed = f"a=$(date +%s.%N); {command} || exit 1; b=$(date +%s.%N); echo $a $b"
    began, ended = map(float, pair.client.sh(timed, timeout=300).split())
    return max(ended - began, 1e-6)


def _same(name: str, here: str, there: str) -> None:
    if here != there:
        raise LabError(f"{name}: checksums differ: client {here.strip()}, server {there.strip()}")


def show_trace(pair: Pair, verb: str, command: str) -> None:
    """Prints the trace events of one direct READ or WRITE of 64 KiB."""
    say(f"one {verb} of 64 KiB, in the trace events of group rpcrdma:")
    pair.client.sh(f"echo > {TRACING}/trace; echo 'rpcrdma:*' > {TRACING}/set_event")
    pair.client.sh(command, timeout=60)
    pair.client.sh(f"echo > {TRACING}/set_event")
    lines = pair.client.read(f"{TRACING}/trace").splitlines()
    for line in interesting(lines, "chunk_write" if verb == "READ" else "chunk_read"):
        print(f"    {line}")


def interesting(lines: Sequence[str], chunk: str) -> list[str]:
    """Returns the events of the task whose call carried the chunk."""
    events = [match[1] for line in lines if (match := re.search(r": (xprtrdma_\w+: .*)", line))]
    chunks = [event for event in events if event.startswith(f"xprtrdma_{chunk}:")]
    task = re.search(r"task:[0-9a-f]+@[0-9a-f]+", chunks[0]) if chunks else None
    story = tuple(f"xprtrdma_{name}:" for name in STORY)
    wanted = [event for event in events if event.startswith(story)]
    if not task:
        return wanted[:12]
    return [event for event in wanted if task[0] in event or "task:" not in event][:12]


def show_counters(pair: Pair) -> None:
    """Prints the `xprt:` line, and some of its numbers by name."""
    text = pair.client.read("/proc/self/mountstats")
    values = mountstats.parse(text, MOUNT_POINT)
    say("counters of /proc/self/mountstats:")
    print("    xprt: rdma " + " ".join(map(str, values.values())))
    shown = ("connect_count", "sends", "recvs", "read_chunks", "write_chunks", "reply_chunks")
    shown += ("rdma_request_bytes", "rdma_reply_bytes")
    print("    " + ", ".join(f"{name} {values[name]}" for name in shown))


def acts() -> list[tuple[str, str]]:
    """Returns whose modules client and server load, for each pair of guests that is shown."""
    if os.environ.get("CLIENT") or os.environ.get("SERVER"):
        return [(settings.client(), settings.server())]
    return [("ours", "ours"), ("stock", "ours")]


def main(arguments: Sequence[str]) -> int:
    """``lab run``."""
    argparse.ArgumentParser(prog="lab run", description=__doc__).parse_args(arguments)
    for client, server in acts():
        os.environ.update(CLIENT=client, SERVER=server)
        _show(client)
    return 0


def _show(client: str) -> None:
    """Shows one pair of guests at work."""
    built, client_module = prepare(client, settings.flavour())
    with boot(built, client_module, "run") as pair:
        logs = pair.directory
        say("copying files both ways, checksums by sha256:")
        copy_up(pair)
        copy_down(pair)
        direct = "bs=64k count=1 2>/dev/null"
        file = f"{MOUNT_POINT}/large"
        show_trace(pair, "READ", f"dd if={file} of=/dev/null iflag=direct {direct}")
        write = f"dd if=/dev/zero of={MOUNT_POINT}/traced oflag=direct {direct}"
        show_trace(pair, "WRITE", write)
        show_counters(pair)
        pair.umount()
        pair.unload()
        say("unmounted, module removed")
        for guest in (pair.server, pair.client):
            for report in splat.find(guest.console()):
                raise LabError(f"the {guest.name}'s kernel reported:\n{report}")
    say(f"done: NFS over RDMA, {settings.modules()}; nothing on either console")
    say(f"logs: {logs}")
