#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The guest's part of `make bench`: bpshaper beside its rivals. $PARTS are overload, gso,
# tcp, idle, growth, and those of the other files here. Each measurement is a JSON object
# in /out.

# shellcheck source-path=SCRIPTDIR/.. source=lib/bpsocket.sh
. "$(dirname "$0")/../lib/bpsocket.sh"
# shellcheck source=../lib/instructions.sh
. "$(dirname "$0")/../lib/instructions.sh"
# shellcheck source=../lib/iperf2.sh
. "$(dirname "$0")/../lib/iperf2.sh"
# shellcheck source=../lib/pod.sh
. "$(dirname "$0")/../lib/pod.sh"
rivals=${RIVALS:-bpshaper tbf tbf+fq htb+fq_codel cake edt}
n=0

# bits RATE: of 8kbit, 20mbit, 1gbit
bits()
{
	case $1 in
	*gbit) echo $((${1%gbit} * 1000000000)) ;;
	*mbit) echo $((${1%mbit} * 1000000)) ;;
	*kbit) echo $((${1%kbit} * 1000)) ;;
	esac
}

# rival NAME RATE: install that shaper on $shaped. All have a burst of 0.8 ms, or 5 kB, and may
# queue 8 ms, or 30 kB, if they can be told. $OPTIONS changes bpshaper.
# shellcheck disable=SC2086 # words
rival()
{
	local rate=$2 burst limit params

	burst=$(($(bits "$rate") / 10000))
	limit=$(($(bits "$rate") / 1000))
	burst=$((burst < 5000 ? 5000 : burst))
	limit=$((limit < 30000 ? 30000 : limit))
	params="rate $rate burst $burst limit $limit"
	on_tx tc qdisc del dev txdev clsact 2>/dev/null
	case $1 in
	noqueue) unshape 2>/dev/null ;;
	pfifo | fq | fq_codel) shape $1 ;;
	tbf) shape $1 $params ;;
	bpshaper)
		shape $1 $params
		[ -z "${OPTIONS-}" ] ||
			on_tx tc qdisc change dev $shaped root $1 $OPTIONS
		;;
	bpshaper-all) shape bpshaper $params ;;
	bpshaper-off) shape bpshaper $params pacing off ;;
	tbf+fq)
		shape handle 1: tbf $params
		on_tx tc qdisc add dev $shaped parent 1:1 fq
		;;
	htb | htb+fq_codel)
		shape handle 1: htb default 1
		on_tx tc class add dev $shaped parent 1: classid 1:1 htb \
			rate $rate burst $burst cburst $burst
		[ $1 = htb ] ||
			on_tx tc qdisc add dev $shaped parent 1:1 fq_codel
		;;
	cake) shape cake bandwidth $rate besteffort ;;
	edt | edt+bpshaper)
		shape "$([ $1 = edt ] && echo fq || echo bpshaper)"
		edt_attach txdev "$rate"
		;;
	esac
}

drops() { on_tx tc -s -j qdisc show dev "$shaped" | grep -oE '"drops":[0-9]+' | head -n 1 | cut -d: -f2; }

