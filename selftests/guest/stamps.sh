#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The time in a packet is used for other purposes than pacing, and these work through a
# loaded shaper: time stamps of the kernel, as services like NTP ask for, at both ends of a
# shaped link and across a host that forwards. Both ends have one clock, so the true offset
# is 0; allowed is what two packets of the MTU take at 200 Mbit/s, and a timer: a path of
# which one direction waits for a packet is half of that off.
#
# A packet that a filter copies to the shaper brings the time of its receipt with it,
# CLOCK_REALTIME: it is no time to wait for, and not beyond the horizon.
#
# It is the median: before 6.12 (which lets softirqs run where they are raised) a packet now and then
# waits for ksoftirqd, and that for the CPU, 1 ms in one direction. In real time only the order of
# stamps is asserted.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
params="rate 200mbit burst 20kb"
tolerance_us=150 count=200 mid=bps-mid$$

# exchange NAME ADDRESS [AHEAD_US]: NTP from $tx to $rx, 5 ms apart
exchange()
{
	local out ahead=${3:-0}

	out=$("$bptime" "$tx" "$rx" "$2" $count 5 "$ahead")
	echo "# $1: $out"
	check_num "$1: all are answered" "$(json_get answered <<<"$out")" == $count
	check_num "$1: stamps are there, and in order" "$(json_get disordered <<<"$out")" == 0
	check_num "$1: none leaves before its time" "$(json_get early <<<"$out")" == 0
	[ "$(nproc)" = 1 ] || return 0
	check_num "$1: the offset is right" "$(json_get offset_p50_us <<<"$out")" '<=' \
		"$tolerance_us" us
	[ "$ahead" != 0 ] ||
		check_num "$1: without stamps of departure as well" \
			"$(json_get read_offset_p50_us <<<"$out")" '<=' "$tolerance_us" us
}

# loaded COMMAND...: while eight senders from $tx to $rx have no limit
loaded()
{
	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst "$address" \
		--json "$report" --udp 8 --seconds 3 &
	sleep 0.3
	"$@"
	wait $!
}

# of NETNS DEVICE KEY
stat_of() { json_value "$3" "$(ip netns exec "$1" tc -s -j qdisc show dev "$2" root)"; }

# nothing_is_late NAME NETNS DEVICE: because of a time that is none
nothing_is_late()
{
	check_num "$1: packets have passed" "$(stat_of "$2" "$3" packets)" '>=' $count
	check_num "$1: none is capped" "$(stat_of "$2" "$3" horizon_caps)" == 0
}

topology_make
address=10.99.0.2
exchange "no shaper" $address
# shellcheck disable=SC2086 # words
shape bpshaper $params
exchange "an idle shaper" $address
loaded exchange "a loaded shaper" $address
check_num "a loaded shaper: senders reach the rate and lose nothing" \
	"$(result udp_lost_packets)" == 0
loaded exchange "a loaded shaper, requests with a time" $address 2000
nothing_is_late "a loaded shaper" "$tx" txdev
# Answers wait as well.
# shellcheck disable=SC2086 # words
must on_rx tc qdisc add dev rxdev root bpshaper $params
"$traffic" --tx-netns "$rx" --rx-netns "$tx" --dst 10.99.0.1 --port 6600 \
	--json /tmp/back --udp 8 --seconds 3 &
loaded exchange "loaded shapers in both directions" $address
wait
nothing_is_late "loaded shapers in both directions" "$rx" rxdev

# A copy of all that $rx receives: on its ingress, with the time of receipt.
must on_rx ip link add copy type dummy
must on_rx ip link set copy up
# shellcheck disable=SC2086 # words
must on_rx tc qdisc add dev copy root bpshaper $params limit 1mb
if on_rx tc qdisc add dev rxdev ingress 2>/dev/null &&
   must on_rx tc filter add dev rxdev ingress matchall \
	action mirred egress mirror dev copy; then
	exchange "a copy of it is shaped" $address
	check "a copy: none stays" wait_until 2 \
		[ "$(stat_of "$rx" copy qlen)" = 0 ]
	nothing_is_late "a copy" "$rx" copy
	check_num "a copy: none waits" "$(stat_of "$rx" copy paced_waits)" == 0
	check_num "a copy: none is dropped" "$(stat_of "$rx" copy drops)" == 0
else
	skip "a copy of what is received" "no ingress, matchall or mirred"
fi
topology_remove

# A host between them forwards, and shapes on one side.
#
#	$tx txdev ---- midtx $mid midrx ---- rxdev $rx
#	10.99.1.1   10.99.1.9   10.99.2.9   10.99.2.2
#
# link NETNS DEVICE ADDRESS PEER_DEVICE PEER_ADDRESS
link()
{
	ip link add "$2" netns "$1" type veth peer name "$4" netns "$mid"
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$mid" addr add "$5/24" dev "$4"
	ip -n "$1" link set "$2" up
	ip -n "$mid" link set "$4" up
	ip -n "$1" route add default via "$5"
	ip -n "$1" neigh replace "$5" dev "$2" nud permanent \
		lladdr "$(mac_of "$mid" "$4")"
	ip -n "$mid" neigh replace "$3" dev "$4" nud permanent \
		lladdr "$(mac_of "$1" "$2")"
}

for netns in "$tx" "$mid" "$rx"; do ip netns add "$netns"; done
link "$tx" txdev 10.99.1.1 midtx 10.99.1.9
link "$rx" rxdev 10.99.2.2 midrx 10.99.2.9
ip netns exec "$mid" sysctl -qw net.ipv4.ip_forward=1
address=10.99.2.2
exchange "forwarded, no shaper" $address
# shellcheck disable=SC2086 # words
ip netns exec "$mid" tc qdisc add dev midrx root bpshaper $params
exchange "forwarded, an idle shaper" $address
loaded exchange "forwarded, a loaded shaper" $address
# A slow machine cannot forward more than the rate.
[ "$(nproc)" != 1 ] || check_num "forwarded, a loaded shaper: the pool is full" \
	"$(stat_of "$mid" midrx drops_pool)" '>' 0
nothing_is_late "forwarded" "$mid" midrx
check_num "forwarded: none waits for a time" "$(stat_of "$mid" midrx paced_waits)" == 0
# Who has waited at home does not wait again, whether the kernel takes the time from packets
# that leave a network namespace or (since 5.18) not.
# shellcheck disable=SC2086 # words
shape bpshaper $params
exchange "forwarded, requests with a time" $address 2000
check_num "forwarded, requests with a time: they wait at home" "$(stat paced_waits)" '>' 0
check_num "forwarded, requests with a time: none waits twice" \
	"$(stat_of "$mid" midrx paced_waits)" == 0
ip netns del "$mid"
finish
