# SPDX-License-Identifier: GPL-2.0
"""Our package on Debian's own kernel, from installation to removal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import debian_pair, debian_readme, debian_root, mountstats, splat
from lab.pair import MOUNT_POINT, Guest, Pair

pytestmark = [
    pytest.mark.full,
    pytest.mark.plain_only,
    pytest.mark.needs_ours,
    # Debian's kernel has no siw.
    pytest.mark.rxe_only,
    pytest.mark.own_guests("debian"),
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[debian_pair.Machine]:
    """A Debian machine with our package installed."""
    with debian_pair.machine(tmp_path_factory.mktemp("debian")) as machine:
        yield machine


@pytest.fixture
def upgraded_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two guests of a machine whose package was upgraded, and which then got a second kernel."""
    directory = tmp_path_factory.mktemp("upgraded")
    with (
        debian_pair.machine(directory, debian_root.upgrade) as machine,
        debian_pair.boot(machine, directory) as pair,
    ):
        yield pair


def change_series(merged: Path, release: str, log: Path) -> None:
    """Makes the mount part of the machine's fstab, and gives it a kernel of another series."""
    with (merged / "etc/fstab").open("a") as fstab:
        fstab.write(f"server:/export {MOUNT_POINT} nfs proto=rdma,port=20049 0 0\n")
    (merged / MOUNT_POINT.lstrip("/")).mkdir(parents=True)
    debian_root.change_series(merged, release, log)


@pytest.fixture
def series(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[debian_pair.Machine]]:
    """A machine with its kernel, and the same with the newest kernel."""
    with debian_pair.machines(tmp_path_factory.mktemp("series"), change_series) as machines:
        if len(machines) == 1:
            pytest.skip("the machine has the newest kernel of its suite; use SERIES=")
        yield machines


@pytest.fixture
def readme_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two guests of a machine on which the README's commands were run, and nothing else."""
    directory = tmp_path_factory.mktemp("readme")
    install, fresh = debian_readme.install, debian_root.FRESH
    with (
        debian_pair.machine(directory, install, fresh) as machine,
        debian_pair.boot(machine, directory) as pair,
    ):
        yield pair


@pytest.fixture
def stock_pair(machine: debian_pair.Machine, tmp_path: Path) -> Iterator[Pair]:
    """Two guests that boot that machine; a report in a console fails the scenario."""
    with debian_pair.boot(machine, tmp_path) as pair:
        yield pair
        find_no_reports(pair)


def find_no_reports(pair: Pair) -> None:
    """Fails the scenario if the kernel of a guest has printed a report."""
    reports = [r for guest in (pair.server, pair.client) for r in splat.find(guest.console())]
    assert not reports, "\n".join(reports)


def is_ours(pair: Pair) -> bool:
    """Whether the loaded rpcrdma is an out-of-tree module."""
    return "O" in pair.client.read("/sys/module/rpcrdma/taint")


def exchange(pair: Pair, suite: str) -> None:
    """Writes known contents on the client and checks them on the server, and the reverse."""
    for writer, reader, name in (
        (pair.client, pair.server, f"from-client-{suite}"),
        (pair.server, pair.client, f"from-server-{suite}"),
    ):
        places = {pair.client.name: MOUNT_POINT, pair.server.name: "/srv/export"}
        writer.sh(f"/lab/verify.py write {suite} {places[writer.name]}/{name}", timeout=300)
        writer.sh("sync")
        reader.sh(f"/lab/verify.py check {suite} {places[reader.name]}/{name}", timeout=300)


def patiently(pair: Pair, command: str) -> None:
    """Repeats a command that unloads the module until the module is no longer in use."""
    for _ in range(40):
        if not pair.client.run(command).status:
            return
        time.sleep(0.1)
    pair.client.sh(command)


def make(pair: Pair, target: str) -> str:
    """Makes a target in the client, where the module is built; returns the output of make."""
    said = pair.client.sh(f"make -C {debian_root.SOURCES} -o modules {target}", timeout=600)
    print(said)
    return said


def follow(pair: Pair, said: str) -> None:
    """Runs the commands that `said` advises in its indented lines."""
    steps = [line.strip() for line in said.splitlines() if line.startswith("    ")]
    assert steps[-1].startswith("modprobe -r -w 10000 rpcrdma"), said
    for command in steps:
        patiently(pair, command)


def follow_readme(guest: Guest, role: str) -> None:
    """Runs the commands of the README that need the kernel, in root's usual path."""
    path = "export PATH=/usr/local/sbin:/usr/local/bin:$PATH"
    for command in debian_readme.using(role):
        print(f"# {command}\n{guest.sh(f'{path}; {command}', timeout=300)}")


