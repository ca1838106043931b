# SPDX-License-Identifier: GPL-2.0
"""The doctor's findings about the module, by the kernel that runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake import FakeHost
from nfsrdma.doctor.kinds import KINDS
from test_doctor import skipped, stock, unused, without

from nfsrdma import doctor


def test_status_of_the_stock_module() -> None:
    """It is a warning only where this module is installed."""
    for prepare, status in ((stock, 0), (unused, doctor.WRONG)):
        host = FakeHost()
        prepare(host)
        assert doctor.examine(host, None).status == status


@pytest.mark.parametrize(
    ("release", "name", "says"),
    [
        ("7.1.13+deb13-amd64", "kernel-skipped", "linux-image-$a "),
        ("7.2.12+deb14-amd64", "module-stock", "linux-headers-7.2.12+deb14-amd64 "),
        ("7.3.4+deb13-amd64", "module-stock", "linux-headers-7.3.4+deb13-amd64 "),
        ("7.4-rc1-amd64", "kernel-too-new", "newer sources"),
    ],
)
def test_kernels_that_dkms_skips(release: str, name: str, says: str) -> None:
    """On such a kernel, no installation replaces the stock module, which is no failure."""
    host = FakeHost()
    skipped(host, release)
    found = doctor.examine(host, None)
    (finding,) = found.findings
    assert (finding.kind.name, finding.severity.value, found.status) == (name, "note", 0)
    assert says in finding.fix


@pytest.mark.parametrize(
    ("release", "name", "says"),
    [
        ("7.1.13+deb13-amd64", "kernel-too-old", "linux-image-$a "),
        ("7.2.12+deb14-amd64", "module-not-installed", "linux-headers-7.2.12+deb14-amd64 "),
        ("7.4-rc1-amd64", "kernel-too-new", "newer sources"),
    ],
)
def test_kernels_without_a_module(release: str, name: str, says: str) -> None:
    """NFS over RDMA does not work there, because the kernel's own module is missing as well."""
    host = FakeHost()
    without(host, release)
    found = doctor.examine(host, None)
    (finding,) = found.findings
    assert (finding.kind.name, found.status) == (name, doctor.WRONG)
    assert says in finding.fix


@pytest.mark.parametrize("prepare", [skipped, without])
def test_no_older_kernel_is_advised(prepare: Callable[[FakeHost, str], None]) -> None:
    """The newest kernel of the suite is the one that runs."""
    host = FakeHost()
    prepare(host, "7.4-rc1-amd64")
    (finding,) = doctor.examine(host, None).findings
    assert "linux-image-" not in finding.fix
    assert "builds for Linux 7.2 to 7.3 and skips kernel 7.4-rc1-amd64" in finding.text


def test_no_repository_has_the_package() -> None:
    """The name of a package that only the sources build is refused by apt."""
    assert not [kind.name for kind in KINDS.values() if "install rpcrdma-dkms" in kind.fix]
