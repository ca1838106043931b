# SPDX-License-Identifier: GPL-2.0
"""Faults of the soak that were not inflicted do not count."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import growth, soak, soak_faults
from lab.agent import Exit
from lab.errors import LabError
from lab.pair import Pair
from lab.soak import Soak
from lab.soak_faults import Faults, NotInflicted


def _pressure(done: Exit) -> str:
    """Returns the description of memory pressure whose process has ended like this."""
    client = SimpleNamespace(run=lambda *_, **__: done)
    pair = SimpleNamespace(relay=object(), client=client)
    return Faults(cast(Pair, pair), random.Random(1))._pressure()


def _hog(directory: Path, available: int) -> Exit:
    """Runs the process with this many KiB of memory that is available."""
    meminfo = directory / "meminfo"
    meminfo.write_text(f"MemTotal: 900000 kB\nMemAvailable: {available} kB\n")
    program = soak_faults._HOG.replace("/proc/meminfo", str(meminfo)).replace("sleep(5", "sleep(0")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    return Exit(done.returncode, done.stdout, done.stderr)


def test_memory_pressure(tmp_path: Path) -> None:
    assert _pressure(_hog(tmp_path, 210240)) == "10 MiB for 5 s"
    for available in (200000, 150000):
        with pytest.raises(NotInflicted, match="less than 200 MB"):
            _pressure(_hog(tmp_path, available))


def test_memory_pressure_that_ended_otherwise() -> None:
    assert _pressure(Exit(137, b"", b"")) == "until the kernel ended the process"
    assert _pressure(Exit(124, b"", b"")) == "until the time limit ended the process"
    with pytest.raises(LabError, match="ended 1: MemoryError"):
        _pressure(Exit(1, b"", b"Traceback\nMemoryError"))


def _soak(monkeypatch: pytest.MonkeyPatch, faults: dict[str, Callable[[], str]]) -> Soak:
    """Returns a soak that has inflicted each of the faults about ten times."""
    # Each look at the clock advances it by a second.
    clock = iter(range(1000))
    monkeypatch.setattr(soak.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(soak.time, "sleep", lambda _: None)
    monkeypatch.setattr(soak, "Faults", lambda *_: SimpleNamespace(kinds=lambda: faults))
    monkeypatch.setattr(growth, "sample", lambda _: {"files": 1})
    monkeypatch.setattr(growth, "caches", lambda _: {})
    agent = SimpleNamespace(poll=lambda _: None)
    guests = [
        SimpleNamespace(name=name, read=lambda _: "", vm=SimpleNamespace(agent=agent))
        for name in ("server", "client")
    ]
    made: Any = Soak.__new__(Soak)
    made._pair = SimpleNamespace(server=guests[0], client=guests[1])
    made._chance, made._workers, made._cached, made._tallies = random.Random(1), [], 1, {}
    made._growth = {guest.name: growth.Growth(guest.name) for guest in guests}
    made.run(20 * len(faults))
    return made


def test_a_fault_that_was_not_inflicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no row of the table, and gives no sample."""

    def none() -> str:
        raise NotInflicted("no room")

    made = _soak(monkeypatch, {"none": none, "some": lambda: "here"})
    assert list(made._tallies) == ["some"]
    count = len(made._tallies["some"].recoveries)
    assert count > 0
    assert {len(one.boots[0]) for one in made._growth.values()} == {count}


def test_growth_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both guests need enough samples."""
    made = _soak(monkeypatch, {"some": lambda: "here"})
    assert not made.judged
    assert made.table().count("growth: not judged") == 2
    for guest in made._growth.values():
        assert not made.judged
        for number in range(20):
            guest.note(1000.0 + number, {"files": 1})
    assert made.judged
    assert "not judged" not in made.table()
