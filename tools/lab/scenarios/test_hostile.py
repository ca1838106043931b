# SPDX-License-Identifier: GPL-2.0
"""A hostile responder that breaks every rule of the protocol.

The client has files open and calls in flight when the hostile peer (guest/hostile.py) takes the
server's port. Each misdeed must show in a counter and in a trace event. Afterwards, with the real
server back, the work continues, and every byte is right.
"""

from __future__ import annotations

import pytest

from lab import connections, hostile, tracing
from lab.fixtures import BREACHES
from lab.nfsrdma import doctor, install
from lab.pair import MOUNT_POINT, Pair
from lab.worker import Worker

pytestmark = pytest.mark.full

#: Seconds for all misdeeds of a group, and until the client works again after them. On the debug
#: kernel NFSv4 recovers its state in between, at a second for each failure.
DOING, RECOVERING = 400, 100
EVENTS = (
    *("malformed_hdr", "reply_short_err", "reply_hdr_err", "reply_vers_err", "reply_violation"),
    *("reply_rqst_err", "err_vers", "err_chunk", "bad_credits", "reminv_foreign", "mr_reminv"),
    *("cb_call", "cb_refused", "probe", "wc_probe", "not_a_send"),
)
#: Counters that only misdeeds move, so their exact values are known.
EXACT = ("malformed_header", "reply_claim", "foreign_rkey", "bad_credits", "not_a_send")


def _named(events: tuple[str, ...]) -> list[str]:
    return [f"rpcrdma:xprtrdma_{name}" for name in events]


def _suffer(pair: Pair, group: str, version: str) -> list[hostile.Deed]:
    """Gives the port to the hostile peer and back; returns its misdeeds."""
    try:
        text = hostile.finish(pair, hostile.take_port(pair, group, version), DOING)
    finally:
        hostile.return_port(pair)
    return hostile.deeds(text)


def _compare(done: list[hostile.Deed], moved: dict[str, int], fired: list[tracing.Event]) -> None:
    """Compares counters and events with the ones that the misdeeds must have caused."""
    counters, events = hostile.expected(done)
    short = {name: (moved[name], times) for name, times in counters.items() if moved[name] < times}
    assert not short, f"counters (found, expected): {short}"
    names = [event.name for event in fired]
    missed = {n: (names.count(n), times) for n, times in events.items() if names.count(n) < times}
    assert not missed, f"events (found, expected): {missed}"
    assert names.count("xprtrdma_probe") == events["xprtrdma_probe"], (
        "there were probes without a reason"
    )
    # The client must not take an honest message for a misdeed.
    for name in EXACT:
        assert moved[name] == counters[name], f"{name}: {moved[name]}, not {counters[name]}"


def _compare_line(pair: Pair, moved: dict[str, int], probes: int) -> None:
    """The mount's line counts the breaches and probes of all its connections."""
    (line,) = connections.read(pair.client)
    names = [line.split()[0] for line in pair.client.read(BREACHES).splitlines()]
    noticed = sum(moved[name] for name in names)
    print(f"breaches of the mount: {line['breaches']}, of the module: {noticed}")
    assert int(line["breaches"]) == noticed
    assert int(line["probes"]) == probes
    if noticed:
        assert {"breaches", "peer-breach"} <= set(doctor(install(pair).client))


GROUPS = [
    *(("3", group) for group in ("headers", "claims", "floods", "memory", "silence")),
    *(("4.2", group) for group in ("callbacks", "headers")),
]


# Over iWARP the peer cannot know which misdeeds have reached the client: TCP takes them all.
@pytest.mark.rxe_only
@pytest.mark.needs_ours
@pytest.mark.breaks_rules
@pytest.mark.parametrize(("version", "group"), GROUPS)
def test_answers(pair: Pair, version: str, group: str) -> None:
    """The client survives each misdeed in the replies, and counts and traces it."""
    pair.server.sh("rm -rf /srv/export/*")
    pair.mount(version, options="actimeo=600")
    worker = Worker(pair)
    before = hostile.counters(pair.client)
    with tracing.recording(pair.client, _named(EVENTS)) as trace:
        done = _suffer(pair, group, version)
    print("\n".join(deed.text for deed in done))
    assert not [deed.text for deed in done if "REACHED" in deed.text]
    after = hostile.counters(pair.client)
    moved = {name: after[name] - before[name] for name in after}
    _compare(done, moved, trace.events())
    _compare_line(pair, moved, len(trace.events("xprtrdma_probe")))
    took = worker.await_progress(30, RECOVERING)
    print(f"{len(done)} misdeeds; at work again after {took:.1f} s; {worker.finish()}")
    pair.umount()
    pair.unload()
    pair.load()


HANDSHAKE = ("op_connect", "private_data", "conn_state", "connect", "disconnect", "wc_receive")
#: Seconds of an attempt to mount, which must be enough for the first call.
ATTEMPT = 4


def _attempts(seconds: float) -> str:
    """A command that tries to mount, again and again, and kills an attempt that takes longer."""
    options = "vers=4.2,proto=rdma,port=20049,retry=0"
    mount = f"timeout -s KILL {seconds:.1f} mount -t nfs -o {options} server:/export {MOUNT_POINT}"
    return f"while [ ! -e /run/enough ]; do {mount}; sleep 0.1; done; :"


@pytest.mark.needs_ours
@pytest.mark.breaks_rules
def test_handshake(pair: Pair) -> None:
    """The client survives bad private data, rejections, and a peer that leaves at each step."""
    pair.client.sh(f"rm -f /run/enough; mkdir -p {MOUNT_POINT}")
    with tracing.recording(pair.client, _named(HANDSHAKE)) as trace:
        peer = hostile.take_port(pair, "handshake")
        trying = pair.client.vm.start(_attempts(ATTEMPT * pair.patience))
        try:
            text = hostile.finish(pair, peer, DOING)
        finally:
            pair.client.sh("touch /run/enough")
            pair.client.vm.agent.wait(trying, 100)
            hostile.return_port(pair)
    print(text)
    print("\n".join(f"{event.time} {event.name}: {event.text}" for event in trace.events()))
    wanted = [
        "{} reminv={} send={} recv={}".format(*line.split()[1:])
        for line in text.splitlines()
        if line.startswith("agreed ")
    ]
    assert wanted, "the hostile peer accepted no connection"
    shown = [event.text.split(" ", 1)[1] for event in trace.events("xprtrdma_private_data")]
    assert shown[: len(wanted)] == wanted
    connected = hostile.deeds(text)[: len(wanted)]
    assert all("call of" in deed.text for deed in connected), "the client did not use a connection"
    pair.mount()
    pair.client.sh(f"echo well > {MOUNT_POINT}/after && sync {MOUNT_POINT}/after")
    assert pair.server.read("/srv/export/after") == "well\n"
    pair.umount()
    pair.unload()
    pair.load()
