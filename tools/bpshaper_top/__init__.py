# SPDX-License-Identifier: GPL-2.0-only
"""bpshaper-top: the modules of tools/bpshaper-top."""
