# SPDX-License-Identifier: GPL-2.0
"""The pair of guests that the scenarios share.

Two guests boot more slowly than most scenarios run, so scenarios share a pair. After each scenario
the lab searches the consoles and checks the capture. It discards a pair in which anything went
wrong, and the next scenario gets a fresh one.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import (
    accel,
    accesses,
    capture,
    device,
    gdb,
    module,
    profiles,
    programs,
    settings,
    splat,
    terminal,
    wirecheck,
)
from .errors import LabError
from .kernel import Kernel
from .pair import CLIENT_ADDRESSES, Guest, Pair, Setup
from .progress import say, step

KMEMLEAK = "/sys/kernel/debug/kmemleak"


@dataclass(frozen=True)
class Options:
    """How a scenario's pair differs from the usual one."""

    relay: bool = False
    threads: int = 8
    cmdline: str = ""
    #: Empty for the link that `LINK` names.
    link: str = ""
    #: Network cards of each guest.
    ports: int = 1
    #: Megabytes of the client's memory; 0 for the usual size.
    memory: int = 0
    #: Processors of each guest; 0 for the usual number.
    cpus: int = 0
    #: Whether the device can change its behaviour at the scenario's wish (lab/moods.py).
    moody: bool = False
    #: Whether the server exports a disk: ext4, or what `EXPORT` names.
    disk: bool = False
    #: Whether the guests may join the Kerberos realm; mounts without `sec=` would then use it.
    realm: bool = False
    #: Whether there is a third guest with a mount of its own (lab/bystander.py).
    bystander: bool = False


@dataclass
class Scenario:
    """The running scenario, and the state of its pair when it began."""

    name: str
    options: Options
    #: The length of each console that was searched already.
    console_at: dict[str, int]
    pcap: Path
    #: The number of mounts of the pair before the scenario.
    mounts: int


