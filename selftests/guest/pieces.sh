#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A datagram that one thread makes of many pieces, the kernel's fragments or its own by
# MSG_MORE and UDP_CORK, while others of its socket leave: a dequeue may throttle the
# socket between two pieces. The kernel lets a datagram that has been begun grow until
# twice the send buffer is charged, and then says ENOBUFS.
#
#  1. A blocking socket sees no error, and loses nothing, that it would not without a
#     shaper, or not many more (a tenth of all datagrams) than with tbf: what is queued is
#     charged as well, whoever queues it.
#
# By the way of sending, size and send buffer; pfifo is what there is without a shaper.
# A send buffer that is too small for one datagram fails there, too.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

shapers=("rate 20mbit burst 5k limit 200k" "rate 100mbit burst 12500 limit 137500"
	 "rate 100mbit burst 20k limit 200k")

# sent SHAPER WAY SNDBUF COUNT BYTES: errors and losses
sent()
{
	local json

	# shellcheck disable=SC2086 # words
	shape $1
	json=$("$bpcork" "$tx" "$rx" 10.99.0.2 "${@:2}")
	for key in enobufs eagain emsgsize others; do
		echo "$key $(json_value $key "$json")"
	done
	echo "lost $(($4 - $(json_value arrived "$json")))"
}

# cell WAY SNDBUF COUNT BYTES [PIECES PAUSE_US]
cell()
{
	local without with tbf shaper
	local name="$1, $4 bytes, send buffer $2${5:+, $6 us between}"

	without=$(sent "pfifo limit 10000" "$@")
	echo "# $name, without a shaper:" "${without//$'\n'/, }"
	for shaper in "${shapers[@]}"; do
		with=$(sent "bpshaper $shaper" "$@")
		if [ "$with" = "$without" ]; then
			ok "$name, $shaper: as without"
			continue
		fi
		tbf=$(sent "tbf $shaper" "$@")
		echo "# $name, tbf $shaper:" "${tbf//$'\n'/, }"
		echo "# $name, bpshaper $shaper:" "${with//$'\n'/, }"
		check_num "$name, $shaper: not many more are lost than with tbf" \
			"${with##* }" '<=' $((${tbf##* } + $3 / 10)) "datagrams of $3"
	done
}

topology_make
on_rx sysctl -qw net.ipv4.ipfrag_high_thresh=100000000
# What is lost is lost within the first hundred datagrams: 9 to 21, and with tbf 6 to 13.
for sndbuf in 16384 65536 131072 4194304; do
	cell whole $sndbuf 200 60000
done
for sndbuf in 8192 16384; do
	cell whole $sndbuf 200 8000
done
for way in more cork; do
	cell $way 65536 50 60000 40 100
	cell $way 8192 200 8000 40 100
done
shape bpshaper rate 100mbit
check "nothing is held afterwards" wait_until 5 no_socket_is_held
finish
