# SPDX-License-Identifier: GPL-2.0
"""Defines the errors of this package. A message says in one line what is wrong and what to do."""

from __future__ import annotations


class HeadersError(Exception):
    """An error that the user can correct. `details` has further lines, such as the end of a log."""

    def __init__(self, message: str, details: str = "") -> None:
        """Creates an error. `message` says what is wrong and what to do."""
        super().__init__(message)
        self.details = details


class Interrupted(BaseException):
    """A signal has asked the program to end. The clean-up runs first."""


def no_room(where: object) -> HeadersError:
    """Returns the error for a disk that is full."""
    return HeadersError(f"no room left on the disk of {where}: free some and run this again")
