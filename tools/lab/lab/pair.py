# SPDX-License-Identifier: GPL-2.0
"""Two guests on one cable: an NFS server and an NFS client over soft RDMA."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import bystander, gdb, image, paths
from .agent import Exit
from .disk import Disk
from .errors import BootError, GuestError
from .kernel import Kernel
from .progress import say
from .relay import Relay
from .vm import Spec, Vm

SERVER_ADDRESS = "10.0.0.1"
CLIENT_ADDRESS = "10.0.0.2"
#: All addresses of the client: one in a network namespace (lab/namespace.py), and one of its
#: second port.
CLIENT_ADDRESSES = (CLIENT_ADDRESS, "fd00::2", "10.0.1.2", "10.0.0.102")
MOUNT_POINT = "/mnt/nfs"
_IMAGE_ONLY = ("init", "packages.txt", "stage1")
#: Seconds in which two guests boot under emulation on two cores that do nothing else, and how many
#: times slower than that a host counts at most.
_QUIET_BOOT, _SLOWEST = 12.0, 8.0


@dataclass(frozen=True)
class Setup:
    """The kernel, modules and link of a pair of guests."""

    kernel: Kernel
    client_module: Path
    server_module: Path
    #: The server's kernel, if it is not the client's.
    server_kernel: Kernel | None = None
    link: str = "rxe"
    #: Network cards of each guest, see `vm.Spec`.
    ports: int = 1
    #: How the RDMA device reaches memory, see `settings.DMA_MODES`.
    dma: str = "none"
    accel: str = "tcg"
    cpus: int = 2
    threads: int = 8
    cmdline: str = ""
    #: Further arguments of QEMU.
    client_extra: tuple[str, ...] = ()
    server_extra: tuple[str, ...] = ()
    #: Further files for the guests' /lab by name, and those that are different on the server.
    files: Mapping[str, Path] = field(default_factory=dict)
    server_files: Mapping[str, Path] = field(default_factory=dict)
    relay: bool = False
    #: The file system that the server exports: tmpfs, or one of `disk.MAKERS` on a disk.
    export: str = "tmpfs"
    #: Whether gdb may connect to the guests.
    gdb: bool = False
    #: Megabytes of the client's memory; 0 for the size of the server's.
    client_memory: int = 0
    #: Whether there is a third guest, see `bystander`.
    bystander: bool = False

    def kernel_of(self, name: str) -> Kernel:
        """Returns the kernel of a guest, ``client`` or ``server``."""
        return self.server_kernel or self.kernel if name == "server" else self.kernel

    @property
    def patience(self) -> float:
        """How many times longer a guest takes for its work than with the plain kernel.

        The checks of the debug kernel slow down everything that allocates memory.
        """
        return 4 if self.kernel.flavour == "debug" else 1


class Guest:
    """A guest as scenarios use it: they run shell commands in it."""

    def __init__(self, vm: Vm, patience: float) -> None:
        """Wraps a virtual machine; see `Setup.patience`."""
        self.vm = vm
        self.name = vm.spec.name
        self._patience = patience

    def run(self, command: str, *, timeout: float = 60, stdin: bytes = b"") -> Exit:
        """Runs a shell command and returns how it ended."""
        return self.vm.run(command, timeout=timeout * self._patience, stdin=stdin)

    def sh(self, command: str, *, timeout: float = 60, stdin: bytes = b"") -> str:
        """Runs a shell command and returns its standard output.

        # Errors
        `GuestError` when the command fails.
        """
        done = self.run(command, timeout=timeout, stdin=stdin)
        if done.status:
            text = (done.stdout + done.stderr).decode(errors="replace").strip()
            if len(text) > 3000:
                text = f"{text[:1000]} … {text[-2000:]}"
            raise GuestError(f"{self.name}: `{command}` ended {done.status}: {text}")
        return done.stdout.decode(errors="replace")

    def need_device(self, link: str) -> None:
        """Checks that init has added the RDMA device.

        # Errors
        `GuestError` without the device: no mount would work.
        """
        if self.run(f"test -e /sys/class/infiniband/{link}0").status:
            release = self.sh("uname -r").strip()
            raise GuestError(f"{self.name}: no device of type {link}: has {release} its module?")

    def read(self, path: str) -> str:
        """Returns the text of a file in the guest."""
        return self.sh(f"cat {shlex.quote(path)}")

    def write(self, path: str, data: bytes) -> None:
        """Creates a file in the guest."""
        self.sh(f"cat > {shlex.quote(path)}", stdin=data)

    def console(self) -> str:
        """Returns all that the guest's kernel has printed so far."""
        return self.vm.spec.console.read_text(errors="replace")


def _remove(guest: Guest, module: str, patience: float) -> None:
    """Removes a module, which may be in use for `patience` seconds."""
    deadline = time.monotonic() + patience
    while guest.run(f"rmmod {module}").status:
        if time.monotonic() > deadline:
            guest.sh(f"rmmod {module}")
        time.sleep(0.05)


