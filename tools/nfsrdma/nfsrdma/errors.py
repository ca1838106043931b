# SPDX-License-Identifier: GPL-2.0
"""The error that ends the command with a message."""


class UsageError(Exception):
    """The command cannot continue. The text names the reason and the remedy."""