class Lab:
    """Kernels and modules, and at most one running pair."""

    def __init__(
        self, kernel: Kernel, server_kernel: Kernel, directory: Path, *, kunit: bool = True
    ) -> None:
        """Boots nothing: the first scenario that asks for a pair does.

        `kernel`: the client's. `kunit`: whether a scenario loads the module that has the KUnit
        suites.
        """
        self.kernel, self.server_kernel = kernel, server_kernel
        self.directory, self._kunit = directory, kunit
        self.scenario: Scenario | None = None
        self.kept = directory
        #: Reports of discarded pairs, which belong to no scenario yet.
        self.unclaimed: list[str] = []
        self._searched: dict[str, int] = {}
        self._accesses = accesses.Accesses(directory)
        self._pair: Pair | None = None
        self._options = Options()
        self._count = 0
        #: Modules by the build tree of their kernel.
        self._modules: dict[Path, module.Modules] = {}
        self._provokers: dict[Path, Path] = {}

    def modules(self, kernel: Kernel) -> module.Modules:
        """Returns our modules for a kernel, which the first use builds."""
        if kernel.obj not in self._modules:
            self._modules[kernel.obj] = module.build(kernel)
        return self._modules[kernel.obj]

    def provoker(self, kernel: Kernel) -> Path:
        """Returns the module that provokes reports, which the first use builds."""
        if kernel.obj not in self._provokers:
            self._provokers[kernel.obj] = module.build_provoker(kernel)
        return self._provokers[kernel.obj]

    def _sample_files(self, kernel: Kernel) -> dict[str, Path]:
        """Returns the samples and the module with KUnit suites by their names in /lab."""
        if "ours" not in (settings.client(), settings.server()):
            return {}
        files = {path.name: path for path in self.modules(kernel).samples}
        if self._kunit:
            files["rpcrdma-kunit.ko"] = module.build(kernel, kunit=True).rpcrdma
        return files

    def _files(self, kernel: Kernel, options: Options, link: str) -> dict[str, Path]:
        """Returns what a guest with this kernel has in its /lab."""
        provoker = self.provoker(kernel)
        return {
            "lab_provoke.ko": provoker,
            "lab_slow.ko": provoker.with_name("lab_slow.ko"),
            "lab_sleepy.ko": provoker.with_name("lab_sleepy.ko"),
            **programs.build(kernel.machine),
            **self._sample_files(kernel),
            **device.files(kernel, link, settings.dma()),
            **profiles.files(provoker, self.directory, always=options.moody),
        }

    def module_of(self, whose: str, kernel: Kernel) -> Path:
        """Returns the module of a guest, which is ``ours`` or ``stock``."""
        return kernel.stock_module if whose == "stock" else self.modules(kernel).rpcrdma

    def begin(self, name: str, options: Options) -> Pair:
        """Returns a pair for a scenario, with a running capture and the module loaded."""
        if self._pair and (self._options != options or not self._pair.alive):
            self.drop()
        if self._pair is None:
            self._pair = self._boot(options)
        try:
            return self._prepare(self._pair, name)
        except LabError:
            self.drop()
            raise

    def _prepare(self, pair: Pair, name: str) -> Pair:
        """Loads the module and starts the capture."""
        if pair.client.run("grep -q ^rpcrdma /proc/modules").status:
            pair.load()
        if settings.gdb():
            gdb.await_attached(pair)
        self._count += 1
        pcap = self.directory / f"{self._count:02d}.pcap"
        pair.pcaps.clear()
        pair.capture(pcap)
        self._accesses.begin(pair)
        at = dict(self._searched)
        self.scenario = Scenario(name, self._options, at, pcap, pair.mounts)
        return pair

    def _boot(self, options: Options) -> Pair:
        self._options = options
        # Reports of the boot count against the first scenario.
        self._searched = {}
        link = options.link or settings.link()
        setup = Setup(
            kernel=self.kernel,
            client_module=self.module_of(settings.client(), self.kernel),
            server_module=self.module_of(settings.server(), self.server_kernel),
            server_kernel=self.server_kernel,
            link=link,
            ports=options.ports,
            dma=settings.dma(),
            accel=accel.choose(self.kernel),
            files=self._files(self.kernel, options, link),
            server_files=self._files(self.server_kernel, options, link),
            cpus=options.cpus or settings.cpus(self.kernel.flavour),
            threads=options.threads,
            cmdline=options.cmdline,
            relay=options.relay,
            export=export(options),
            gdb=settings.gdb(),
            client_memory=options.memory,
            bystander=options.bystander,
        )
        with step(f"booting {'three' if options.bystander else 'two'} guests"):
            pair = self._pair_of(setup, self.directory / f"pair-{self._count + 1:02d}")
        if self.kernel.flavour == "debug":
            # Memory that the boot lost does not count.
            for guest in pair.guests:
                guest.sh(f"echo clear > {KMEMLEAK}", timeout=200)
        return pair

    def _pair_of(self, setup: Setup, directory: Path) -> Pair:
        """Boots a pair of guests with the lab's kernel."""
        return Pair(setup, directory)

    def end(
        self, *, failed: bool, expect_reports: bool = False, breaks_rules: bool = False
    ) -> list[str]:
        """Ends the scenario and returns the faults that its own assertions have not found.

        `breaks_rules`: a peer broke the protocol on purpose, so the packets are not checked.
        """
        scenario, pair = self.scenario, self._pair
        assert scenario is not None and pair is not None
        self.scenario = None
        faults, self.unclaimed = self.unclaimed, []
        if failed and settings.keep():
            # This precedes any cleanup: the mount is as the scenario left it.
            self._stay(pair, scenario)
        try:
            for client in pair.guests[1:]:
                client.sh("umount -a -t nfs,nfs4 || umount -a -l -t nfs,nfs4", timeout=60)
            pair.end_capture()
            busy = pair.mounts > scenario.mounts and not failed
            if not expect_reports:
                faults += self._accesses.end(pair, busy=busy)
        except LabError as err:
            faults.append(f"the guests do not answer: {err}")
        reports = self._reports(pair)
        if not expect_reports:
            faults += reports
        elif not reports:
            faults.append("no console has a report, although the scenario provokes one")
        # Over iWARP one TCP frame may hold several messages, which the check cannot separate.
        checked = pair.setup.link == "rxe" and not breaks_rules
        if checked and not failed and not expect_reports:
            busy = pair.mounts > scenario.mounts
            faults += wire_faults(pair.pcaps, busy=busy, bad_link=pair.relay is not None)
        if failed or faults:
            self._keep(pair, scenario)
        if faults and not failed and settings.keep():
            print("\n".join(faults))
            self._stay(pair, scenario)
        scenario.pcap.unlink(missing_ok=True)
        if failed or faults or expect_reports:
            self._stop()
        return faults

    def _stay(self, pair: Pair, scenario: Scenario) -> None:
        """Leaves the guests of a failed scenario to the user until he or she ends the shell."""
        say(f"KEEP=1: {scenario.name} has failed; its guests stay. Logs: {pair.directory}")
        if pair.alive:
            terminal.talk(pair, settings.on(), inside=False)

    def _reports(self, pair: Pair) -> list[str]:
        """Returns the kernel reports in both consoles since the last search.

        Teardown continues after a scenario, so the search after the next scenario covers it.
        """
        found = []
        faulty = {
            "bad_link": pair.relay is not None,
            "want": pair.starved,
            "iwarp": pair.setup.link == "siw" and settings.server() == "stock",
            "lab_dma": pair.setup.dma == "iommu",
        }
        for guest in pair.guests:
            console = guest.console()
            text = console[self._searched.get(guest.name, 0) :]
            self._searched[guest.name] = len(console)
            for report in splat.find(text, **faulty):
                found.append(f"{guest.name}: {report}")
        return found

    def _keep(self, pair: Pair, scenario: Scenario) -> None:
        """Copies the logs and captures of a failed scenario to a directory of their own."""
        self.kept = self.directory / scenario.name.replace("/", "_")
        self.kept.mkdir(parents=True, exist_ok=True)
        for guest in pair.guests:
            text = guest.console()[scenario.console_at.get(guest.name, 0) :]
            (self.kept / f"{guest.name}-console.log").write_text(text)
        for number, pcap in enumerate(pair.pcaps):
            if pcap.exists():
                shutil.copy(pcap, self.kept / f"cable-{number}.pcap")

    def drop(self) -> None:
        """Ends the pair, if there is one; its last reports become `unclaimed`."""
        pair = self._pair
        if pair:
            self.unclaimed += accesses.take_down(pair)
        self._stop()
        if pair:
            self.unclaimed += [
                f"after the previous scenario: {text}" for text in self._reports(pair)
            ]

    def _stop(self) -> None:
        """Ends the pair, if there is one."""
        pair, self._pair = self._pair, None
        if pair:
            pair.stop()


