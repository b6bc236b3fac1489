# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `queues` of bench.sh, which sources it: a device with eight queues. With $RATES 200mbit
# sockets send through that, in virtual time. $CASES chooses:
#
#	shares	production sends by queues 0 to 6, batch by queue 7, and both all they can; then
#		batch alone. Production has a floor of 50 %, and batch a ceil of 80 %.
#	delay	what a probe of production waits for in each queue, beside 70 Mbit/s of production
#		that are paced, without batch and with it
#	heavy	a queue that sends all it can, beside seven with a probe each ms
#	equal	four sockets in each queue send all they can, with SO_SNDBUF of 208 kB and 4 MB
#	moves	the same, but queues 4 to 7 come after a second and leave after two
#
# Contenders: htb at the root; an htb of an eighth of the rate in each queue; cake_mq; an EDT
# program with an fq in each queue, and quotas of 50 % for production and for batch; bpshaper
# with `queues 1` (bpshaper-1), and without. Below htb are fqs.
#
# And, with $RATES locks, what is in locks.sh.

contenders="htb mq+htb cake_mq mq+edt bpshaper-1 bpshaper"
production="--class-first 16 --classes 1 --class-probe 16"
batch="--class-first 32 --classes 1"

# each_queue DEVICE OPTIONS...: mq, and that in each queue
each_queue()
{
	local queue

	on_tx tc qdisc add dev "$1" root handle 8001: mq
	for ((queue = 1; queue <= 8; queue++)); do
		on_tx tc qdisc add dev "$1" parent "8001:$queue" handle "$queue:" "${@:2}" || return
	done
}

# each_htb DEVICE RATE BURST LEAF...: a class with that below each htb of each_queue
each_htb()
{
	local queue

	each_queue "$1" htb default 1
	for ((queue = 1; queue <= 8; queue++)); do
		on_tx tc class add dev "$1" parent "$queue:" classid "$queue:1" htb rate "$2" burst "$3" \
			cburst "$3" quantum 1514
		on_tx tc qdisc add dev "$1" parent "$queue:1" "${@:4}"
	done
}

# htb_class PARENT MINOR RATE CEIL
htb_class()
{
	on_tx tc class add dev txdev parent "$1" classid "1:$2" htb rate "$3" ceil "$4" burst 20kb \
		cburst 20kb quantum 1514
}

# contender NAME [CLASSES]: install that on txdev, with classes if CLASSES is not empty; false
# if it has none, or this kernel does not have it. What has classes takes them from
# SO_PRIORITY, but each htb of mq+htb has one class.
contender()
{
	local only=''

	root_remove
	on_tx tc filter del dev txdev egress pref 1 2>/dev/null
	case $1 in
	htb)
		shape handle 1: htb default 10
		htb_class 1: 1 200mbit 200mbit
		htb_class 1:1 10 "$([ -n "${2-}" ] && echo 100 || echo 200)mbit" 200mbit
		on_tx tc qdisc add dev txdev parent 1:10 fq
		[ -z "${2-}" ] || {
			htb_class 1:1 20 1mbit 160mbit
			on_tx tc qdisc add dev txdev parent 1:20 fq
		}
		;;
	mq+htb) each_htb txdev 25mbit 5kb fq ;;
	cake_mq) [ -z "${2-}" ] && on_tx tc qdisc add dev txdev root cake_mq bandwidth 200mbit besteffort ;;
	mq+edt)
		# What fq drops would have a time nevertheless.
		each_queue txdev fq limit 100000 flow_limit 10000
		on_tx tc filter add dev txdev egress pref 1 bpf da \
			obj "$here/edt-$([ -n "${2-}" ] && echo quotas || echo queues).o" sec tc
		;;
	bpshaper*)
		[ "$1" = bpshaper ] || only="queues 1"
		# shellcheck disable=SC2086 # words
		shape handle 1: bpshaper rate 200mbit burst 20kb ${OPTIONS:-limit 200k} $only
		[ -z "${2-}" ] || {
			on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper floor 100mbit
			on_tx tc class add dev txdev parent 1: classid 1:20 bpshaper ceil 160mbit
		}
		;;
	esac 2>/tmp/contender || {
		echo "# $1: not here $(</tmp/contender)"
		return 1
	}
}

# load_each "QUEUES" SECONDS OPTIONS...: the same in each of them, in the background
load_each()
{
	local q

	for q in $1; do
		load "$q" "${@:2}"
	done
}

# listen DELAY SECONDS: to what leaves, /tmp/law gets the law; in the background
listen()
{
	(sleep "$1"; on_rx "$law" rxdev 25000000 "$2" >/tmp/law) &
}

wire="udp_wire_goodput_mbit_per_s"
everyone="0 1 2 3 4 5 6 7"

# percent KEY OF QUEUES...: the sum, of Mbit/s
percent() { awk -v sum="$(loaded_sum "$1" "${@:3}")" "BEGIN { printf \"%.2f\", sum * 100 / $2 }"; }

