#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every way in which a backlog ends (ends.sh), while it is in a class.

CLASSES=1 exec "$(dirname "$0")/ends.sh"
