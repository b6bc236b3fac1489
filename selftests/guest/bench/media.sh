# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `media` of bench.sh, which sources it after quic.sh: what is not only bulk of QUIC, on the
# path of part quic.
#
#	call		1 Mbit/s of UDP without ECN beside 16 connections of quic-go, up
#	adaptive	the same, at the rate that the congestion control of WebRTC finds
#	wireguard	four TCP streams with ECN in a tunnel
#
# An adaptive call needs 20 s to find its rate.

# media_beside KIND SECONDS
media_beside()
{
	local bulk

	on_rx "$here/bpquic" serve 10.99.0.2:5004 "$1" "$2" >/tmp/media &
	(sleep 0.5 && on_tx "$here/bpquic" dial 10.99.0.2:5004 "$1" "$2") &
	bulk=$(quic_send up 16 "$2")
	wait
	echo "$bulk, $(members /tmp/media)"
}

media_call() { media_beside call 6; }
media_adaptive() { media_beside adaptive 24; }

media_wireguard()
{
	# shellcheck disable=SC2034 # of tunnel()
	local client_seconds=5

	tunnel --tcp 4
	echo ", \"srtt_mean_ms\": $(json_value tcp_srtt_mean_ms "$(</tmp/tunnel-report)")"
}

# tcp_ecn VALUE: at both ends
tcp_ecn()
{
	on_tx sysctl -qw net.ipv4.tcp_ecn="$1"
	on_rx sysctl -qw net.ipv4.tcp_ecn="$1"
}

# media_cell CASE RATE
media_cell()
{
	local shaper

	[ "$1" != wireguard ] || tcp_ecn 1
	for shaper in $rivals; do
		[[ $shaper != edt || -e $here/edt-$2.o ]] || continue
		quic_rival "$shaper" "$2"
		measured "media_$1"
		save media "$shaper" case "$1" rate "$2" drops "$(client_drops "$shaper")"
		cat "$report"
		streams_kill
	done
	tcp_ecn 2
}

part_media()
{
	local rate case

	modprobe sch_netem
	must on_rx tc qdisc add dev rxdev root netem delay 20ms limit 100000
	wg_up
	# The first run costs more CPU than others do.
	quic_rival bpshaper 5mbit
	quic_send up 1 1 >/dev/null
	for rate in ${RATES:-20mbit}; do
		for case in ${CASES:-call adaptive wireguard}; do
			media_cell "$case" "$rate"
		done
	done
	ip -n "$tx" link del wg0
	ip -n "$rx" link del wg0
	on_rx tc qdisc del dev rxdev root
}
