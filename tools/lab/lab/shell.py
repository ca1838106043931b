# SPDX-License-Identifier: GPL-2.0
"""`make shell`: an interactive shell on a guest, with the mount in place."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import demo, settings, terminal
from .progress import say


def main(arguments: Sequence[str]) -> int:
    """``lab shell``."""
    argparse.ArgumentParser(prog="lab shell", description=__doc__).parse_args(arguments)
    on = settings.on()
    built, client_module = demo.prepare(settings.client(), settings.flavour())
    with demo.boot(built, client_module, "shell") as pair:
        for guest in (pair.server, pair.client):
            say(f"console of the {guest.name}: {guest.vm.spec.console}")
        terminal.talk(pair, on, inside=True)
        say(f"logs: {pair.directory}")
    return 0
