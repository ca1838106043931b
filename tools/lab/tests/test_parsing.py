# SPDX-License-Identifier: GPL-2.0
"""The lab's parsers: configurations, the output of apt, counters, frames."""

from __future__ import annotations

import random
import struct

import pytest

from lab import arch, debian, deps, kernel, memory, mountstats, relay
from lab.errors import GuestError, LabError

FRAGMENT = "# comment\nCONFIG_A=y\n#debug CONFIG_KASAN=y\n#plain CONFIG_FAST=y\nCONFIG_B=n\n"
XPRT = "\txprt:\trdma 0 0 1 0 2 58 57 0 554 0 67 1 6 79140 880 0 0 19064 5 0 0 0 0 66 67 0 0"


def test_fragment_lines_by_flavour() -> None:
    wanted = {"plain": "CONFIG_FAST=y", "debug": "CONFIG_KASAN=y"}
    for flavour, line in wanted.items():
        lines = kernel.config_lines(FRAGMENT, flavour, arch.X86)
        assert lines == ["CONFIG_A=y", line, "CONFIG_B=n"]


def test_missing_lines() -> None:
    wanted = ["CONFIG_A=y", "CONFIG_B=n", "CONFIG_C=m", "CONFIG_D=n"]
    config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_D=m\n"
    assert kernel.missing_lines(wanted, config) == ["CONFIG_C=m", "CONFIG_D=n"]


def test_a_later_line_overrides() -> None:
    assert kernel.missing_lines(["CONFIG_A=m", "CONFIG_A=y"], "CONFIG_A=y\n") == []


def test_version_7_3_is_preferred_and_newest_revision_wins() -> None:
    found = [
        ("s", "linux-source-7.2", "7.2.12-1~bpo13+1"),
        ("s", "linux-source-7.3", "7.3.4-1~bpo13+1"),
        ("s", "linux-source-7.3", "7.3.10-1~bpo13+1"),
        ("s", "linux-source-7.4", "7.4.1-1~bpo13+1"),
    ]
    assert kernel.pick_version(found)[2] == "7.3.10-1~bpo13+1"


def test_past_7_3_the_newest_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    found = [("s", f"linux-source-7.{n}", f"7.{n}.1-1") for n in (2, 5, 10)]
    assert kernel.pick_version(found)[1] == "linux-source-7.10"
    assert "moved past 7.3" in capsys.readouterr().out


def test_nothing_new_enough() -> None:
    with pytest.raises(LabError, match="KERNEL_SRC"):
        kernel.pick_version([("s", "linux-source-7.2", "7.2.1-1")])


def test_mirror_is_the_release_not_its_security_suite() -> None:
    text = "\n".join(
        [
            "Debian|Debian-Security|trixie-security|main|http://sec.example/|Packages",
            "Debian|Debian|trixie|main|http://mirror.example/debian/|Translations",
            "Debian|Debian|trixie|main|http://mirror.example/debian/|Packages",
        ]
    )
    assert debian.parse_targets(text, "trixie") == "http://mirror.example/debian/"
    assert debian.parse_targets(text, "bookworm") is None


def test_mirror_before_the_first_update() -> None:
    text = "$(ORIGIN)|$(LABEL)|trixie|main|http://mirror.example/debian/|Packages"
    assert debian.parse_targets(text, "trixie") == "http://mirror.example/debian/"


def test_packages_by_release_and_command() -> None:
    text = "# x\nbc\nrustc @trixie\nrustc-web @bookworm\ncargo @trixie ?sh\n"
    assert deps.wanted(text, "trixie") == ["bc", "rustc"]
    assert deps.wanted(text, "bookworm") == ["bc", "rustc-web"]
    assert deps.wanted("a =arm64\nb\n", "trixie") == ["b"]
    assert deps.wanted("a =arm64\nb\n", "trixie", ["arm64"]) == ["a", "b"]


def test_transport_line() -> None:
    values = mountstats.parse_line(XPRT)
    assert len(values) == 27
    assert (values["connect_count"], values["sends"], values["recvs"]) == (1, 58, 57)


@pytest.mark.parametrize("line", [XPRT + " 0", XPRT[:-2], "\txprt:\ttcp 0 0 1"])
def test_bad_transport_lines(line: str) -> None:
    with pytest.raises(ValueError, match=r"values|not an rdma"):
        mountstats.parse_line(line)


def test_only_the_named_mount_counts() -> None:
    text = (
        f"device a mounted on /a with fstype nfs4\n{XPRT}\ndevice b mounted on /b with fstype nfs\n"
    )
    assert mountstats.parse(text, "/a")["sends"] == 58
    with pytest.raises(ValueError, match="no xprt"):
        mountstats.parse(text, "/b")


def ipv4(protocol: int, ports: tuple[int, int]) -> bytes:
    head = bytes([0x45]) + bytes(8) + bytes([protocol]) + bytes(10)
    return bytes(12) + b"\x08\x00" + head + struct.pack(">HH", *ports) + bytes(20)


def test_relay_knows_rdma_frames() -> None:
    assert relay.carries_rdma(ipv4(17, (50000, 4791)))
    assert relay.carries_rdma(ipv4(6, (20049, 1023)))
    assert not relay.carries_rdma(ipv4(17, (4791, 111)))
    assert not relay.carries_rdma(ipv4(6, (2049, 1023)))
    assert not relay.carries_rdma(bytes(12) + b"\x08\x06" + bytes(40))
    assert not relay.carries_rdma(b"short")


def test_relay_faults() -> None:
    frame, other = ipv4(17, (1, 4791)), ipv4(6, (1, 22))
    faults = relay.Faults(random.Random(1), blackout=1)
    assert faults.apply(frame) == []
    assert faults.apply(other) == [other]
    assert relay.Faults(random.Random(1), duplicate=1.1).apply(frame) == [frame, frame]
    late = relay.Faults(random.Random(1), reorder=1.1)
    second = frame + b"2"
    assert late.apply(frame) == []
    assert late.apply(second) == [second, frame]
    assert late.harmed == {"reorder": 1}


def test_relay_counts_what_it_harms() -> None:
    frame, other = ipv4(17, (1, 4791)), ipv4(6, (1, 22))
    faults = relay.Faults(random.Random(1))
    faults.apply(frame)
    faults.wait(frame)
    assert not faults.harmed
    faults.loss = 1.1
    faults.apply(frame)
    faults.apply(other)
    faults.loss, faults.duplicate, faults.late, faults.delay = 0.0, 1.1, 1.1, 0.01
    assert faults.wait(faults.apply(frame)[0]) == 0.01 + relay.LATENESS
    faults.wait(other)
    faults.blackout = 1
    faults.apply(frame)
    assert faults.harmed == {"loss": 1, "duplicate": 1, "late": 1, "delay": 1, "blackout": 1}


@pytest.mark.parametrize("page", [4, 64])
def test_free_memory_includes_the_lists_of_processors(page: int) -> None:
    text = "MemFree:  1000 kB\n  cpu: 0\n    count:    7\n    high:  9\n  cpu: 1\n    count: 3\n"
    assert memory.listed_kilobytes(text, page) == 1000 + 10 * page
    with pytest.raises(GuestError):
        memory.listed_kilobytes("MemFree:  1000 kB\n", page)
