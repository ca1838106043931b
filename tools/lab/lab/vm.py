# SPDX-License-Identifier: GPL-2.0
"""A QEMU process: the hardware of a guest, its start and its end."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import arch, device, emulator
from .agent import SLOW_HOST, Agent, Exit, Monitor
from .errors import BootError, GuestError


@dataclass(frozen=True)
class Spec:
    """The parts of a guest. `link_end`: QEMU's address for its end of the cable."""

    name: str
    address: str
    kernel: Path
    image: Path
    payload: Path
    directory: Path
    sockets: Path
    link_end: str
    link: str = "rxe"
    #: Network cards, each with an RDMA device. All cards of both guests are on the same cable.
    ports: int = 1
    #: How the RDMA device reaches memory, see `settings.DMA_MODES`.
    dma: str = "none"
    machine: arch.Machine = arch.X86
    accel: str = "tcg"
    cpus: int = 2
    memory: int = 1024
    cmdline: str = ""
    #: Whether QEMU listens for gdb.
    gdb: bool = False
    #: The niceness of QEMU.
    nice: int = 0
    extra: tuple[str, ...] = field(default=())

    @property
    def console(self) -> Path:
        """The log of the guest's serial console."""
        return self.directory / f"{self.name}-console.log"

    def socket(self, purpose: str) -> Path:
        """Returns the path of a Unix socket of this guest's QEMU."""
        return self.sockets / f"{self.name}-{purpose}.sock"


#: The properties of a network card. Merged buffers come from a page pool. When rxe frees packets
#: for a failed queue pair, the pool causes a report on the debug kernel, and a hanging guest on
#: either kernel (lab-traps.rst).
CARD = "rx_queue_size=1024,host_mtu=9000,mrg_rxbuf=off,romfile="

#: The words of the kernel's command line for each way in which the RDMA device reaches memory.
_DMA_WORDS = {
    "iommu": "intel_iommu=on iommu.strict=1",
    "swiotlb": "swiotlb=force",
}


def _board(spec: Spec) -> list[str]:
    """Returns QEMU's arguments for the board, with the device whose DMA the RDMA device uses."""
    machine, devices = spec.machine.board, []
    if spec.dma == "iommu" and spec.machine.arch == "arm64":
        machine += ",iommu=smmuv3"
    elif spec.dma == "iommu":
        devices = ["-device", "intel-iommu,intremap=off"]
    if spec.dma != "none":
        devices += ["-device", "edu"]
    return ["-machine", machine, *devices]


def command_line(spec: Spec) -> list[str]:
    """Returns QEMU's arguments for a guest."""
    # With a thread for each processor, QEMU may run stale code that another processor has patched:
    # the guest stops with "Oops: int3" when a trace event or a static key is switched.
    accel = "tcg,thread=single" if spec.accel == "tcg" else spec.accel
    cpu = spec.machine.cpu if spec.accel == "tcg" else "host"
    args = emulator.command(spec.machine, " ".join(spec.extra))
    args += ["-name", spec.name, *_board(spec)]
    args += [] if "-accel" in spec.extra else ["-accel", accel]
    args += ["-cpu", cpu, "-smp", str(spec.cpus), "-m", str(spec.memory)]
    args += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    args += ["-kernel", str(spec.kernel), "-append", kernel_command_line(spec)]
    for index, disk in enumerate((spec.image, spec.payload)):
        args += ["-drive", f"file={disk},format=raw,if=none,id=d{index},readonly=on"]
        args += ["-device", f"virtio-blk-pci,drive=d{index}"]
    args += ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    args += ["-chardev", f"socket,id=qga,path={spec.socket('qga')},server=on,wait=off"]
    args += ["-device", "virtserialport,chardev=qga,name=org.qemu.guest_agent.0"]
    # A guest that is reset, or booted again, continues its log.
    console = f"file,id=console,path={spec.console},append=on"
    args += ["-chardev", console, "-serial", "chardev:console"]
    args += ["-chardev", f"socket,id=tty,path={spec.socket('tty')},server=on,wait=off"]
    args += ["-serial", "chardev:tty"]
    args += ["-qmp", f"unix:{spec.socket('qmp')},server=on,wait=off"]
    if spec.gdb:
        args += ["-chardev", f"socket,id=gdb,path={spec.socket('gdb')},server=on,wait=off"]
        args += ["-gdb", "chardev:gdb"]
    args += ["-netdev", f"stream,id=net0,{spec.link_end}"]
    return [*args, *_cards(spec), *spec.extra]


def _cards(spec: Spec) -> list[str]:
    """Returns QEMU's arguments for the network cards; several share the cable through a hub."""
    mac = "52:54:00:00:{:02d}:" + spec.address.rpartition(".")[2].zfill(2)
    if spec.ports == 1:
        return ["-device", f"virtio-net-pci,netdev=net0,mac={mac.format(0)},{CARD}"]
    cards = ["-netdev", "hubport,id=cable,hubid=0,netdev=net0"]
    for port in range(spec.ports):
        cards += ["-netdev", f"hubport,id=port{port},hubid=0"]
        cards += ["-device", f"virtio-net-pci,netdev=port{port},mac={mac.format(port)},{CARD}"]
    return cards


