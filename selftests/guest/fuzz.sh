#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Random netlink messages against a model of the interface, beside traffic;
# fuzz/__main__.py says what is sent and checked. And the interface as a 32-bit
# program sees it. SEED= repeats a run, ITERATIONS= makes it longer.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
seed=${SEED:-$RANDOM$RANDOM}

topology_make
if command -v python3 >/dev/null; then
	must modprobe dummy
	must modprobe cls_matchall
	shape bpshaper
	# The kernel's parser warns of all that it refuses: not on the console.
	read -r level _ </proc/sys/kernel/printk
	echo 4 >/proc/sys/kernel/printk
	on_tx python3 "$here/fuzz" txdev $nobody "$seed" \
		"${ITERATIONS:-5000}" 2>&1 | sed -u 's/^/# /'
	status=${PIPESTATUS[0]}
	echo "$level" >/proc/sys/kernel/printk
	check_num "fuzz: all messages do as the model says (SEED=$seed)" \
		$status == 0
	# with the sender gone
	must on_tx tc qdisc change dev txdev root bpshaper rate 100mbit burst 20k
	check "fuzz: no socket is held afterwards" wait_until 10 no_socket_is_held
	unshape
else
	skip "fuzz" "no python3 here"
fi

root_remove
"$here/compat32" >/dev/null 2>&1
# 126, 127: it is not here, or the kernel runs no 32-bit programs
if [ $? -lt 126 ]; then
	check "a 32-bit program sees the same" on_tx "$here/compat32" txdev $nobody
else
	skip "a 32-bit program sees the same" "it cannot run here"
fi
finish