# most KEY QUEUES...: of all
most()
{
	local q

	for q in "${@:2}"; do
		loaded "$q" "$1"
	done | sort -g | tail -n 1
}

mean() { awk -v sum="$(loaded_sum "$@")" "BEGIN { print sum / ($# - 1) }"; }

# jain QUEUES...: of what each queue got
jain()
{
	local q

	for q; do
		loaded "$q" "$wire"
	done | awk '{ sum += $1; squares += $1 * $1 } END { printf "%.4f", sum * sum / NR / squares }'
}

law_percent() { awk -v rate="$(json_get rate_Bps </tmp/law)" 'BEGIN { printf "%.3f", rate / 250000 }'; }

# queues_save CASE SHAPER SNDBUF KEY VALUE...: fields of the report
queues_save()
{
	local name=$1 shaper=$2 sndbuf=$3

	shift 3
	{
		printf '{ "%s": %s' "$1" "$2"
		[ $# = 2 ] || printf ', "%s": %s' "${@:3}"
		printf ' }\n'
	} >"$report"
	save queues "$shaper" case "$name" sndbuf "$sndbuf" rate 200mbit
	cat "$report"
}

queues_shares()
{
	local together

	contender "$1" classes || return 0
	# shellcheck disable=SC2086 # words
	load_each "0 1 2 3 4 5 6" 2 --udp 2 $production
	# shellcheck disable=SC2086 # words
	load 7 2 --udp 14 $batch
	wait
	together="production_percent $(percent $wire 200 0 1 2 3 4 5 6)"
	together+=" batch_percent $(percent $wire 200 7)"
	contender "$1" classes
	# shellcheck disable=SC2086 # words
	load 7 1 --udp 14 $batch
	wait
	# shellcheck disable=SC2086 # words
	queues_save shares "$1" default $together alone_percent "$(percent $wire 200 7)"
}

queues_delay()
{
	local turn alone=''

	for turn in without with; do
		contender "$1" classes || return 0
		# shellcheck disable=SC2086 # words
		load_each "0 1 2 3 4 5 6" 2 --udp 1 --pacing-rate 10000000 \
			--sndbuf 9216 --probe $production
		# shellcheck disable=SC2086 # words
		[ $turn = without ] || load 7 2 --udp 14 $batch
		wait
		alone=${alone:-$(most probe_delay_p99_ms 0 1 2 3 4 5 6)}
	done
	queues_save delay "$1" default alone_p99_ms "$alone" \
		beside_p99_ms "$(most probe_delay_p99_ms 0 1 2 3 4 5 6)" \
		beside_lost "$(loaded_sum probe_lost_packets 0 1 2 3 4 5 6)"
}

queues_heavy()
{
	contender "$1" || return 0
	listen 0.7 1
	load 0 2 --udp 4
	load_each "1 2 3 4 5 6 7" 2 --probe --probe-interval-us 1000
	wait
	queues_save heavy "$1" default heavy_percent "$(percent $wire 200 0)" \
		rate_percent "$(law_percent)" \
		sparse_p99_ms "$(most probe_delay_p99_ms 1 2 3 4 5 6 7)"
}

queues_equal()
{
	local sndbuf

	for sndbuf in default 4194304; do
		contender "$1" || return 0
		listen 0.7 1
		# shellcheck disable=SC2046 # words
		load_each "$everyone" 2 --udp 4 $([ $sndbuf = default ] || echo --sndbuf $sndbuf)
		wait
		# shellcheck disable=SC2086 # words
		queues_save equal "$1" $sndbuf rate_percent "$(law_percent)" \
			excess_bytes "$(json_get max_level_bytes </tmp/law)" \
			jain "$(jain $everyone)" \
			lost_packets "$(loaded_sum udp_lost_packets $everyone)" \
			sent_packets "$(loaded_sum udp_sent_packets $everyone)" \
			age_p99_ms "$(most udp_age_p99_ms $everyone)" \
			sender_cpu_us_per_packet "$(mean sender_cpu_us_per_packet $everyone)"
	done
}

queues_moves()
{
	contender "$1" || return 0
	load_each "0 1 2 3" 3 --udp 4
	listen 2.2 0.6
	sleep 1
	load_each "4 5 6 7" 1 --udp 4
	wait
	queues_save moves "$1" default came_percent "$(percent $wire 100 4 5 6 7)" \
		left_percent "$(law_percent)"
}

queues_sockets()
{
	local queues=8 QUEUES=8 shaper name
	# shellcheck disable=SC2034 # by topology_renew
	local tso_rtt_log=9

	# shellcheck source-path=SCRIPTDIR/.. source=lib/queues.sh
	. "$here/lib/queues.sh"
	topology_renew
	steer
	for name in ${CASES:-shares delay heavy equal moves}; do
		for shaper in ${CONTENDERS:-$contenders}; do
			"queues_$name" "$shaper"
		done
	done
}

part_queues()
{
	[[ " ${RATES:-200mbit} " != *" 200mbit "* ]] || queues_sockets
	[[ " ${RATES:-locks} " != *" locks "* ]] || queues_locks
}
