# SPDX-License-Identifier: GPL-2.0
"""A guest's RDMA device whose limits and behaviour a scenario changes.

The scenario asks for `Options(moody=True)`, so that the guests load `lab_profile.ko` first
(tools/lab/provoke/lab_limits.c and lab_moods.c).
"""

from __future__ import annotations

from .pair import Guest
from .profiles import LIMITS

_PARAMETERS = "/sys/module/lab_profile/parameters"
#: The parameters of the behaviour, all of which are zero at first.
BEHAVIOUR = ("late", "hard", "vector", "batch", "behind", "enomem", "slow")


class Moods:
    """The device of one guest."""

    def __init__(self, guest: Guest, link: str) -> None:
        """Changes nothing yet."""
        self._guest, self.link = guest, link
        self.name = f"{link}0"
        self.guest_name = guest.name
        #: Whether it has other limits than its own.
        self.limited = False

    def set(self, **values: int) -> None:
        """Sets parameters: of the behaviour at once, limits for the next device."""
        lines = [f"echo {value} > {_PARAMETERS}/{name}" for name, value in values.items()]
        self._guest.sh(" && ".join(lines))

    def get(self, name: str) -> int:
        """Returns a parameter or a counter."""
        return int(self._guest.read(f"{_PARAMETERS}/{name}"))

    def event(self, name: str) -> None:
        """Makes an event happen: the names are those of lab_moods.c."""
        self._guest.sh(f"echo {name} > {_PARAMETERS}/event", timeout=60)

    def remove(self) -> None:
        """Removes the device."""
        self._guest.sh(f"rdma link del {self.name}", timeout=120)

    def add(self, name: str = "") -> None:
        """Adds the device again, under another name if there is one."""
        self.name = name or self.name
        self._guest.sh(f"rdma link add {self.name} type {self.link} netdev eth0", timeout=60)

    def become(self, **limits: int) -> None:
        """Replaces the device by one with these limits, and with its own ones otherwise."""
        self.limited = bool(limits)
        self.remove()
        self.set(**{name: min(limits.get(name, 0), 2**32 - 1) for name in LIMITS})
        self.add()

    def calm(self) -> None:
        """Ends all changes of the behaviour."""
        self.set(**dict.fromkeys(BEHAVIOUR, 0))
