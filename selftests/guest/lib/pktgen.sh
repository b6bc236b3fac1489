# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Packets without a socket, from the kernel's packet generator. Sourced after common.sh,
# never run.

pktgen()
{
	echo "$2" | on_tx tee "/proc/net/pktgen/$1" >/dev/null ||
		not_ok "pktgen takes this: $1: $2"
}

# pktgen_setup LINES...: packets without a socket, through dev_queue_xmit() of txdev;
# `pktgen pgctrl start` sends them
pktgen_setup()
{
	local line

	must modprobe pktgen
	pktgen kpktgend_0 "add_device txdev"
	for line in "xmit_mode queue_xmit" "dst $nobody" \
		    "dst_mac $(mac_of "$rx" rxdev)" "$@"; do
		pktgen txdev "$line"
	done
}

# One source after the other: a random one would cost this guest, which has no entropy, 15,000
# instructions.
new_hashes=("src_min 10.0.0.1" "src_max 10.250.0.0")

# flood_setup DEVICE LINES...: of new hashes
flood_setup()
{
	local line

	must modprobe pktgen
	pktgen kpktgend_0 rem_device_all
	pktgen kpktgend_0 "add_device $1"
	for line in "xmit_mode queue_xmit" "dst $nobody" "dst_mac 02:00:00:00:00:01" \
		    "${new_hashes[@]}" "${@:2}"; do
		pktgen "$1" "$line"
	done
}

# flood DEVICE LINES...: until count have been sent, and the last has left
flood()
{
	flood_setup "$@"
	pktgen pgctrl start
}

# fill FLOWS DEVICE LINES...: until that many flows are queued, all of which stay
fill()
{
	local pid

	flood_setup "${@:2}" "count 0"
	pktgen pgctrl start &
	pid=$!
	must wait_until 20 eval "[ \$(stat_of $2 flows) -ge $1 ]"
	pktgen pgctrl stop
	wait $pid
}

stat_of() { json_value "$2" "$(on_tx tc -s -j qdisc show dev "$1" root)"; }
sink_stat() { stat_of sink "$1"; }

# A device that takes packets for nothing. What IPv6 sends when a link comes up would be counted.
sink_make()
{
	must on_tx ip link add sink "$@" type dummy
	must on_tx sysctl -qw net.ipv6.conf.sink.disable_ipv6=1
	must on_tx ip link set sink up
}
