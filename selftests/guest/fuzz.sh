#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Random netlink messages against a model of the interface, beside traffic;
# fuzz/__main__.py says what is sent and checked. SEED= repeats a run, ITERATIONS=
# makes it longer.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
seed=${SEED:-$RANDOM$RANDOM}

QUEUES=${QUEUES:-4}
topology_make
if command -v python3 >/dev/null; then
	must modprobe dummy
	must modprobe cls_matchall
	shape handle 1: bpshaper
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
finish
