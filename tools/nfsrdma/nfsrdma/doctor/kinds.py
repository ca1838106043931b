# SPDX-License-Identifier: GPL-2.0
"""All findings of the doctor.

The manual page lists them; a test compares it with this table. Each finding has a test that
provokes it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from enum import Enum

#: Characters that a word of the shell may not contain without quotes.
_SPECIAL = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


def _quote(text: str) -> str:
    """Quotes a word for the shell, as shlex does, which Debian's python3-minimal lacks.

    Letters that a terminal does not show become bytes in octal, which bash reads.
    """
    if text and not _SPECIAL.search(text):
        return text
    if not _is_shown(text):
        return f"$'{''.join(map(_octal, text))}'"
    escaped = text.replace("'", "'\"'\"'")
    return f"'{escaped}'"


def _is_shown(text: str) -> bool:
    """Whether the output has the bytes of a name: those of the kernel are UTF-8."""
    encoding = (sys.stdout.encoding or "").lower()
    return text.isprintable() and (text.isascii() or encoding == "utf-8")


def _octal(letter: str) -> str:
    if _is_shown(letter) and letter not in "'\\":
        return letter
    # An argument of the command line may be no text.
    return "".join(f"\\{byte:03o}" for byte in letter.encode(errors="surrogateescape"))


def _quoted(values: dict[str, object]) -> dict[str, str]:
    words = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    return {name: " ".join(_quote(str(word)) for word in found) for name, found in words.items()}


class Severity(Enum):
    """How bad a finding is."""

    #: Something does not work.
    PROBLEM = "problem"
    #: Something works badly, or did not work before.
    WARNING = "warning"
    #: Something is worth knowing.
    NOTE = "note"

    @property
    def rank(self) -> int:
        """The place in the order of what to do first."""
        return list(Severity).index(self)

    @property
    def mark(self) -> str:
        """The mark at the beginning of a line."""
        return {"problem": "FAIL", "warning": "warn", "note": "note"}[self.value]


@dataclass(frozen=True)
class Kind:
    """A kind of finding. Text and command have fields in braces."""

    name: str
    severity: Severity
    text: str
    fix: str


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    kind: Kind
    values: dict[str, object] = field(default_factory=dict)
    #: Values with which the last command of the fix is repeated.
    again: tuple[dict[str, object], ...] = ()
    #: Whether it is a note here, although its kind is worse.
    is_note: bool = False

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return Severity.NOTE if self.is_note else self.kind.severity

    @property
    def text(self) -> str:
        """Returns the description of the finding."""
        return self.kind.text.format(**self.values)

    @property
    def fix(self) -> str:
        """Returns the fix: commands, one on each line, or an explanation.

        What was found is quoted for the shell if that is necessary; a list becomes several words.
        """
        *_, last = self.kind.fix.split("\n")
        commands = [(self.kind.fix, self.values), *((last, values) for values in self.again)]
        return " &&\n".join(text.format(**_quoted(values)) for text, values in commands)

    def as_json(self) -> dict[str, str]:
        """Returns what ``--json`` prints."""
        return {
            "finding": self.kind.name,
            "severity": self.severity.value,
            "text": self.text,
            "fix": self.fix,
        }


KINDS: dict[str, Kind] = {}


def _kind(severity: Severity, name: str, text: str, fix: str) -> None:
    KINDS[name] = Kind(name, severity, text, fix)


def finding(name: str, /, **values: object) -> Finding:
    """Makes a finding of a kind."""
    return Finding(KINDS[name], values)


#: nfsd takes a further port while it runs; then `rpc.nfsd --rdma=PORT` adds none.
_LISTEN = (
    "echo 'rdma {port}' > /proc/fs/nfsd/portlist   # on the server, while nfsd runs\n"
    "nfsrdma doctor   # on the server, for its findings"
)

#: Without a port rpc.nfsd looks for a name that Debian's services(5) lacks, and does not listen.
_ADD_LISTENER = (
    "echo 'rdma {port}' > /proc/fs/nfsd/portlist   # until nfsd ends; permanently:\n"
    "nfsconf --set nfsd rdma y && nfsconf --set nfsd rdma-port {port} &&\n"
    "systemctl restart nfs-server"
)

#: The last connection may close some seconds after umount, or after nfsd has stopped.
_RELOAD = (
    "modprobe -r -w 10000 rpcrdma && modprobe rpcrdma   # after umount, and while nfsd is stopped"
)

#: No repository has rpcrdma-dkms: its users build it.
_BUILD = (
    "apt install linux-headers-{release}   # DKMS then builds it, if rpcrdma-dkms is installed;\n"
    "# otherwise, in the sources: make deb && apt install ./build/deb/rpcrdma-*_all.deb"
)

#: A kernel that rpcrdma-dkms builds for. The machine's own suite need not have one.
_KERNEL = (
    "a=$(dpkg --print-architecture)\n"
    "apt install linux-image-$a linux-headers-$a   # then reboot; on Debian 13 with\n"
    "# -t trixie-backports, a suite that apt's sources have to name"
)

#: A client's MTU is that of the server's packets as well (cma_resolve_iboe_route).
_MTU = (
    "ip link set {netdev} mtu 4200   # on all hosts and switches of the network: first on\n"
    "# switches and servers, because the client's MTU is that of the server's packets as well"
)

_P, _W, _N = Severity.PROBLEM, Severity.WARNING, Severity.NOTE

# The module.
_kind(
    _N,
    "not-root",
    "only root can read some files, so the diagnosis is incomplete",
    "sudo nfsrdma doctor",
)
_kind(_P, "module-missing", "no module rpcrdma is loaded", "modprobe rpcrdma")
_kind(
    _P,
    "module-not-installed",
    "no module rpcrdma is installed for kernel {release}",
    _BUILD,
)
_kind(
    _P,
    "kernel-too-old",
    "kernel {release} has no module rpcrdma, and rpcrdma-dkms needs Linux {oldest} or newer",
    _KERNEL,
)
_kind(
    _N,
    "module-stock",
    "the loaded rpcrdma.ko is the kernel's own: it shows no connections",
    f"{_BUILD}\n{_RELOAD}",
)
_kind(
    _N,
    "kernel-skipped",
    "the loaded rpcrdma.ko is the kernel's own, because rpcrdma-dkms skips kernel {release}: it"
    " builds for Linux {oldest} to {newest}",
    _KERNEL,
)
_kind(
    _P,
    "kernel-too-new",
    "rpcrdma-dkms builds for Linux {oldest} to {newest} and skips kernel {release}: {instead}",
    "ls /lib/modules   # boot a kernel of these series, or build the package from newer sources",
)
_kind(
    _W,
    "module-unused",
    "version {installed} of this module is installed, but the kernel's own rpcrdma.ko is loaded",
    _RELOAD,
)
_kind(
    _W,
    "module-outdated",
    "version {loaded} of the module is loaded, but version {installed} is installed",
    _RELOAD,
)
_kind(
    _N,
    "debugfs-missing",
    "debugfs is not mounted, so connections cannot be seen",
    "mount -t debugfs none /sys/kernel/debug",
)

# The device.
_kind(
    _P,
    "no-device",
    "this host has no RDMA device",
    "rdma link add rxe0 type rxe netdev INTERFACE   # RoCE in software, over any Ethernet",
)
_kind(_P, "link-down", "port {port} of device {device} is {state}", "ip link set {netdev} up")
_kind(
    _P,
    "port-down",
    "port {port} of device {device} is {state}",
    "check the cable, and for InfiniBand that a subnet manager runs (sminfo)",
)
_kind(
    _N,
    "port-unused",
    "port {port} of device {device} is {state}, and nothing needs it: others are active",
    "rdma link show {device}/{port}   # no action unless the port should carry traffic",
)
_kind(
    _W,
    "no-address",
    "the interface {netdev} of device {device} has no address, or only a link-local one",
    "ip address add ADDRESS/PREFIX dev {netdev}",
)
_kind(
    _W,
    "gids-full",
    "all {size} GIDs of port {port} of device {device} are in use: {address} has none"
    " (addresses without: {count})",
    "ip address show dev {netdev}   # delete addresses that nobody needs, and then, on the\n"
    "# console because routes and secondary addresses may go with it, this one:\n"
    "ip address del {address}/{prefix} dev {netdev} &&"
    " ip address add {address}/{prefix} dev {netdev}",
)
_kind(
    _W,
    "mtu-small",
    "the MTU of {netdev} is {mtu}: RoCE sends {roce} bytes per packet",
    _MTU,
)

_kind(
    _N,
    "class-missing",
    "PFC of {netdev} is on for priority {priorities}, but packets of RoCE have no traffic class",
    "sysctl sunrpc.rdma_traffic_class={value}   # DSCP {dscp}, for priority {priority}\n"
    "umount and mount again   # the switches must have the same table",
)

# The way to the server.
_kind(_P, "name-unknown", "the name {server} has no address", "getent ahosts {server}")
_kind(_P, "no-route", "there is no route to {address}", "ip route get {address}")
_kind(
    _P,
    "route-not-rdma",
    "the route to {address} leaves through {netdev}, which belongs to no RDMA device",
    "ip address show   # no active RDMA port has an address in the network of {address}:\n"
    "ip route get {address}   # use another address of the server, or give such a port one there",
)
_kind(
    _P,
    "route-beside",
    "the route to {address} leaves through {netdev}, which belongs to no RDMA device, although"
    " {rdma} of such a device has an address in that network",
    "ip route replace {address} dev {rdma}",
)
_kind(
    _P,
    "address-local",
    "{address} is an address of this host, which the route to it reaches through {netdev}",
    "use the server's own address",
)
_kind(
    _P,
    "neighbour-failed",
    "{address} does not answer on {netdev} (neighbour {state})",
    "ping -c 3 {address}",
)
_kind(
    _P,
    "port-refused",
    "nothing listens for RDMA on port {port} of {address}",
    _LISTEN,
)
_kind(
    _P,
    "port-silent",
    "{address} does not answer a connection request to port {port} over RDMA",
    "ping -c 3 {address}   # if it answers, a firewall may drop UDP port 4791 (RoCE)",
)
_kind(
    _P,
    "port-filtered",
    "{address} answers over TCP, but no connection request to port {port} over RDMA",
    "nft list ruleset   # with rxe, on both hosts: UDP port 4791 (RoCE) has to pass. Packets of\n"
    "# an adapter pass no rules of its host: compare VLAN, RoCE version and switches instead\n"
    "rdma link   # on the server: does an RDMA device carry the address?",
)
_kind(
    _P,
    "port-dropped",
    "TCP port {port} of {address} (iWARP) neither accepts nor refuses: it is filtered, or the host"
    " is down",
    "ping -c 3 {address}\nnft list ruleset   # on both hosts: TCP port {port} has to pass",
)
_kind(
    _P,
    "port-unresolved",
    "the connection manager finds no route to {address} over RDMA",
    "ip neighbour show to {address}\nrdma link",
)
_kind(
    _N,
    "port-not-asked",
    "port {port} of {address} is not probed: /dev/infiniband/rdma_cm cannot be opened",
    "modprobe rdma_ucm",
)
_kind(
    _N,
    "mount-not-rdma",
    "mounted from {server} by {proto}, not by RDMA: {names}",
    "umount {points} &&\nmount -o {options} {source} {point}",
)

# nfsd on this host.
_kind(
    _P,
    "no-listener",
    "nfs.conf enables RDMA, but nfsd does not listen for it",
    _ADD_LISTENER.format(port="{port}"),
)
_kind(
    _N,
    "tcp-only",
    "nfsd runs, but does not listen for RDMA: nfs.conf does not enable it",
    _ADD_LISTENER.format(port=20049),
)
_kind(
    _W,
    "listener-differs",
    "nfs.conf names RDMA port {wanted}, but nfsd listens on {port}",
    "echo 'rdma {wanted}' > /proc/fs/nfsd/portlist   # as well, until nfsd ends; otherwise:\n"
    "systemctl restart nfs-server   # or correct it: nfsconf --set nfsd rdma-port {port}",
)
_kind(_P, "no-threads", "nfsd listens for RDMA on port {port}, but has no threads", "rpc.nfsd 8")
_kind(
    _N,
    "few-threads",
    "nfsd has {threads} threads, and its clients have {calls} calls in progress",
    "rpc.nfsd {more}   # if this recurs; permanently: nfsconf --set nfsd threads {more}",
)

# Connections.
_kind(
    _P,
    "refused",
    "{peer} refuses connections: nothing listens there for RDMA",
    _LISTEN,
)
_kind(_P, "unreachable", "{peer} cannot be reached: {error}", "nfsrdma doctor {address}")
_kind(
    _P,
    "not-answering",
    "{peer} does not answer connection requests: {error}",
    "ping -c 3 {address}\nnfsrdma doctor   # on the server",
)
_kind(
    _P,
    "connect-failed",
    "connecting to {peer} fails: {error}",
    "dmesg | grep 'rpcrdma: connecting to'   # names the step that failed",
)
_kind(
    _W,
    "silent",
    "{peer} owes replies and has sent nothing for {seconds} s",
    "ping -c 3 {address}\nnfsrdma doctor   # on the server: is nfsd stuck?",
)
_kind(
    _N,
    "ports-uneven",
    "{peer} has {many} connections over {most}, and {few} over {least}, which is active as well",
    "nfsrdma rails   # a connection returns to its port when it is made again",
)
_kind(
    _W,
    "lost-often",
    "the connection to {peer} was made {connects} times; last loss: {why}",
    "dmesg | grep -E 'rpcrdma|{device}'\n"
    "ip link   # with RoCE: the MTU of server and switches must not be smaller than the client's",
)
_kind(
    _W,
    "peer-breach",
    "{peer} has broken the protocol: breaches since its line was created: {count}",
    "nfsrdma trace --all COMMAND   # report it with the output",
)
_kind(
    _W,
    "breaches",
    "servers have broken the protocol since the module was loaded: {counts}",
    "nfsrdma report -o report.html   # send it to the server's maintainer",
)
_kind(
    _W,
    "requester-breaches",
    "clients have broken the protocol since the module was loaded: {counts}",
    "dmesg | grep 'rpcrdma: server:'   # names the clients",
)
_kind(
    _N,
    "credits-out",
    "all {credits} credits of {peer} are in use, and a second later it has not granted more",
    "sysctl sunrpc.svc_rdma.max_requests   # on the server: this module grants 16 at rest,\n"
    "# and up to this number in use; if that is reached:\n"
    "sysctl sunrpc.svc_rdma.max_requests={more}   # then mount again",
)

# Settings.
_kind(
    _W,
    "threshold-low",
    "messages to or from {peer} above {bytes} bytes need memory registration, although this host"
    " would accept {ours} bytes inline",
    "umount and mount again   # if the sysctls of this host were lower before\n"
    "# otherwise the server's threshold is lower, or not announced (RFC 8797)",
)
_kind(
    _W,
    "setting-low",
    "{name} is {value}, below the default of {default}",
    "sysctl sunrpc.{name}={default}",
)
_kind(
    _N,
    "version-fixed",
    "rdma_version is {value}: the version is not negotiated",
    "sysctl sunrpc.rdma_version=auto",
)

# Sizes and queues of connections, against the settings of both ends.
_kind(
    _N,
    "server-limits",
    "messages to or from {peer} have at most {bytes} bytes inline, although this host would take"
    " {ours}: the server takes less",
    "sysctl sunrpc.svc_rdma.max_req_size={ours}   # on the server\n"
    "umount and mount again   # a busy connection of version two follows without",
)
_kind(
    _N,
    "clients-limit",
    "connections that have at most {bytes} bytes inline, although max_req_size is {ours}: {count},"
    " the first from {peer}",
    "sysctl sunrpc.rdma_max_inline_read={ours} sunrpc.rdma_max_inline_write={ours}"
    "   # on the clients",
)
_kind(
    _N,
    "settings-later",
    "connections that keep an earlier value of {name}, {then}, which is {now} now: {count}, the"
    " first from {peer}",
    "umount and mount again   # on the clients, or on this host:\n"
    "systemctl restart nfs-server   # the clients reconnect, and repeat their calls",
)
_kind(
    _N,
    "queue-short",
    "connections of {device} that have room for {limit} calls, although {name} is {wanted}:"
    " {count}, the first with {peer}",
    "dmesg | grep 'calls per connection'   # a server's device whose queues are too short\n"
    "umount and mount again   # on the client, if the value was lower before; otherwise the\n"
    "# device is the limit: further connections (nconnect=) have queues of their own",
)
_kind(
    _N,
    "mtu-packets",
    "an inline message of {bytes} bytes takes {packets} packets of {roce} bytes: the MTU of"
    " {netdev} is {mtu}",
    _MTU,
)

# The way of data from the device to memory.
_kind(
    _N,
    "iommu-strict",
    "the IOMMU translates for {device} in strict mode: each unmapping waits for an invalidation",
    "iommu.strict=0   # on the kernel's command line: it invalidates in batches; or\n"
    "iommu.passthrough=1   # no translation, and no protection of this host's memory\n"
    "# against the device",
)
_kind(
    _N,
    "confidential",
    "this is a confidential guest ({kind}): data of devices is copied through bounce buffers",
    "cat /sys/kernel/debug/swiotlb/io_tlb_used_hiwater   # under Secure Boot nobody can open it,\n"
    "# but io_tlb_used can be read. If it nears io_tlb_nslabs:\n"
    "swiotlb=NUMBER   # on the kernel's command line; one slab has 2 KiB",
)
_kind(
    _W,
    "bounce-buffers-low",
    "{used} of {total} of bounce buffers (SWIOTLB) have been in use: calls wait when none is free",
    "swiotlb={more}   # on the kernel's command line; afterwards, or to look again (not under\n"
    "# Secure Boot, where nobody can open the file):\n"
    "echo 0 > /sys/kernel/debug/swiotlb/io_tlb_used_hiwater",
)

# Memory.
_kind(
    _W,
    "memory-low",
    "{available} of {total} memory are available",
    "ps -eo rss,comm --sort -rss | head",
)
_kind(
    _W,
    "locked-up",
    "tasks hang, as the kernel's log reports: {task}",
    "dmesg | grep -A20 'blocked.* for more than'",
)
