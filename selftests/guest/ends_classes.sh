#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every way in which a backlog ends (ends.sh), while it is in many classes: a queue
# looks at some of its slots then.

CLASSES=32 exec "$(dirname "$0")/ends.sh"
