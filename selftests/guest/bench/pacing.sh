# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # what bench.sh and common.sh use, or have set
#
# Part `pacing` of bench.sh, which sources it: who paces at which cost, and how well?
#
#	case		pacers (no rate)		shapers (200 Mbit/s)
#	capped		SO_MAX_PACING_RATE, 200 Mbit/s	-
#			by all streams together
#	path		to a bottleneck of 200 Mbit/s,	the same path, without the
#			250 kB, an RTT of 10 ms		bottleneck
#	requests	of one byte, and an answer	the same, beside 8 streams
#	stream		one stream, capped to 200	one stream that is shaped
#			Mbit/s, writes of 64 B to 64 kB
#	departure	SO_TXTIME, alone and beside 8 streams of 100 Mbit/s together
#
# bpshaper-all, in path with cubic, is bpshaper with streams that TCP paces all, as fq makes
# it do: they have a SO_MAX_PACING_RATE of 10 Gbit/s.
#
# What decides a goal is measured in three turns: fq and tbf+fq, and bpshaper beside them.
# A turn differs from the one before by when it begins. With 1000 streams these are all.
#
# $FLOWS are numbers of streams, $RIVALS shapers, $PACERS those without a rate, $CASES some
# of the cases.

pacers=${PACERS:-fq bpshaper bpshaper-off pfifo}
pacing_shapers=${RIVALS:-bpshaper bpshaper-off tbf+fq tbf edt edt+bpshaper}

# pacer NAME: install that qdisc, which does not shape
pacer()
{
	on_tx tc qdisc del dev txdev clsact 2>/dev/null
	case $1 in
	bpshaper-off) shape bpshaper pacing off ;;
	*) shape "$1" ;;
	esac
}

# pacing_install KIND SHAPER: KIND is pacer or shaper; in a new topology
pacing_install()
{
	local tso_rtt_log=0

	# Packets as on a path that is not as short as this one.
	topology_renew
	case $1 in
	pacer) pacer "$2" ;;
	shaper) rival "$2" 200mbit ;;
	esac
}

# path_make KIND: acknowledgements take 10 ms; a pacer's packets meet the bottleneck
path_make()
{
	on_rx tc qdisc add dev rxdev root netem delay 10ms limit 100000
	[ "$1" = pacer ] || return
	on_rx ip link add ifb0 type ifb
	on_rx ip link set ifb0 up
	on_rx tc qdisc add dev ifb0 root tbf rate 200mbit burst 20kb limit 250k
	on_rx tc qdisc add dev rxdev clsact
	on_rx tc filter add dev rxdev ingress matchall \
		action mirred egress redirect dev ifb0
}

# path_stat KEY QDISC: of a qdisc of the path; nothing without it
path_stat()
{
	on_rx tc -s -j qdisc show | tr '{' '\n' | grep -A 2 "\"kind\":\"$2\"" |
		grep -oE "\"$1\":[0-9]+" | head -n 1 | cut -d: -f2
}

# pacing_save CASE KIND SHAPER KEY VALUE...: as save, with what the qdiscs say
pacing_save()
{
	save pacing "$3" case "$1" kind "$2" turn "${turn:-1}" "${@:4}" qdisc_drops "$(client_drops "$3")" \
		path_drops "$(path_stat drops tbf)" acks "$(path_stat packets netem)" \
		paced_waits "$(stat paced_waits)" throttles "$(stat throttles)"
}

# pacing_each KIND COMMAND...: with each of that kind, in $shaper; with $decides only
# those that decide a goal
pacing_each()
{
	local kind=$1 shaper names=$pacers

	shift
	[ "$kind" = pacer ] || names=$pacing_shapers
	for shaper in $names; do
		[[ -z ${decides-} || $kind-$shaper = pacer-fq || $shaper = bpshaper ||
			$shaper = tbf+fq ]] || continue
		pacing_install "$kind" "$shaper"
		"$@"
	done
}

# pacing_turns KIND COMMAND...: as before, and what decides a goal twice more
pacing_turns()
{
	local turn decides=${decides-}

	for turn in 1 2 3; do
		pacing_each "$@"
		decides=yes
	done
}

