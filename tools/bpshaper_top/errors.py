# SPDX-License-Identifier: GPL-2.0-only
"""What the user is told."""

NAME = "bpshaper-top"


class TopError(Exception):
    """What the user is told, in one line."""
