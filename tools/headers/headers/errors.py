# SPDX-License-Identifier: GPL-2.0
"""Defines the errors of this package. A message names the problem and the remedy in one line."""

from __future__ import annotations


class HeadersError(Exception):
    """An error that the user can correct. `details` has further lines, such as the end of a log."""

    def __init__(self, message: str, details: str = "") -> None:
        """Creates an error. `message` names the problem and the remedy."""
        super().__init__(message)
        self.details = details


class NoRoomError(HeadersError):
    """A disk is full."""


class Interrupted(BaseException):
    """A signal has asked the program to end. The clean-up runs first."""


def no_room(where: object) -> NoRoomError:
    """Returns the error for a disk that is full."""
    return NoRoomError(f"no room left on the disk of {where}: free some and run this again")
