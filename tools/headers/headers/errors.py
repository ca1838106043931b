# SPDX-License-Identifier: GPL-2.0
"""The one kind of error that a user sees: what is wrong and what to do, in a line."""

from __future__ import annotations


class HeadersError(Exception):
    """Something the user can act on. `details` are further lines, such as the end of a log."""

    def __init__(self, message: str, details: str = "") -> None:
        """`message` says what is wrong and what to do about it."""
        super().__init__(message)
        self.details = details


class Interrupted(BaseException):
    """A signal asked us to end; clean-up runs on the way out."""


def no_room(where: object) -> HeadersError:
    """The error for a disk that filled up while we were writing to it."""
    return HeadersError(f"no room left on the disk of {where}: free some and run this again")
