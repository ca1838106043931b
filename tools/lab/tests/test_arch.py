# SPDX-License-Identifier: GPL-2.0
"""The machines of the guests: how they are chosen, and what depends on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import arch, kernel, vm
from lab.errors import LabError


@pytest.fixture(autouse=True)
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is an x86-64 machine, and none of the variables."""
    monkeypatch.setattr(arch, "host", lambda: "x86")
    for side in ("", "SERVER_"):
        for name in ("ARCH", "PAGES"):
            monkeypatch.delenv(side + name, raising=False)


def _in_use() -> list[str]:
    return [machine.name for machine in arch.in_use()]


def test_machine_of_each_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _in_use() == ["x86"]
    monkeypatch.setenv("ARCH", "arm64")
    monkeypatch.setenv("PAGES", "64k")
    assert _in_use() == ["arm64-64k"]
    monkeypatch.setenv("SERVER_PAGES", "4k")
    assert _in_use() == ["arm64-64k", "arm64"]
    monkeypatch.delenv("SERVER_PAGES")
    monkeypatch.setenv("SERVER_ARCH", "x86")
    assert _in_use() == ["arm64-64k", "x86"]
    assert [machine.native for machine in arch.in_use()] == [False, True]


def test_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGES", "64k")
    with pytest.raises(LabError, match=r"ARCH=x86 PAGES=64k: .* x86, arm64, arm64-64k"):
        arch.in_use()


def test_fragment_lines_by_machine() -> None:
    text = "CONFIG_A=y\n#x86 CONFIG_B=y\n#arm64 CONFIG_C=y\n#64k CONFIG_D=y\n# CONFIG_E=y\n"
    extra = {"x86": ["B"], "arm64": ["C"], "arm64-64k": ["C", "D"]}
    for machine in arch.MACHINES:
        wanted = [f"CONFIG_{name}=y" for name in ["A", *extra[machine.name]]]
        assert kernel.config_lines(text, "plain", machine) == wanted


def _command(machine: arch.Machine, dma: str) -> str:
    where = Path("p")
    files = [where] * 5
    spec = vm.Spec("server", "10.0.0.1", *files, "server=on", dma=dma, machine=machine)
    return " ".join(vm.command_line(spec))


@pytest.mark.parametrize("machine", arch.MACHINES, ids=lambda machine: machine.name)
def test_hardware_by_machine(machine: arch.Machine) -> None:
    plain, iommu = _command(machine, "none"), _command(machine, "iommu")
    assert f"{machine.program} " in plain
    assert f"console={machine.console} " in plain
    assert "iommu" not in plain
    assert ("intel-iommu" in iommu, "iommu=smmuv3" in iommu) == (machine.native, not machine.native)