# pacing_cells CASE FLOWS CC KIND...
pacing_cells()
{
	local case=$1 flows=$2 cc=$3 kind decides

	[ "$flows" -lt 1000 ] || [ "$case" = capped ] || decides=yes
	for kind in "${@:4}"; do
		case $case-$cc-$flows in
		*-1 | *-1000 | path-cubic-*)
			pacing_each "$kind" pacing_streams "$case" "$flows" "$cc"
			;;
		*) pacing_turns "$kind" pacing_streams "$case" "$flows" "$cc" ;;
		esac
	done
}

# pacing_streams CASE FLOWS CC: one cell of capped or path
pacing_streams()
{
	local options=()

	if [ "$1" = path ]; then
		path_make "$kind"
		[ "$shaper" != bpshaper-all ] ||
			options=(--pacing-rate 10000000000)
	else
		options=(--pacing-rate $((200000000 / $2)))
	fi
	traffic_send --tcp "$2" --cc "$3" --seconds 3 --warmup-ms 1000 "${options[@]}"
	pacing_save "$1" "$kind" "$shaper" flows "$2" cc "$3"
}

pacing_capped()
{
	local cc flows

	for cc in cubic bbr; do
		for flows in ${FLOWS:-1 8 64 1000}; do
			pacing_cells capped "$flows" $cc pacer
		done
	done
}

pacing_path()
{
	local shapers=$pacing_shapers pacing_shapers cc flows

	for cc in cubic bbr; do
		pacing_shapers=$shapers
		[[ $cc = bbr || -n ${RIVALS-} ]] || pacing_shapers+=" bpshaper-all"
		for flows in ${FLOWS:-1 8 64 1000}; do
			pacing_cells path "$flows" $cc pacer shaper
		done
	done
}

# pacing_questions CONNECTIONS
pacing_questions()
{
	local bulk=

	if [ "$kind" = shaper ]; then
		report=/dev/null traffic_try --tcp 8 --seconds 2 &
		bulk=$!
		sleep 0.5
	fi
	"$bprr" "$tx" "$rx" 10.99.0.2 "$1" 1 >"$report"
	[ -z "$bulk" ] || wait "$bulk"
	pacing_save requests "$kind" "$shaper" flows "$1"
}

pacing_requests()
{
	local connections

	for connections in 1 8 64; do
		pacing_each pacer pacing_questions $connections
		pacing_each shaper pacing_questions $connections
	done
}

# pacing_writes BYTES
pacing_writes()
{
	local options=()

	[ "$kind" = shaper ] || options=(--pacing-rate 200000000)
	traffic_send --tcp 1 --tcp-write "$1" --seconds 2 "${options[@]}"
	pacing_save stream "$kind" "$shaper" flows 1 packet "$1"
}

pacing_stream()
{
	local bytes kind

	for bytes in 64 1448 16384 65536; do
		for kind in pacer shaper; do
			pacing_each $kind pacing_writes $bytes
		done
	done
}

# pacing_times LOAD: 4000 packets, one each 0.497 ms (so that all phases of the load are
# met), handed over as early as the socket lets. fq would drop all but 100.
pacing_times()
{
	local load=

	case $shaper in
	fq) on_tx tc qdisc change dev txdev root fq flow_limit 10000 ;;
	tbf+fq) on_tx tc qdisc change dev txdev parent 1:1 fq flow_limit 10000 ;;
	esac
	if [ "$1" = load ]; then
		report=/dev/null traffic_try --tcp 8 --pacing-rate 12500000 --seconds 3 &
		load=$!
		sleep 0.5
	fi
	"$bppace" "$tx" "$rx" 10.99.0.2 20000 497 4000 >"$report"
	[ -z "$load" ] || wait "$load"
	pacing_save departure "$kind" "$shaper" load "$1"
}

pacing_departure()
{
	local pacers="fq bpshaper" pacing_shapers="tbf+fq bpshaper" load

	for load in idle load; do
		pacing_turns pacer pacing_times $load
		pacing_turns shaper pacing_times $load
	done
}

part_pacing()
{
	local case

	modprobe tcp_bbr
	for case in ${CASES:-capped path requests stream departure}; do
		"pacing_$case"
	done
}
