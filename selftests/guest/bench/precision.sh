# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `precision` of bench.sh, which sources it: how exactly is the rate kept, from
# 8 kbit/s to 40 Gbit/s? bplaw computes it from the times at which packets leave.
#
# pktgen offers a quarter more than the rate (twice as much below 1 Mbit/s): no shaper
# has to cope with more than the others, and none runs out of packets. From 1 Gbit/s
# on packets are of 64,014 bytes: smaller ones would take the CPU longer than their
# gap, and so would these on a kernel that clears what it allocates. (cake, which splits
# GSO packets, takes 43 rounds and as many random numbers to serve one that it
# cannot split.)

# precise NAME RATE BURST PACKET: install that shaper, alone; whoever takes no burst
# ignores it. They may queue ten packets. fails if it refuses the rate.
precise()
{
	local rate=$2 burst=$3 limit=$(($3 + 10 * $4))

	case $1 in
	bpshaper | tbf) shape "$1" rate "$rate" burst "$burst" limit $limit ;;
	htb)
		shape handle 1: htb default 1 &&
			on_tx tc class add dev txdev parent 1: classid 1:1 htb \
				rate "$rate" burst "$burst" cburst "$burst" \
				quantum "$4" &&
			on_tx tc qdisc add dev txdev parent 1:1 pfifo limit 10
		;;
	# memory, of which a packet takes up to twice its length and some more
	cake)
		shape cake bandwidth "$rate" besteffort \
			memlimit $((10 * (2 * $4 + 1000)))
		;;
	fq) shape fq maxrate "$rate" flow_limit 10 ;;
	esac
}

# offer PACKET BITS SECONDS COUNT: from pktgen, packets of that size, for a rate of that
# many bits. With a number of packets that are accepted it ends by itself, and the
# listener reads them later: what fits into 512 MB. Not for low rates: it spins until
# the last has left.
offer()
{
	pktgen txdev "pkt_size $1"
	pktgen txdev "frags $(($1 > 1514 ? 16 : 0))"
	pktgen txdev "delay $(($1 * 8 * 1000000000 / ($2 < 1000000 ? $2 * 2 : $2 * 5 / 4)))"
	pktgen txdev "count $4"
	if [ "$4" -gt 0 ]; then
		kill -STOP "$listener"
		pktgen pgctrl start
		kill -CONT "$listener"
		return
	fi
	pktgen pgctrl start &
	sleep "$3"
	pktgen pgctrl stop
	wait $!
}

# listen SECONDS BITS: in the background, to $report; only when nobody
# else has anything to do, for a shaper that waits for a listener is late
listen()
{
	on_rx "$law" rxdev "$(($2 / 8))" "$1" >"$report" &
	listener=$!
	sleep 0.1
	chrt -i -p 0 "$listener"
}

# precision_rate SHAPER RATE PACKET BURST
precision_rate()
{
	local shaper=$1 rate=$2 packet=$3 burst=$4 bits seconds

	bits=$(bits "$rate")
	# 2000 packets, but at most 240 s; 3000 where a burst of 1 ms has many; pktgen
	# takes 0.1 s to start
	seconds=$(awk -v bits="$bits" "BEGIN {
		seconds = (bits < 1e9 ? 2000 : 3000) * $packet * 8 / bits
		print (seconds < 240 ? seconds : 240) + 0.15 }")
	if ! precise "$shaper" "$rate" "$burst" "$packet" 2>/tmp/refused; then
		echo "{ \"refused\": \"$(tr -d '"\n' </tmp/refused)\" }" >"$report"
	else
		listen "$(awk "BEGIN { print $seconds + 3 }")" "$bits"
		offer "$packet" "$bits" "$seconds" $((bits < 1000000000 ? 0 : 3000))
		wait "$listener"
	fi
	save precision "$shaper" case rate rate "$rate" bits "$bits" \
		packet "$packet" burst "$burst" drops "$(drops)"
}

part_precision()
{
	local precise_rivals=${PRECISION_RIVALS:-bpshaper tbf htb cake fq}
	local rate shaper packet mtu burst listener

	# One CPU sends and shapes: its softirqs do not wait for pktgen's time slice.
	chrt -f -p 1 "$(pgrep ksoftirqd/0)"
	pktgen_setup "flag NO_TIMESTAMP"
	# Nobody else sends anything.
	on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
	on_rx sysctl -qw net.ipv6.conf.rxdev.disable_ipv6=1
	for rate in ${PRECISION_RATES:-8kbit 100kbit 1mbit 10mbit 100mbit 1gbit \
			10gbit 40gbit}; do
		packet=1514 mtu=1500
		[ "$(bits "$rate")" -lt 1000000000 ] || packet=64014 mtu=64000
		ip -n "$tx" link set txdev mtu $mtu
		ip -n "$rx" link set rxdev mtu $mtu
		for shaper in $precise_rivals; do
			for burst in $((2 * packet)) $(($(bits "$rate") / 8000)); do
				# 1 ms of the rate, where that is more
				[ "$burst" -ge $((2 * packet)) ] || continue
				precision_rate "$shaper" "$rate" $packet "$burst"
				[[ $shaper != [cf]* ]] || break
			done
		done
	done
	ip -n "$tx" link set txdev mtu 1500
	ip -n "$rx" link set rxdev mtu 1500
	chrt -o -p 0 "$(pgrep ksoftirqd/0)"
	pktgen kpktgend_0 "rem_device_all"
}
