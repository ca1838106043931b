# SPDX-License-Identifier: GPL-2.0
"""Fixtures and rules that hold for every scenario.

A scenario gets a booted pair of guests, which it shares with other scenarios where that is safe.
A scenario also fails when either kernel printed a report meanwhile, or when the packets on the
cable break a rule of the protocol. The lab keeps the console logs and the capture of a failed
scenario and prints their place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import debian_lab, kernel, listing, paths, selection, settings
from lab.errors import LabError
from lab.fixtures import Cable, Counters, ServerCounters, Tunables
from lab.harness import Lab, Options
from lab.moods import Moods
from lab.pair import MOUNT_POINT, Pair
from lab.relay import Relay

#: The kind of pair that most scenarios take; it sorts before the others.
USUAL = ""
FAULTS = ("loss", "duplicate", "reorder", "late", "delay", "blackout")


# Before xdist looks for groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the scenarios that this run excludes, and puts the others in order."""
    run, only = selection.current(), settings.only()
    cases = [_case(item) for item in items]
    try:
        # The list has the cases of both forms and of all kernels.
        listed = settings.listing()
        chosen = selection.named(cases, only) if listed else selection.choose(cases, only, run)
    except LabError as err:
        raise pytest.UsageError(str(err)) from err
    config.hook.pytest_deselected(items=[i for n, i in enumerate(items) if n not in chosen])
    items[:] = [item for number, item in enumerate(items) if number in chosen]
    # Scenarios with the same kind of pair follow one another: a boot costs more than most of them.
    items.sort(key=_kind_of_pair)
    if hasattr(config, "workerinput"):
        _share(items)


def _case(item: pytest.Item) -> selection.Case:
    """Returns the selection's view of a collected scenario."""
    callspec = getattr(item, "callspec", None)
    return selection.Case(
        file=item.path.stem.removeprefix("test_"),
        function=item.name.partition("[")[0].removeprefix("test_"),
        parameters=callspec.id if callspec else "",
        markers=frozenset(marker.name for marker in item.iter_markers()),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With `LIST=1`: prints the list and runs nothing."""
    if not settings.listing():
        return None
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    for line in listing.lines(_entry(item) for item in session.items):
        terminal.write_line(line)
    return True


def _entry(item: Any) -> listing.Entry:
    about = listing.first_line(item.module.__doc__)
    return listing.Entry(_case(item), about, listing.first_line(item.function.__doc__))


def _share(items: list[pytest.Item]) -> None:
    """Groups the scenarios for several pairs: any pair does what asks for the usual kind."""
    kinds = [_kind_of_pair(item)[0] for item in items]
    names = {kind: f"kind-{number}" for number, kind in enumerate(dict.fromkeys(kinds))}
    for item, kind in zip(items, kinds, strict=True):
        if kind != USUAL:
            item.add_marker(pytest.mark.xdist_group(names[kind]))


def _options(item: pytest.Item) -> Options:
    """Returns the options of the pair that a scenario asks for."""
    callspec = getattr(item, "callspec", None)
    given = callspec.params.get("pair") if callspec else None
    return given or Options(relay="relay" in getattr(item, "fixturenames", ()))


def _kind_of_pair(item: pytest.Item) -> tuple[str, bool, bool]:
    """Returns the order of a scenario: leaks are looked for last, provoked reports end a pair."""
    options = _options(item)
    kind = USUAL if options == Options() else repr(options)
    own = item.get_closest_marker("own_guests")
    kind = str(own.args[0]) if own else kind
    last = item.get_closest_marker("provokes") is not None
    return kind, last, item.get_closest_marker("after_all") is not None


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Kernel, modules and the pair that scenarios share."""
    directory = paths.scenario_directory()
    if settings.flavour() == "debian":
        with debian_lab.built(directory) as made:
            yield from _kept(debian_lab.DebianLab(made, directory))
        return
    kunit = any(item.get_closest_marker("needs_kunit") for item in request.session.items)
    flavour = settings.flavour()
    built, server = kernel.ensure(flavour), kernel.ensure(flavour, "server")
    yield from _kept(Lab(built, server, directory, kunit=kunit))


def _kept(lab: Lab) -> Iterator[Lab]:
    """Keeps the pair for the scenarios; at the end no report may be left."""
    yield lab
    lab.drop()
    assert not lab.unclaimed, "\n".join(lab.unclaimed)


@pytest.fixture
def pair(lab: Lab, request: pytest.FixtureRequest) -> Pair:
    """A booted pair with the client's module loaded and nothing mounted.

    `@pytest.mark.parametrize("pair", [Options(...)], indirect=True)` asks for another kind of pair
    than the shared one; the fixture `relay` asks for a pair with a relay on its cable.
    """
    return lab.begin(request.node.name, _options(request.node))


@pytest.fixture
def relay(pair: Pair) -> Iterator[Relay]:
    """The relay on the pair's cable, without faults at first; all faults end with the scenario."""
    assert pair.relay is not None
    yield pair.relay
    if pair.alive:
        for fault in FAULTS:
            pair.relay.set(fault, 0)


@pytest.fixture
def tunables(pair: Pair) -> Iterator[Tunables]:
    """The client's sysctls; the values that a scenario changes are restored after it."""
    tunables = Tunables(pair.client)
    yield tunables
    if pair.alive:
        tunables.restore()


@pytest.fixture
def counters(pair: Pair) -> Counters:
    """The client's counters in /proc/self/mountstats."""
    return Counters(pair.client)


@pytest.fixture
def server_tunables(pair: Pair) -> Iterator[Tunables]:
    """The server's sysctls (`svc_rdma/…`); a scenario's changes are undone after it."""
    tunables = Tunables(pair.server)
    yield tunables
    if pair.alive:
        tunables.restore()


@pytest.fixture
def server_counters(pair: Pair) -> ServerCounters:
    """The counters of the server's module and of nfsd's pools."""
    return ServerCounters(pair.server)


@pytest.fixture
def cable(pair: Pair, tmp_path: Path) -> Cable:
    """Captures of the frames between the guests in files of the scenario's own."""
    return Cable(pair, tmp_path)


@pytest.fixture
def devices(pair: Pair) -> Iterator[tuple[Moods, Moods]]:
    """The devices of client and server; they are as usual again after the scenario."""
    both = Moods(pair.client, pair.setup.link), Moods(pair.server, pair.setup.link)
    yield both
    if pair.alive:
        for device in both:
            device.calm()
        if any(device.limited for device in both):
            pair.client.run(f"umount {MOUNT_POINT} || umount -f -l {MOUNT_POINT}", timeout=120)
            for device in both:
                device.become()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ends pytest's time limit where a person may take any time."""
    if settings.attended():
        item.config.hook.pytest_timeout_cancel_timer(item=item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Checks the consoles and the cable after the scenario's own assertions."""
    outcome = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if lab is None or lab.scenario is None:
        return
    failed = outcome.excinfo is not None
    if failed and settings.keep():
        print(f"\n{outcome.excinfo[1]}")
    provoked = item.get_closest_marker("provokes") or item.get_closest_marker("after_all")
    faults = lab.end(
        failed=failed,
        expect_reports=bool(provoked),
        breaks_rules=bool(item.get_closest_marker("breaks_rules")),
    )
    if failed or faults:
        item.add_report_section("call", "lab", "\n".join([*faults, f"kept in {lab.kept}"]))
    if faults and not failed:
        # The pluggy of Debian 12 has no force_exception(); an exception here does the same.
        raise AssertionError("\n".join(faults))
