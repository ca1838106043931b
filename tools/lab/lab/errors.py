# SPDX-License-Identifier: GPL-2.0
"""Errors that end a command with one clear line instead of a traceback."""


class LabError(Exception):
    """An error that the user can act on; its message says what happened and where to look."""


class GuestError(LabError):
    """A command in a guest failed, or the guest stopped answering."""


class BootError(GuestError):
    """A guest's kernel or init did not come up."""
