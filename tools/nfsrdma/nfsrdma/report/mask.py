# SPDX-License-Identifier: GPL-2.0
"""Replaces addresses and names, each by the same word wherever it stands."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any

#: Texts that may be addresses. IPv6 addresses may be in brackets, which remain.
_V4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)")
_V6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:%\w+)?(?![\w:])")
#: Names of hosts that reveal nothing, and stand for roles in the command's output.
_ROLES = ("client", "server")


class Mask:
    """A mask that remembers its replacements."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`, such as the name of this host, are also replaced, except those of roles."""
        self._words: dict[str, str] = {}
        for name in names:
            if name and name not in _ROLES:
                self._words[name] = f"name-{len(self._words) + 1}"
        self._names = list(self._words)
        self._addresses: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Returns the text without addresses and names."""
        text = _V6.sub(self._address, _V4.sub(self._address, text))
        for name in sorted(self._names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self._words[name], text)
        return text

    def _address(self, found: re.Match[str]) -> str:
        text = found[0]
        try:
            address = str(ipaddress.ip_address(text.partition("%")[0]))
        except ValueError:
            # A time of day, for example.
            return text
        return self._addresses.setdefault(address, f"address-{len(self._addresses) + 1}")


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Returns what JSON can express with each text in it masked, but not the names of fields.

    JSON writes some letters as escapes, so a name could not be found in its text.
    """
    if isinstance(value, dict):
        return {name: masked(entry, mask) for name, entry in value.items()}
    if isinstance(value, list):
        return [masked(entry, mask) for entry in value]
    return mask(value) if isinstance(value, str) else value


def unmasked(text: str) -> str:
    """Returns the text unchanged."""
    return text
