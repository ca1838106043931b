# SPDX-License-Identifier: GPL-2.0
"""Where completions are handled: on which of the device's vectors, and in which workqueue.

The workqueue is one of the module's own, or that of ib_core by parameter.
"""

from __future__ import annotations

import re

import pytest

from lab import settings
from lab.harness import Options
from lab.pair import MOUNT_POINT, Pair
from lab.tracing import recording

QUEUE, CORE = "rpcrdma_completion", "ib-comp-wq"
FILES = f"/sys/devices/virtual/workqueue/{QUEUE}"
#: Files of the workqueue, and the values that are written to them.
TUNED = (("nice", "-20"), ("nice", "19"), ("cpumask", "1"))
KILOBYTES = 256

pytestmark = pytest.mark.full
needs_ours = pytest.mark.needs_ours


def _queues_used(pair: Pair) -> list[set[str]]:
    """Moves data both ways, and compares it.

    Returns the workqueues that handled completions, on the client and on the server.
    """
    client, event = pair.client, ["workqueue:workqueue_queue_work"]
    with recording(client, event) as here, recording(pair.server, event) as there:
        client.sh(f"head -c {KILOBYTES}K /dev/urandom > /tmp/data")
        client.sh(f"dd if=/tmp/data of={MOUNT_POINT}/data bs=4k oflag=direct")
        client.sh(f"dd if={MOUNT_POINT}/data bs=4k iflag=direct | cmp - /tmp/data")
    return [_named([event.text for event in trace.events()]) for trace in (here, there)]


def _named(events: list[str]) -> set[str]:
    found = [re.search(r"function=ib_cq_poll_work workqueue=(\S+)", text) for text in events]
    return {match[1] for match in found if match}


@needs_ours
def test_workqueue_of_our_own(pair: Pair) -> None:
    """By default the module's own workqueue handles a client's completions, however it is tuned.

    Those of a server are handled by the workqueue of ib_core, with either module.
    """
    pair.mount("4.2")
    assert _queues_used(pair) == [{QUEUE}, {CORE}]
    for name, value in TUNED:
        default = pair.client.read(f"{FILES}/{name}").strip()
        pair.client.sh(f"echo {value} > {FILES}/{name}")
        assert _queues_used(pair) == [{QUEUE}, {CORE}]
        pair.client.sh(f"echo {default} > {FILES}/{name}")
    pair.umount()
    pair.unload()
    assert pair.client.run(f"test -e {FILES}").status
    pair.load()


@needs_ours
def test_workqueue_of_the_core(pair: Pair) -> None:
    """With completion_workqueue=N the workqueue of ib_core handles them."""
    pair.unload()
    pair.load("completion_workqueue=N")
    pair.mount("4.2")
    assert _queues_used(pair) == [{CORE}, {CORE}]
    pair.umount()
    assert pair.client.run(f"test -e {FILES}").status
    pair.unload()
    pair.load()


@pytest.mark.both_roles
@pytest.mark.parametrize("pair", [Options(cpus=4)], indirect=True)
def test_vectors(pair: Pair) -> None:
    """The connections of a mount complete on different vectors of the device.

    Our client has one completion queue for a connection, and so four vectors have one each. The
    stock client has two, of which the one for Receives is always the second.
    """
    with recording(pair.client, ["rdma_core:cq_alloc"]) as trace:
        pair.mount("4.2", options="nconnect=4")
        pair.client.sh(f"for i in $(seq 40); do echo $i > {MOUNT_POINT}/v$i; done; sync")
        texts = [event.text for event in trace.events()]
    pair.umount()
    found = [re.search(r"comp_vector=(\d+)", text) for text in texts]
    vectors = [int(match[1]) for match in found if match]
    print(f"vectors of the completion queues: {vectors}")
    if settings.client() == "ours":
        assert sorted(vectors) == [0, 1, 2, 3]
    else:
        assert len(vectors) == 8