class Pair:
    """Both guests, booted; the server exports a directory, and the client is ready to mount."""

    def __init__(self, setup: Setup, directory: Path) -> None:
        """Boots both guests in parallel and starts their services.

        # Errors
        `GuestError`; no guest runs then.
        """
        self.setup, self.directory = setup, directory
        #: The number of successful mounts.
        self.mounts = 0
        #: Whether a scenario has made allocations fail.
        self.starved = False
        #: The captures of the running scenario in order; the last one may still be running.
        self.pcaps: list[Path] = []
        try:
            self._bring_up()
        except BootError as err:
            # On a busy host an emulated kernel may hang in its first steps, or misread its clock.
            say(f"booting again: {err}")
            self._bring_up()

    def _bring_up(self) -> None:
        began = time.monotonic()
        setup = self.setup
        self._vms: list[Vm] = []
        self._sockets = Path(tempfile.mkdtemp(prefix="lab-"))
        self.relay: Relay | None = None
        self.bystander: Guest | None = None
        #: The disk whose file system the server exports, if it does.
        self.disk: Disk | None = None
        try:
            if setup.export != "tmpfs":
                self.directory.mkdir(parents=True, exist_ok=True)
                self.disk = Disk(setup.export, self.directory, self._sockets / "disk.sock")
            if setup.relay:
                ends = [self._sockets / f"{name}-end.sock" for name in ("server", "client")]
                self.relay = Relay(*ends)
            server = self._boot("server", SERVER_ADDRESS, setup.server_module)
            self.server = Guest(server, setup.patience)
            client = self._boot("client", CLIENT_ADDRESS, setup.client_module)
            self.client = Guest(client, setup.patience)
            if setup.bystander:
                third = self._boot(bystander.NAME, bystander.ADDRESS, setup.client_module)
                self.bystander = Guest(third, setup.patience)
            for vm in self._vms:
                vm.wait_boot()
            self.boot_seconds = time.monotonic() - began
            for guest in self.guests:
                guest.need_device(setup.link)
                if guest is not self.server:
                    guest.sh("/lab/client-up")
            if self.bystander:
                bystander.connect(self.server, setup.link)
            self.start_server()
        except BaseException:
            self.stop()
            raise

    @property
    def guests(self) -> list[Guest]:
        """All guests, the server first."""
        return [self.server, self.client] + ([self.bystander] if self.bystander else [])

    @property
    def patience(self) -> float:
        """How many times longer the guests may take for their work than on a quiet host.

        The boot shows how slow the host and the kernel are. Bounds of what takes time of the
        processors are scaled by this; those of timers are not.
        """
        slowness = min(self.boot_seconds / _QUIET_BOOT, _SLOWEST)
        return max(self.setup.patience, slowness)

    def start_server(self) -> None:
        """Loads the server's module and starts nfsd, after a boot or after `crash_server`."""
        setup = self.setup
        self.server.sh(f"/lab/server-up {setup.threads} {setup.export}", timeout=120)
        self._offer_gdb(self.server, setup.server_module)

    def _spec(self, name: str, address: str, payload: Path) -> Spec:
        setup = self.setup
        kernel = setup.kernel_of(name)
        debug = kernel.flavour == "debug"
        return Spec(
            name=name,
            address=address,
            kernel=kernel.image,
            image=image.ensure(kernel.machine),
            machine=kernel.machine,
            payload=payload,
            directory=self.directory,
            sockets=self._sockets,
            link_end=self._link_end(name),
            link=setup.link,
            ports=setup.ports,
            dma=setup.dma,
            accel=setup.accel if kernel.machine.native else "tcg",
            cpus=setup.cpus,
            memory=3072 if debug else 1536,
            cmdline=setup.cmdline,
            gdb=setup.gdb,
        )

    def _link_end(self, name: str) -> str:
        """Returns QEMU's end of the cable: guests connect to the relay, or one to the other."""
        if name == bystander.NAME:
            return bystander.link_end(self._sockets, server=False)
        if self.relay:
            return f"server=off,addr.type=unix,addr.path={self._sockets}/{name}-end.sock"
        address = f"addr.type=unix,addr.path={self._sockets}/link.sock"
        return f"server={'on' if name == 'server' else 'off'},{address}"

    def _boot(self, name: str, address: str, module: Path) -> Vm:
        self.directory.mkdir(parents=True, exist_ok=True)
        payload = self.directory / f"{name}-payload.tar"
        scripts = {p.name: p for p in paths.GUEST.iterdir() if p.name not in _IMAGE_ONLY}
        files = {**self.setup.files, **(self.setup.server_files if name == "server" else {})}
        image.payload(payload, {"rpcrdma.ko": module, **scripts, **files})
        spec = self._spec(name, address, payload)
        if name == "client":
            memory = self.setup.client_memory or spec.memory
            nice = bystander.NICE if self.setup.bystander else 0
            spec = replace(spec, extra=self.setup.client_extra, memory=memory, nice=nice)
        elif name == bystander.NAME:
            extra = self.setup.client_extra
            spec = replace(spec, cpus=1, memory=bystander.MEMORY, extra=extra)
        else:
            extra = bystander.server_card(self._sockets) if self.setup.bystander else ()
            disk = self.disk.arguments if self.disk else ()
            spec = replace(spec, extra=(*self.setup.server_extra, *extra, *disk))
        vm = Vm(spec)
        self._vms.append(vm)
        return vm

    @property
    def alive(self) -> bool:
        """Whether all guests still run."""
        return all(vm.alive for vm in self._vms)

    def load(self, parameters: str = "") -> None:
        """Loads rpcrdma.ko on the client."""
        self.client.sh(f"insmod /lab/rpcrdma.ko {parameters}".rstrip())
        self._offer_gdb(self.client, self.setup.client_module)

    def _offer_gdb(self, guest: Guest, module: Path) -> None:
        """Writes gdb's command file for a guest that has just loaded its module."""
        if self.setup.gdb:
            gdb.write(guest, self.setup.kernel_of(guest.name).vmlinux, module)

    def unload(self, patience: float = 10.0, *, module: str = "rpcrdma") -> None:
        """Removes rpcrdma.ko, or another module, from the client.

        Teardown after umount is asynchronous, so the module may be in use for `patience` seconds,
        and longer on a slow host.
        """
        _remove(self.client, module, patience * self.patience)

    def load_server(self, parameters: str = "") -> None:
        """Loads rpcrdma.ko on the server, which has no RDMA port until `start_nfsd`."""
        self.server.sh(f"insmod /lab/rpcrdma.ko {parameters}".rstrip())
        self._offer_gdb(self.server, self.setup.server_module)

    def unload_server(self, patience: float = 10.0, *, module: str = "rpcrdma") -> None:
        """Removes rpcrdma.ko, or another module, from the server, whose nfsd has no threads."""
        _remove(self.server, module, patience * self.patience)

    def mount(
        self,
        version: str = "4.2",
        *,
        options: str = "",
        at: str = MOUNT_POINT,
        proto: str = "rdma",
        namespace: str = "",
    ) -> None:
        """Mounts the server's export on the client over RDMA.

        `proto`: ``rdma6`` for IPv6. `namespace`: the network namespace of the mount, which all
        processes can see.
        """
        server = "server6" if proto.endswith("6") else "server"
        words = f"vers={version},proto={proto},port=20049" + (f",{options}" if options else "")
        inside = f"nsenter --net=/run/netns/{namespace} " if namespace else ""
        command = f"mkdir -p {at} && {inside}mount -t nfs -o {words} {server}:/export {at}"
        self.client.sh(command, timeout=120)
        self.mounts += 1

    def umount(self, at: str = MOUNT_POINT) -> None:
        """Unmounts a mount."""
        self.client.sh(f"umount {at}", timeout=120)

    def stop_nfsd(self) -> None:
        """Stops the threads of nfsd; the exports stay."""
        self.server.sh("rpc.nfsd 0", timeout=120)

    def start_nfsd(self) -> None:
        """Starts the threads of nfsd and opens the RDMA port."""
        port = "echo 'rdma 20049' > /proc/fs/nfsd/portlist"
        self.server.sh(f"rpc.nfsd {self.setup.threads} && {port}", timeout=120)

    def restart_nfsd(self, pause: float = 0) -> None:
        """Stops nfsd, waits `pause` seconds, and starts it."""
        self.stop_nfsd()
        time.sleep(pause)
        self.start_nfsd()

    def crash_server(self, seed: int) -> None:
        """Resets the server, whose disk loses its unflushed writes, and boots it without nfsd.

        The export is mounted afterwards. `start_server` is next.
        """
        vm = self.server.vm
        if self.disk:
            # Whatever the guest writes from now on does not reach the disk.
            self.disk.hold(5 * self.patience)
        vm.reset()
        # The processors stand still by then, and QEMU waits for the disk.
        time.sleep(1)
        if self.disk:
            self.disk.cut(seed)
            time.sleep(0.2)
            self.disk.power()
        vm.wait_reset()
        self.server.need_device(self.setup.link)
        self.server.sh(f"/lab/export-up {self.setup.export}")

    def capture(self, path: Path) -> None:
        """Starts to copy every frame of the cable into a pcap file at `path`."""
        self.pcaps.append(path)
        self.server.vm.monitor.call(
            "object-add",
            **{"qom-type": "filter-dump", "id": "dump", "netdev": "net0"},
            file=str(path),
            maxlen=65536,
        )

    def end_capture(self) -> None:
        """Stops the capture; its file is complete afterwards."""
        self.server.vm.monitor.call("object-del", id="dump")

    def stop(self) -> None:
        """Ends both guests."""
        for vm in self._vms:
            vm.stop()
        if self.relay:
            self.relay.stop()
        if self.disk:
            self.disk.stop()
        for path in self._sockets.glob("*"):
            path.unlink()
        self._sockets.rmdir()

    def __enter__(self) -> Pair:
        """Returns the pair."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends both guests."""
        self.stop()
