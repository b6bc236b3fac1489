# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# iperf 2 through the shaper. Sourced after common.sh, never run.

# iperf2_udp CLIENTS RATE SECONDS: prints how many datagrams the servers missed and
# of how many. A server each: while one server takes its first client, it has for
# a moment no socket for the datagrams of the others. Who loses the other's last
# datagram may wait forever.
iperf2_udp()
{
	local client pids=()

	rm -f /tmp/iperf2.*
	for ((client = 0; client < $1; client++)); do
		on_rx timeout $(($3 + 10)) iperf -s -u -p $((5001 + client)) \
			-t $(($3 + 4)) -y C >/tmp/iperf2.$client 2>/dev/null &
		pids+=($!)
	done
	sleep 0.5
	for ((client = 0; client < $1; client++)); do
		on_tx timeout $(($3 + 10)) iperf -u -c 10.99.0.2 -p $((5001 + client)) -b "$2" \
			-l 1470 -t "$3" >/dev/null 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	# columns of a server's line: 11 missed, 12 all
	awk -F, 'NF >= 13 { missed += $11; all += $12 }
		END { print missed + 0, all + 0 }' /tmp/iperf2.*
}