def test_install_mount_reload_remove(stock_pair: Pair) -> None:
    """A machine installs the package, mounts, reloads the module, and removes the package."""
    pair, client = stock_pair, stock_pair.client
    print(client.sh("uname -r; dkms status; modinfo rpcrdma"))
    assert "/updates/" in client.sh("modinfo -n rpcrdma")

    # The module is not loaded by hand: mount loads it.
    pair.mount("4.2")
    assert is_ours(pair)
    print(client.sh(f"findmnt -no SOURCE,FSTYPE,OPTIONS {MOUNT_POINT}"))
    for suite in ("sizes", "direct", "mmap", "big"):
        exchange(pair, suite)
    stats = mountstats.parse(client.read("/proc/self/mountstats"), MOUNT_POINT)
    assert stats["sends"] > 0
    pair.umount()

    patiently(pair, "modprobe -r rpcrdma")
    client.sh("modprobe rpcrdma")
    assert is_ours(pair)
    pair.mount("3")
    exchange(pair, "offsets")
    pair.umount()

    patiently(pair, "modprobe -r rpcrdma")
    client.sh("apt-get purge -y rpcrdma-dkms", timeout=600)
    assert "/updates/" not in client.sh("modinfo -n rpcrdma")
    assert not client.sh("ls -d /usr/src/rpcrdma-* /usr/src/*/.rust-headers.json || true").strip()
    pair.mount("4.2")
    assert not is_ours(pair)
    exchange(pair, "append")

    # Installation without the package while the kernel's own module is in use; then removal.
    said = make(pair, "modules_install")
    assert "/updates/rpcrdma.ko" in said and "the kernel's own rpcrdma.ko is loaded" in said
    assert f"umount {MOUNT_POINT}" in said
    follow(pair, said)
    assert is_ours(pair)
    pair.mount("4.2")
    exchange(pair, "sizes")
    said = make(pair, "modules_uninstall")
    assert "from outside the kernel's tree is loaded" in said and "/updates/" not in said
    follow(pair, said)
    assert not is_ours(pair)


def test_upgrades(upgraded_pair: Pair) -> None:
    """After an upgrade by apt the new module works, and a new kernel has it."""
    pair, client = upgraded_pair, upgraded_pair.client
    print(client.sh("uname -r; dkms status; ls /lib/modules"))
    (version,) = {line.split(",")[0] for line in client.sh("dkms status").splitlines()}
    name, _, number = version.partition("/")
    assert (name, number) == ("rpcrdma", debian_root.higher(debian_root.version()))
    for release in client.sh("ls /lib/modules").split():
        assert "/updates/" in client.sh(f"modinfo -k {release} -n rpcrdma")
        assert client.sh(f"modinfo -k {release} -F version rpcrdma").strip() == number
    pair.mount("4.2")
    assert is_ours(pair)
    assert client.read("/sys/module/rpcrdma/version").strip() == number
    exchange(pair, "sizes")
    pair.umount()


def test_next_series(series: list[debian_pair.Machine], tmp_path: Path) -> None:
    """A mount in fstab works before and after apt has installed a kernel of a newer series."""
    for machine in series:
        with debian_pair.boot(machine, tmp_path / machine.release) as pair:
            client = pair.client
            assert client.sh("uname -r").strip() == machine.release
            print(client.sh("uname -r; dkms status; modinfo -n rpcrdma"))
            client.sh("mount -a -t nfs", timeout=120)
            assert is_ours(pair)
            options = client.sh(f"findmnt -no OPTIONS {MOUNT_POINT}")
            assert "proto=rdma" in options and "vers=4.2" in options
            exchange(pair, "sizes")
            pair.umount()
            find_no_reports(pair)


def test_readme(readme_pair: Pair) -> None:
    """On a fresh machine the README's commands end with a server and a mount that work."""
    pair, server, client = readme_pair, readme_pair.server, readme_pair.client
    # The lab's server has the kernel's own module.
    assert "O" not in server.read("/sys/module/rpcrdma/taint")
    follow_readme(server, "server")
    assert "O" in server.read("/sys/module/rpcrdma/taint")
    assert "rdma 20049" in server.read("/proc/fs/nfsd/portlist")
    # So has a client with a device: rdma-core and systemd have loaded it before our package came.
    client.sh("modprobe -a rdma_cm ib_core sunrpc && insmod /lab/rpcrdma.ko")
    assert not is_ours(pair)
    # The README's mount is at /mnt; so is the directory of the lab's mounts.
    follow_readme(client, "client")
    assert is_ours(pair)
    options = client.sh("findmnt -no OPTIONS /mnt")
    # mount(8) would fall back to NFSv3.
    assert "proto=rdma" in options and "vers=4.2" in options
    client.sh("echo as the README says > /mnt/proof && sync")
    assert server.read("/srv/export/proof") == "as the README says\n"
    client.sh("umount /mnt")
