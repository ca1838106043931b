# SPDX-License-Identifier: GPL-2.0
"""The third guest: its cable, and the card of the server at the other end."""

from __future__ import annotations

from pathlib import Path

from lab import bystander


def test_both_ends_are_of_one_cable() -> None:
    """The server listens where the bystander connects."""
    server, own = (bystander.link_end(Path("/run"), server=which) for which in (True, False))
    assert server.replace("server=on", "server=off") == own
    assert own.endswith("/run/bystander-link.sock")


def test_server_card_is_on_that_cable() -> None:
    """The card belongs to the network device that the arguments make."""
    _, netdev, _, card = bystander.server_card(Path("/run"))
    assert bystander.link_end(Path("/run"), server=True) in netdev
    assert f"id={bystander.NAME}," in netdev and f"netdev={bystander.NAME}," in card