def export(options: Options) -> str:
    """Returns the file system that the server exports."""
    named = settings.export()
    return "ext4" if options.disk and named == "tmpfs" else named


def leaks(guest: Guest) -> str:
    """Returns the report of kmemleak about objects that are older than five seconds."""
    # Otherwise the memory that the allocator handed out last looks referenced.
    churn = "taskset -c $c insmod /lab/lab_provoke.ko report=churn"
    guest.run(f"for c in $(seq 0 $(($(nproc) - 1))); do {churn}; done 2>/dev/null", timeout=100)
    # Two scans: an object that only a register or a stack referred to looks leaked in the first.
    guest.sh(f"sleep 6; echo scan > {KMEMLEAK}; echo scan > {KMEMLEAK}", timeout=300)
    text = guest.read(KMEMLEAK).strip()
    return f"{guest.name}: kmemleak: {text[:3000]}" if text else ""


def wire_faults(pcaps: Sequence[Path], *, busy: bool = False, bad_link: bool = False) -> list[str]:
    """Returns the breaches of the protocol in the captures of a scenario.

    A connection may be older than any capture but the first. It is not checked there, so that a
    capture without a request for a connection has nothing to check.

    `busy`: the captures must contain calls. `bad_link`: tshark cannot reassemble frames that it
    sees twice or out of order, and calls them malformed, so malformed frames do not count.
    """
    found: list[str] = []
    calls = 0
    for number, pcap in enumerate(pcaps):
        first = number == 0
        if not capture.contains(pcap, capture.ROCE if first else capture.REQUEST):
            continue
        summary = wirecheck.check(capture.read(pcap), *CLIENT_ADDRESSES, whole=first)
        calls += summary.calls
        found += [f"wire: cable-{number}: {text}" for text in summary.violations]
    if busy and not calls:
        return ["wire: there was a mount, but the captures have no call"]
    found = [text for text in found if not (bad_link and text.endswith("malformed"))]
    return found[:20] + ([f"wire: … {len(found)} in all"] if len(found) > 20 else [])
