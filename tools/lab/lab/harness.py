# SPDX-License-Identifier: GPL-2.0
"""What stands behind the scenarios: one pair of guests, kept in good order.

Booting two guests takes longer than most scenarios, so they share a pair.
After each one the consoles and the capture are gone over; a pair in which
anything went wrong is thrown away and the next scenario gets a fresh one.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from . import accel, capture, gdb, hostile, module, settings, splat, terminal, wirecheck
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
    #: Empty: what `LINK` says.
    link: str = ""
    #: Megabytes of the client; 0 for as many as usual.
    memory: int = 0
    #: May join the lab's Kerberos realm, which a mount without `sec=` would find and use.
    realm: bool = False


@dataclass
class Scenario:
    """The scenario under way: how far the consoles had been searched when it began."""

    name: str
    options: Options
    console_at: dict[str, int]
    pcap: Path
    #: Mounts of the pair before it.
    mounts: int


class Lab:
    """Kernel and modules, and at most one running pair."""

    def __init__(self, kernel: Kernel, directory: Path, *, kunit: bool = True) -> None:
        """Boots nothing: the first scenario that asks for a pair does.

        `kunit`: whether a scenario loads the module that has the KUnit suites.
        """
        self.kernel, self.directory, self._kunit = kernel, directory, kunit
        self.scenario: Scenario | None = None
        self.kept = directory
        #: Reports of pairs that are gone, which no scenario has been told of.
        self.unclaimed: list[str] = []
        self._searched: dict[str, int] = {}
        self._pair: Pair | None = None
        self._options = Options()
        self._count = 0
        self._modules: module.Modules | None = None
        self._provoker: Path | None = None

    @property
    def modules(self) -> module.Modules:
        """Our modules for this kernel, built on first use."""
        if self._modules is None:
            self._modules = module.build(self.kernel)
        return self._modules

    @property
    def provoker(self) -> Path:
        """The module that provokes reports, built on first use."""
        if self._provoker is None:
            self._provoker = module.build_provoker(self.kernel)
        return self._provoker

    def _sample_files(self) -> dict[str, Path]:
        """Samples and the KUnit build of our module, as the client finds them in /lab."""
        if settings.client() == "stock":
            return {}
        files = {path.name: path for path in self.modules.samples}
        if self._kunit:
            files["rpcrdma-kunit.ko"] = module.build(self.kernel, kunit=True).rpcrdma
        return files

    def client_module(self) -> Path:
        """The module under test: ours or stock, as `CLIENT` says."""
        return self.kernel.stock_module if settings.client() == "stock" else self.modules.rpcrdma

    def begin(self, name: str, options: Options) -> Pair:
        """A pair for a scenario, with a capture running and the module loaded."""
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
        """Load the module, start the capture."""
        if pair.client.run("grep -q ^rpcrdma /proc/modules").status:
            pair.load()
        if settings.gdb():
            gdb.await_attached(pair)
        self._count += 1
        pcap = self.directory / f"{self._count:02d}.pcap"
        pair.pcaps.clear()
        pair.capture(pcap)
        at = dict(self._searched)
        self.scenario = Scenario(name, self._options, at, pcap, pair.mounts)
        return pair

    def _boot(self, options: Options) -> Pair:
        self._options = options
        # What a boot reports is its first scenario's.
        self._searched = {}
        setup = Setup(
            kernel=self.kernel,
            client_module=self.client_module(),
            server_module=self.kernel.stock_module,
            link=options.link or settings.link(),
            accel=accel.choose(self.kernel.image),
            files={
                "lab_provoke.ko": self.provoker,
                "lab_slow.ko": self.provoker.with_name("lab_slow.ko"),
                "hostile": hostile.build(),
                **self._sample_files(),
            },
            cpus=settings.cpus(self.kernel.flavour),
            threads=options.threads,
            cmdline=options.cmdline,
            relay=options.relay,
            gdb=settings.gdb(),
            client_memory=options.memory,
        )
        with step("booting two guests"):
            pair = Pair(setup, self.directory / f"pair-{self._count + 1:02d}")
        if self.kernel.flavour == "debug":
            # What the boot itself lost is not what we are after.
            for guest in (pair.server, pair.client):
                guest.sh(f"echo clear > {KMEMLEAK}", timeout=200)
        return pair

    def end(
        self, *, failed: bool, expect_reports: bool = False, breaks_rules: bool = False
    ) -> list[str]:
        """Finish the scenario and return what is wrong beyond its own asserts.

        `breaks_rules`: a peer was made to, so the packets are not checked.
        """
        scenario, pair = self.scenario, self._pair
        assert scenario is not None and pair is not None
        self.scenario = None
        faults, self.unclaimed = self.unclaimed, []
        if failed and settings.keep():
            # Before anything is cleaned up: the mount is there as the scenario has left it.
            self._stay(pair, scenario)
        try:
            pair.client.sh("umount -a -t nfs,nfs4 || umount -a -l -t nfs,nfs4", timeout=60)
            pair.end_capture()
        except LabError as err:
            faults.append(f"the guests do not answer: {err}")
        reports = self._reports(pair)
        if not expect_reports:
            faults += reports
        elif not reports:
            faults.append("nothing was reported, and something should have been")
        # Over iWARP one TCP frame may hold several messages: the check does not take those apart.
        checked = pair.setup.link == "rxe" and not breaks_rules
        if checked and not failed and not expect_reports:
            # A scenario may have made a capture of its own of what it is about.
            busy = pair.mounts > scenario.mounts and pair.pcaps == [scenario.pcap]
            faults += wire_faults(scenario.pcap, busy=busy, bad_link=pair.relay is not None)
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
            terminal.talk(pair, settings.on())

    def _reports(self, pair: Pair) -> list[str]:
        """Every kernel report in either console since they were searched last.

        A scenario's end is searched with the next one's beginning: teardown goes on after it.
        """
        found = []
        faulty = {
            "bad_link": pair.relay is not None,
            "want": pair.starved,
            "iwarp": pair.setup.link == "siw",
        }
        for guest in (pair.server, pair.client):
            console = guest.console()
            text = console[self._searched.get(guest.name, 0) :]
            self._searched[guest.name] = len(console)
            for report in splat.find(text, **faulty):
                found.append(f"{guest.name}: {report}")
        return found

    def _keep(self, pair: Pair, scenario: Scenario) -> None:
        """Copy what a failed scenario leaves to look at."""
        self.kept = self.directory / scenario.name.replace("/", "_")
        self.kept.mkdir(parents=True, exist_ok=True)
        for guest in (pair.server, pair.client):
            text = guest.console()[scenario.console_at.get(guest.name, 0) :]
            (self.kept / f"{guest.name}-console.log").write_text(text)
        for number, pcap in enumerate(pair.pcaps):
            if pcap.exists():
                shutil.copy(pcap, self.kept / f"cable-{number}.pcap")

    def drop(self) -> None:
        """End the pair, if there is one; what it reports last is `unclaimed`."""
        pair = self._pair
        self._stop()
        if pair:
            self.unclaimed += [f"after the scenario before: {text}" for text in self._reports(pair)]

    def _stop(self) -> None:
        """End the pair, if there is one."""
        pair, self._pair = self._pair, None
        if pair:
            pair.stop()


def leaks(guest: Guest) -> str:
    """What kmemleak finds now. Objects count when they are older than five seconds."""
    # What the allocator handed out last looks held otherwise.
    churn = "taskset -c $c insmod /lab/lab_provoke.ko report=churn"
    guest.run(f"for c in $(seq 0 $(($(nproc) - 1))); do {churn}; done 2>/dev/null", timeout=100)
    # Twice: what a processor's registers or stack still held looks leaked the first time.
    guest.sh(f"sleep 6; echo scan > {KMEMLEAK}; echo scan > {KMEMLEAK}", timeout=300)
    text = guest.read(KMEMLEAK).strip()
    return f"{guest.name}: kmemleak: {text[:3000]}" if text else ""


def wire_faults(pcap: Path, *, busy: bool = False, bad_link: bool = False) -> list[str]:
    """Breaches of the protocol in a capture.

    `busy`: something must be in it. `bad_link`: tshark cannot put together what it sees twice or
    out of order, and calls that malformed.
    """
    summary = wirecheck.check(capture.read(pcap), *CLIENT_ADDRESSES)
    if busy and not summary.calls:
        return ["wire: there was a mount, and the capture has not one call"]
    found = [f for f in summary.violations if not (bad_link and f.endswith("malformed"))]
    shown = [f"wire: {text}" for text in found[:20]]
    if len(found) > 20:
        shown.append(f"wire: … {len(found)} in all")
    return shown
