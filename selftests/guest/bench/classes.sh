# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `classes`: tenants that share 200 Mbit/s, each in a class of its own. Cases:
#
#	equal	$CLASSES classes of the same floor, two greedy UDP senders in each
#	alone	16 greedy senders in the only class, beside that of the sparse sender
#	tcp	two TCP streams in each of ten classes (cubic)
#
# A sparse sender (the probe) has a class as well. All may use the whole rate; the floors of all add
# up to it.

class_rivals="bpshaper htb+pfifo htb+fq_codel htb+fq htb+bpshaper hfsc+pfifo"

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
}

# classes_rival SHAPER CLASSES
classes_rival()
{
	case $1 in
	bpshaper)
		# shellcheck disable=SC2086 # words
		shape handle 1: bpshaper rate 200mbit burst 20kb ${OPTIONS:-limit 200k}
		;;
	htb*)
		shape handle 1: htb
		on_tx tc class add dev txdev parent 1: classid 1:fff0 htb rate 200mbit burst 20kb cburst 20kb
		;;
	hfsc*)
		shape handle 1: hfsc
		on_tx tc class add dev txdev parent 1: classid 1:fff0 hfsc ls m2 200mbit ul m2 200mbit
		;;
	esac
	classes_make "$1" "$2" >/tmp/classes
	on_tx tc -batch /tmp/classes
}

# classes_cell CASE CLASSES SNDBUF OPTIONS...
classes_cell()
{
	local shaper sndbuf=()

	[ "$3" = default ] || sndbuf=(--sndbuf "$3")
	for shaper in ${RIVALS:-$class_rivals}; do
		classes_rival "$shaper" "$2"
		traffic_try --classes "$2" --probe --probe-interval-us 5000 "${sndbuf[@]}" \
			"${@:4}" 2>/tmp/invalid || sed 's/^/# /' /tmp/invalid
		save classes "$shaper" case "$1" classes "$2" sndbuf "$3"
	done
}

part_classes()
{
	local classes sndbuf mode

	on_tx sysctl -qw net.ipv4.ip_local_port_range="1024 65535"
	for sndbuf in default 4194304; do
		for classes in ${CLASSES_LIST:-10 100 1000}; do
			mode=block
			[ "$classes" -lt 1000 ] || mode=epoll
			classes_cell equal "$classes" $sndbuf --udp $((2 * classes)) --mode $mode \
				--seconds 3 --warmup-ms 1000
		done
	done
	classes_cell alone 1 default --udp 16 --seconds 2
	classes_cell tcp 10 default --tcp 20 --cc cubic --seconds 4 --warmup-ms 1000
}