def kernel_command_line(spec: Spec) -> str:
    """Returns the guest kernel's command line; the last words are for our init."""
    words = [f"console={spec.machine.console}", spec.machine.words]
    words += ["root=/dev/vda ro rootfstype=squashfs init=/sbin/stage1"]
    # The kernel's own KUnit suites would run at every boot.
    words += ["kunit.filter_glob=rpcrdma*"]
    if spec.gdb:
        # gdb takes the addresses of symbols from vmlinux.
        words += ["nokaslr"]
    if spec.dma != "none":
        # The lab's copy of the link takes the place of the one that is built in.
        start = device.STARTS[spec.link]
        words += [_DMA_WORDS[spec.dma], f"initcall_blacklist={start} lab.dma={spec.dma}"]
    words += ["panic=-1 loglevel=7 lockd.nlm_grace_period=5", spec.cmdline]
    words += [f"lab.name={spec.name} lab.addr={spec.address} lab.link={spec.link}"]
    words += [f"lab.ports={spec.ports} lab.tty={spec.machine.terminal}"]
    return " ".join(word for word in words if word)


def runs_fast(uptime: float, elapsed: float) -> str:
    """Returns a line if a guest that has run for `elapsed` seconds believes in a longer time.

    The clock of a guest that does so runs some twenty times as fast as the host's. A smaller
    difference may come from the time between the two looks.
    """
    if uptime <= 3 * elapsed + 10:
        return ""
    return f"its clock runs too fast: {uptime:.0f} s in {elapsed:.0f} s"


class Vm:
    """A running QEMU with its monitor and its guest agent."""

    def __init__(self, spec: Spec) -> None:
        """Starts QEMU; the guest boots in the background."""
        self.spec = spec
        spec.directory.mkdir(parents=True, exist_ok=True)
        self._log = (spec.directory / f"{spec.name}-qemu.log").open("w")
        # QEMU ends when this process ends, in whatever way.
        args = ["setpriv", "--pdeathsig", "TERM", "nice", "-n", str(spec.nice)]
        args += command_line(spec)
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        try:
            self._await_socket("qmp")
            self.monitor = Monitor(spec.socket("qmp"))
            self.agent = Agent(spec.socket("qga"), stopped=spec.gdb)
        except BaseException:
            self.stop()
            raise

    def _await_socket(self, purpose: str) -> None:
        """Waits until QEMU listens on a socket.

        # Errors
        `GuestError` when QEMU has ended, for example because of a bad argument.
        """
        deadline = time.monotonic() + 20
        while not self.spec.socket(purpose).exists():
            if self._process.poll() is not None:
                log = Path(self._log.name).read_text().strip()
                raise GuestError(f"{self.spec.name}: QEMU ended at once: {log}")
            if time.monotonic() > deadline:
                raise GuestError(f"{self.spec.name}: QEMU did not open its {purpose} socket")
            time.sleep(0.02)

    @property
    def alive(self) -> bool:
        """Whether QEMU still runs."""
        return self._process.poll() is None

    def has_gdb(self) -> bool:
        """Whether gdb is connected."""
        devices = self.monitor.call("query-chardev")
        names = [str(device["filename"]) for device in devices if device["label"] == "gdb"]
        return any(not name.startswith("disconnected") for name in names)

    def wait_boot(self, timeout: float = 300) -> None:
        """Waits until the guest takes commands.

        # Errors
        `BootError` with the end of the console, or for a clock that cannot be used.
        """
        try:
            self.agent.wait_ready(timeout)
            self._check_clock()
        except GuestError as err:
            end = self.spec.console.read_text(errors="replace").splitlines()[-15:]
            raise BootError(f"{self.spec.name}: {err}; console:\n" + "\n".join(end)) from err

    def _check_clock(self) -> None:
        """Checks that the guest's clock is no faster than the host's.

        # Errors
        `GuestError`: its kernel has measured the frequency of its time stamp counter while the host
        was busy.
        """
        if self.spec.gdb:
            return
        done = self.agent.wait(self.agent.start(["/bin/cat", "/proc/uptime"]), 60)
        fault = runs_fast(float(done.stdout.split()[0]), time.monotonic() - self._started)
        if fault:
            raise GuestError(fault)

    def run(self, command: str, *, timeout: float = 60, stdin: bytes = b"") -> Exit:
        """Runs a shell command in the guest; timeout(1) in the guest enforces the time limit.

        The limit is `SLOW_HOST` times `timeout`. A command that exceeds it ends with status 124 or
        137.
        """
        seconds = f"{timeout * SLOW_HOST:.0f}"
        limit = ["/usr/bin/timeout", "-k", "5", seconds, "/bin/bash", "-c", command]
        return self.agent.wait(self.agent.start(limit, stdin), timeout + 30)

    def start(self, command: str) -> int:
        """Starts a shell command in the background; see `Agent.poll` and `Agent.wait`."""
        return self.agent.start(["/bin/bash", "-c", command])

    def reset(self) -> None:
        """Resets the machine as its button does: the guest's kernel boots again, unprepared.

        QEMU may be busy until its disks have answered all requests; `wait_reset` is next.
        """
        self._started = time.monotonic()
        self.monitor.call("set-action", reboot="reset")
        self.monitor.begin("system_reset")

    def wait_reset(self, timeout: float = 300) -> None:
        """Waits until the guest has booted after `reset`.

        A reset that the guest makes ends QEMU again, as after the start.
        """
        self.monitor.end("system_reset")
        self.wait_boot(timeout)
        self.monitor.call("set-action", reboot="shutdown")

    def stop(self) -> None:
        """Ends QEMU without a shutdown of the guest."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
