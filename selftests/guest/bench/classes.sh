# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `classes`: tenants that share 200 Mbit/s, each in a class of its own. $CASES chooses:
#
#	equal	$CLASSES_LIST classes of the same floor, two greedy UDP senders in each
#	alone	16 greedy senders in the only class, beside that of the sparse sender
#	tcp	two TCP streams in each of ten classes (cubic)
#	bbr	the same with BBR
#	sockets	ten greedy senders in each of 10, 100 and 1000 classes
#	some	four greedy senders in each of 16 classes, and as many classes that send nothing
#
# A sparse sender (the probe) has a class as well. All may use the whole rate; the floors of all add
# up to it. And those of shares.sh.
#
# Not all shapers can have ten classes: prio has 16 bands at most. The tins of cake are eight, with
# shares that it chooses, so that ten classes are in seven tins and the probe in the last.

class_rivals="bpshaper htb+pfifo htb+fq_codel htb+fq htb+bpshaper hfsc+pfifo"
class_rivals_few="prio+tbf tbf+prio cake"	# which cannot have 100
class_rivals_many="bpshaper htb+pfifo htb+fq_codel"

# classes_make SHAPER CLASSES: as lines for tc -batch
classes_make()
{
	local floor=$((200000000 / ($2 + 1))) kind=${1%%+*} leaf=${1#*+} ids id

	# shellcheck disable=SC2046 # words
	ids="f $(printf '%x ' $(seq 16 $((15 + $2))))"
	for id in $ids; do
		case $kind in
		bpshaper) echo "class add dev txdev parent 1: classid 1:$id bpshaper floor ${floor}bit" ;;
		htb)
			echo "class add dev txdev parent 1:fff0 classid 1:$id htb rate ${floor}bit ceil 200mbit quantum 1514"
			echo "qdisc add dev txdev parent 1:$id $leaf"
			;;
		hfsc)
			echo "class add dev txdev parent 1:fff0 classid 1:$id hfsc ls m2 ${floor}bit ul m2 200mbit"
			echo "qdisc add dev txdev parent 1:$id $leaf"
			;;
		esac
	done
	[ "$kind" != prio ] || for ((id = 1; id <= $2 + 1; id++)); do
		echo "qdisc add dev txdev parent 1:$(printf %x $id) tbf rate ${floor}bit burst 5kb limit 30k"
	done
}

# class_root SHAPER: bpshaper or htb of 200 Mbit/s, as 1:
class_root()
{
	if [ "$1" = bpshaper ]; then
		# shellcheck disable=SC2086 # words
		shape handle 1: bpshaper rate 200mbit burst 20kb ${OPTIONS:-limit 200k}
	else
		shape handle 1: htb
		on_tx tc class add dev txdev parent 1: classid 1:fff0 htb rate 200mbit burst 20kb cburst 20kb
	fi
}

# classes_rival SHAPER CLASSES: sets ${class_args[@]}, of the senders, and $made_ms
classes_rival()
{
	local started_ns bands=$(($2 < 2 ? 3 : $2 + 1))

	started_ns=$(date +%s%N)
	class_args=()
	case $1 in
	bpshaper | htb*) class_root "$1" ;;
	hfsc*)
		shape handle 1: hfsc
		on_tx tc class add dev txdev parent 1: classid 1:fff0 hfsc ls m2 200mbit ul m2 200mbit
		;;
	prio+tbf)
		shape handle 1: prio bands $bands
		class_args=(--class-first 2 --class-probe 1)
		;;
	tbf+prio)
		shape handle 2: tbf rate 200mbit burst 20kb limit 200k
		on_tx tc qdisc add dev txdev parent 2:1 handle 1: prio bands $bands || return
		class_args=(--class-first 2 --class-probe 1)
		;;
	cake)
		shape handle 1: cake bandwidth 200mbit diffserv8 || return
		class_args=(--class-first 1 --class-probe 8 --classes $(($2 < 7 ? $2 : 7)))
		;;
	esac
	classes_make "$1" "$2" >/tmp/classes
	on_tx tc -batch /tmp/classes || return
	made_ms=$((($(date +%s%N) - started_ns) / 1000000))
}

# classes_cell CASE SHAPERS CLASSES SNDBUF OPTIONS...: OPTIONS may have --classes
classes_cell()
{
	local shaper sndbuf=()

	[ "$4" = default ] || sndbuf=(--sndbuf "$4")
	for shaper in ${RIVALS:-$2}; do
		[[ " $2 " == *" $shaper "* ]] || continue
		[ "$tcp_is_fresh" = no ] || topology_renew
		classes_rival "$shaper" "$3" || {
			echo "# $shaper with $3 classes cannot be set up"
			continue
		}
		traffic_send --classes "$3" --probe --probe-interval-us 5000 "${sndbuf[@]}" \
			"${@:5}" "${class_args[@]}"
		save classes "$shaper" case "$1" classes "$3" sndbuf "$4" made_ms "$made_ms" \
			throttles "$(stat throttles)" packets "$(stat packets)"
	done
}

case_equal()
{
	local classes sndbuf shapers

	for sndbuf in default 4194304; do
		for classes in ${CLASSES_LIST:-10 100}; do
			shapers=$class_rivals
			[ "$classes" -gt 10 ] || shapers+=" $class_rivals_few"
			classes_cell equal "$shapers" "$classes" $sndbuf --udp $((2 * classes)) \
				--seconds 3 --warmup-ms 1000
		done
	done
}

case_alone()
{
	classes_cell alone "$class_rivals $class_rivals_few" 1 default --udp 16 --seconds 2
}

# case_streams CASE CONGESTION_CONTROL
case_streams()
{
	# shellcheck disable=SC2034 # by topology_renew
	local tcp_is_fresh=yes tso_rtt_log=9

	modprobe "tcp_$2"
	classes_cell "$1" "$class_rivals $class_rivals_few" 10 default --tcp 20 --cc "$2" \
		--seconds 4 --warmup-ms 1000
}

case_tcp() { case_streams tcp cubic; }
case_bbr() { case_streams bbr bbr; }

# As in part growth: long enough for a turn of each socket, and memory for all.
case_sockets()
{
	local classes sockets cycle_ms

	for classes in ${CLASSES_LIST:-10 100 1000}; do
		sockets=$((10 * classes))
		cycle_ms=$((sockets * 24224 * 8 / 200000))
		OPTIONS=${OPTIONS:-"limit 200k memory_limit $((sockets * 20000 + 32000000))"} \
			classes_cell sockets "$class_rivals_many" "$classes" default \
			--udp $sockets --mode epoll --seconds $((cycle_ms * 3 / 2000 + 3)) \
			--warmup-ms $((cycle_ms + 1000)) --drain-ms 5000 \
			--probe-interval-us $((sockets * 6 + 5000))
	done
}

case_some()
{
	local classes

	for classes in ${CLASSES_LIST:-16 10000}; do
		classes_cell some "bpshaper htb+pfifo" "$classes" default --udp 64 --classes 16 \
			--seconds 2
	done
}

part_classes()
{
	local tcp_is_fresh=no made_ms name class_args=()

	on_tx sysctl -qw net.ipv4.ip_local_port_range="1024 65535"
	for name in ${CASES:-equal alone tcp bbr sockets some floor one weights settle-weights \
			settle-floor}; do
		"case_$name"
	done
}
