# SPDX-License-Identifier: GPL-2.0
"""A network namespace on the client, for mounts that have a network of their own."""

from __future__ import annotations

from .pair import Pair

NAME = "apart"


def ensure(pair: Pair) -> None:
    """Makes the namespace with an RDMA device and a route to the server, unless it exists."""
    if pair.client.run(f"ip netns list | grep -q {NAME}").status == 0:
        return
    pair.client.sh(
        f"ip netns add {NAME} && ip link add near mtu 9000 type veth peer name far mtu 9000"
        f" netns {NAME} && ip addr add 10.0.1.1/24 dev near && ip link set near up &&"
        " echo 1 > /proc/sys/net/ipv4/ip_forward"
    )
    inside = f"ip -n {NAME}"
    pair.client.sh(
        f"{inside} link set lo up && {inside} addr add 10.0.1.2/24 dev far &&"
        f" {inside} link set far up && {inside} route add default via 10.0.1.1"
    )
    add_device(pair)
    pair.server.sh("ip route replace 10.0.1.0/24 via 10.0.0.2")


def device(pair: Pair) -> str:
    """Returns the name of the namespace's RDMA device."""
    return f"{pair.setup.link}1"


def add_device(pair: Pair) -> None:
    """Adds the RDMA device to the namespace."""
    kind = pair.setup.link
    pair.client.sh(f"ip netns exec {NAME} rdma link add {device(pair)} type {kind} netdev far")


def delete_device(pair: Pair) -> None:
    """Removes the RDMA device from the namespace."""
    pair.client.sh(f"rdma link del {device(pair)}", timeout=120)
