# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `quic` of bench.sh, which sources it: connections of quic-go, quinn and ngtcp2 ($STACKS) that
# send all they can, on a path that takes 20 ms beyond the shaper, and small requests on each, but of
# ngtcp2. What receives from quinn is quic-go. quinn and ngtcp2 have each congestion control of $CC
# (cubic, bbr, and newreno or reno).
#
#	up	each connection has a socket of its own; not ngtcp2
#	down	all are of one server's socket
#	beside	up, beside a greedy sender of UDP without ECN; quic-go only
#
# bpshaper and cake have their defaults, fq a ce_threshold of 5 ms. The time is 4 s, and ten times
# as long as the rate needs for all initial windows. bpquic says what its keys mean. marked is in
# percent of what arrived, as the receiver's kernel has counted it.

# Who sends
stack=quic-go cc=

# quic_rival NAME RATE
quic_rival()
{
	rival "$1" "$2"
	# shellcheck disable=SC2086 # words
	[ "$1" != bpshaper ] || shape bpshaper rate "$2" ${OPTIONS-}
	[ "$1" != tbf+fq ] || must on_tx tc qdisc change dev txdev parent 1:1 fq ce_threshold 5ms
}

received() { on_rx nstat -sz "IpExtIn$1" | awk '/IpExt/ { print $2 }'; }

# ngtcp2_srtt SECONDS: of its server, from what it has logged after two fifths of the time
ngtcp2_srtt()
{
	sed -nE 's/.*"time":([0-9]+).*"smoothed_rtt":([0-9.]+).*/\1 \2/p' /tmp/qlog/*.sqlog |
		awk -v from="$1" '$1 >= from * 400 { print $2 }' | sort -n | awk '{ ms[NR] = $1 }
			END { printf "\"srtt_p50_ms\": %.1f, \"srtt_max_ms\": %.1f",
				ms[int((NR + 1) / 2)], ms[NR] }'
}

# ngtcp2_send CONNECTIONS SECONDS: down, a file that has no end in that time to each client
ngtcp2_send()
{
	# shellcheck disable=SC2034 # of sizes()
	local i pids=() run=$here/quic/run http_peers=$1

	rm -rf /tmp/peers /tmp/qlog
	mkdir -p /tmp/htdocs /tmp/qlog
	truncate -s 1G /tmp/htdocs/big
	quic_server "$run" --cc="$cc" --qlog-dir=/tmp/qlog
	pids+=($!)
	sleep 0.5
	for ((i = 0; i < $1; i++)); do
		mkdir -p /tmp/peers/quic$i
		on_rx "$run" gtlsclient -q --download /tmp/peers/quic$i 10.99.0.1 4433 \
			https://10.99.0.1/big >/tmp/dial 2>&1 &
		pids+=($!)
	done
	sleep $((4 * $2))e-1
	sizes quic >/tmp/before
	sleep $((6 * $2))e-1
	sizes quic >/tmp/after
	kill_all "${pids[@]}"
	ngtcp2_srtt "$2"
	paste /tmp/after /tmp/before | awk -v s="$2" '{ print ($1 - $2) * 8 / s / .6 / 1e6 }' |
		spread | awk '{ printf ", \"mbit_per_s\": %.3f, \"jain\": %.4f", $1, $4 }'
}

# quic_send CASE CONNECTIONS SECONDS: prints what both ends report. $stack sends, with $cc.
# shellcheck disable=SC2086 # $cc may be nothing
quic_send()
{
	local case=$1 args=("$3" "$2") sender=bpquic

	[ "$stack" != ngtcp2 ] || { ngtcp2_send "$2" "$3"; return; }
	[ "$stack" != quinn ] || sender=bpquinn
	[ "$case" != beside ] || args+=(1)
	if [ "$case" = down ]; then
		on_tx "$here/$sender" serve 10.99.0.1:4433 down "${args[@]}" $cc >/tmp/serve &
		sleep 0.5
		on_rx "$here/bpquic" dial 10.99.0.1:4433 down "${args[@]}" >/tmp/dial
	else
		on_rx "$here/bpquic" serve 10.99.0.2:4433 up "${args[@]}" >/tmp/serve &
		sleep 0.5
		on_tx "$here/$sender" dial 10.99.0.2:4433 up "${args[@]}" $cc >/tmp/dial
	fi
	wait $!
	members /tmp/serve /tmp/dial
}

# members FILE...: of JSON of one line, one level deep
members() { sed -n 's/^{\(.*\)}$/\1/p' "$@" | paste -sd,; }

# measured COMMAND...: the report is what it prints, with marks and CPU time
measured()
{
	local result marked all up idle uptime

	marked=$(received CEPkts) all=$(received NoECTPkts)
	all=$((all + marked + $(received ECT0Pkts)))
	read -r up idle </proc/uptime
	result=$("$@")
	read -r -a uptime </proc/uptime
	marked=$(($(received CEPkts) - marked))
	all=$(($(received NoECTPkts) + $(received ECT0Pkts) + $(received CEPkts) - all))
	awk -v marked=$marked -v all=$all -v up="$up" -v idle="$idle" -v up2="${uptime[0]}" \
		-v idle2="${uptime[1]}" -v result="$result" 'BEGIN {
			printf "{ %s, \"marked_percent\": %.2f, \"busy_percent\": %.2f }\n",
				result, 100 * marked / all, 100 - 100 * (idle2 - idle) / (up2 - up) }' \
		>"$report"
}

# quic_cell CASE CONNECTIONS RATE
quic_cell()
{
	local shaper seconds

	seconds=$((4 + 3200000 * $2 / $(bits "$3")))
	for shaper in $rivals; do
		[[ $shaper != edt || -e $here/edt-$3.o ]] || continue
		quic_rival "$shaper" "$3"
		measured quic_send "$1" "$2" $seconds
		save quic "$shaper" stack "$stack" ${cc:+cc "$cc"} case "$1" connections "$2" \
			rate "$3" seconds $seconds drops "$(client_drops "$shaper")"
		cat "$report"
	done
}

# quic_stack STACK RATE
quic_stack()
{
	local stack=$1 cc ccs=("") cases="up down" more=64 case connections

	case $1 in
	quinn | ngtcp2) read -r -a ccs <<<"${CC:-cubic}" && more= ;;
	esac
	[ "$1" != ngtcp2 ] || cases=down
	for cc in "${ccs[@]}"; do
		# The first run costs more CPU than others do.
		quic_rival bpshaper 5mbit
		quic_send "${cases##* }" 1 1 >/dev/null
		for case in $cases; do
			for connections in ${CONNECTIONS:-1 16 $more}; do
				quic_cell $case "$connections" "$2"
			done
		done
	done
	[ "$1" != quic-go ] || quic_cell beside 16 "$2"
}

part_quic()
{
	local rate stack

	tar -C "$here" -xzf "$here/quic.tgz"
	modprobe sch_netem
	must on_rx tc qdisc add dev rxdev root netem delay 20ms limit 100000
	for rate in ${RATES:-5mbit 20mbit 200mbit}; do
		for stack in ${STACKS:-quic-go quinn ngtcp2}; do
			quic_stack "$stack" "$rate"
		done
	done
	on_rx tc qdisc del dev rxdev root
}
