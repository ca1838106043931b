# SPDX-License-Identifier: GPL-2.0
"""The error that ends the command with a message."""


class UsageError(Exception):
    """The command cannot do what it was asked to do. The text says why, and what to do."""
