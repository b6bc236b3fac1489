# SPDX-License-Identifier: GPL-2.0-only
"""A container, and where it is shaped: part tenants."""

from overload import MACHINE, OVERLOAD

TENANTS = [*OVERLOAD, MACHINE]