# save PART SHAPER KEY VALUE...: the report, with what it is about
save()
{
	local part=$1 shaper=$2 fields=

	shift 2
	while [ $# -gt 0 ]; do
		fields+=", \"$1\": \"$2\""
		shift 2
	done
	n=$((n + 1))
	sed "0,/{/s//{\n  \"part\": \"$part\", \"shaper\": \"$shaper\", \"kernel\": \"$(uname -r)\"$fields,/" \
		"$report" >"$(printf '/out/%s-%04d.json' "$part" $n)"
	echo "# $part $shaper $* $fields"
}

# traffic_send OPTIONS: why its report is not valid is a comment
traffic_send() { traffic_try "$@" 2>/tmp/invalid || sed 's/^/# /' /tmp/invalid; }

# edt_attach DEVICE RATE
edt_attach()
{
	on_tx tc qdisc add dev "$1" clsact
	on_tx tc filter add dev "$1" egress bpf da obj "$here/edt-$2.o" sec tc
}

# overload_cell N SNDBUF RATE [GSO]
overload_cell()
{
	local mode=block seconds=2 warmup=500 shaper options=() interval=5000
	local part=overload turns_ms

	[ "$1" -lt 1024 ] || mode=epoll
	# Each has had a turn before percentiles begin, and has one more.
	turns_ms=$(($1 * 24224 * 8 * 3 / 2 / ($(bits "$3") / 1000)))
	if [ $turns_ms -gt $warmup ]; then
		warmup=$turns_ms
		seconds=$((turns_ms * 5 / 3000 + 2))
	fi
	# A third of the fair share at most.
	[ $((912 * 3 * $1)) -le $(($(bits "$3") / 200)) ] ||
		interval=$((912 * 3 * $1 / ($(bits "$3") / 1000000)))
	[ "$2" = default ] || options=(--sndbuf "$2")
	[ -z "${4-}" ] || part=gso options+=(--gso "$4")
	for shaper in $rivals; do
		rival "$shaper" "$3"
		traffic_send --udp "$1" --mode $mode --seconds $seconds --warmup-ms $warmup \
			--probe --probe-interval-us $interval "${options[@]}"
		save $part "$shaper" senders "$1" sndbuf "$2" rate "$3"
	done
}

part_overload()
{
	local rate sndbuf senders

	for rate in ${RATES:-20mbit 200mbit 1gbit}; do
		for sndbuf in default 4194304; do
			for senders in ${SENDERS:-1 2 3 16 64 256 1024}; do
				overload_cell "$senders" $sndbuf "$rate"
			done
		done
	done
	# A round of them takes 6 s at 20 Mbit/s, and their send buffers more memory than
	# there is.
	[[ -n ${SENDERS-} || " ${RATES:-200mbit} " != *" 200mbit "* ]] ||
		overload_cell 10000 default 200mbit
}

# What programs that send 1 Gbit/s do: 8 datagrams in a call.
part_gso()
{
	local sndbuf senders

	for sndbuf in default 4194304; do
		for senders in ${SENDERS:-1 2 3 16 64 256}; do
			overload_cell "$senders" $sndbuf 1gbit 8
		done
	done
}

streams_kill()
{
	on_tx ss -K -t state all >/dev/null
	on_rx ss -K -t state all >/dev/null
}

# Streams live on for a while after their processes, and fill the next shaper. Without a
# device they still hold their memory for minutes; from 1000 of them on the kernel would
# shrink the buffers of the next streams (tcp_mem).
topology_renew()
{
	streams_kill
	on_tx ip link del txdev
	topology_remove
	topology_make
	on_tx sysctl -qw net.ipv4.tcp_tso_rtt_log="$tso_rtt_log"
}

# tcp_cell FLOWS CC RATE UDP
tcp_cell()
{
	local shaper

	for shaper in $rivals; do
		topology_renew
		rival "$shaper" "$3"
		traffic_send --tcp "$1" --cc "$2" --udp "$4" --seconds 3 --probe
		save tcp "$shaper" flows "$1" cc "$2" rate "$3" udp "$4" \
			tso_rtt_log "$tso_rtt_log" qdisc_drops "$(drops)"
	done
}

# streams FLOWS...: each number of them with each congestion control
streams()
{
	local cc flows

	for cc in ${CC:-cubic bbr}; do
		for flows; do
			tcp_cell "$flows" "$cc" 200mbit 0
		done
	done
}

part_tcp()
{
	local tso_rtt_log=9

	modprobe tcp_bbr
	# shellcheck disable=SC2086 # words
	streams ${FLOWS:-1 8 64 1000}
	[ -z "${FLOWS-}${CC-}" ] || return 0
	tcp_cell 8 cubic 200mbit 8
	tcp_cell 8 cubic 20mbit 0
	# As on a path that is not as short as this one, where packets are smaller.
	tso_rtt_log=0
	tcp_cell 8 cubic 200mbit 0
	tcp_cell 8 cubic 20mbit 0
	tso_rtt_log=9
}

# Instructions of a packet that finds the queue empty.
part_idle()
{
	local turn name

	instructions_setup
	for turn in 1 2 3; do
		instructions_least noqueue noqueue
		for name in pfifo fq fq_codel; do
			instructions_least $name $name
		done
		instructions_least tbf tbf rate 40gbit burst 1mb limit 1mb
		instructions_least bpshaper bpshaper rate 40gbit burst 1mb
		instructions_least htb handle 1: htb default 1
		instructions_least cake cake bandwidth 40gbit besteffort
		instructions_least "bpshaper, no rate" bpshaper
		instructions_classes "bpshaper, 10 classes" 10 bpshaper rate 40gbit burst 1mb
		instructions_classes "htb, 10 classes" 10 htb
	done
	instructions_end
	# What timers and switches there are without the senders.
	unshape 2>/dev/null
	traffic_try --probe --seconds 2
	save background none
	for name in "${!cost[@]}"; do
		echo "{ \"instructions_per_packet\": ${cost[$name]} }" >"$report"
		save idle "$name" turns "$turn"
	done
}

# Cost of a packet and memory, as sockets grow.
part_growth()
{
	local sockets cycle_ms

	on_tx sysctl -qw net.ipv4.ip_local_port_range="1024 65535"
	for sockets in ${GROWTH:-10 100 1000 10000}; do
		cycle_ms=$((sockets * 24224 * 8 / 200000))
		shape bpshaper rate 200mbit burst 20kb limit 200k \
			memory_limit $((sockets * 20000 + 1000000))
		traffic_try --udp "$sockets" --mode epoll \
			--seconds $((cycle_ms * 5 / 2000 + 3)) \
			--warmup-ms $((cycle_ms * 5 / 4 + 1000)) --drain-ms 5000 --probe \
			--probe-interval-us $((sockets * 6 + 5000))
		save growth bpshaper senders "$sockets" \
			throttles "$(stat throttles)" packets "$(stat packets)"
	done
}

for part in classes clients containers locks machines media pacing peers precision programs queues quic \
	shares tenants; do
	# shellcheck source=/dev/null
	. "$here/bench/$part.sh"
done
topology_make
echo "# kernel $(uname -r), $(tc -V)"
for part in ${PARTS:-overload tcp idle growth}; do
	"part_$part"
done
