# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `quic` of bench.sh, which sources it: connections of quic-go and quinn ($STACKS) that send
# all they can, on a path that takes 20 ms beyond the shaper, and small requests on each. What
# receives is quic-go. quinn has each congestion control of $CC (cubic, newreno, bbr).
#
#	up	each connection has a socket of its own
#	down	all are of one server's socket
#	beside	up, beside a greedy sender of UDP without ECN; quic-go only
#
# bpshaper and cake have their defaults, fq a ce_threshold of 5 ms. The time is 4 s, and ten times
# as long as the rate needs for all initial windows. bpquic says what its keys mean. marked is in
# percent of what arrived, as the receiver's kernel has counted it.

# Who sends; the other end is always quic-go.
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

# quic_send CASE CONNECTIONS SECONDS: prints what both ends report. $stack sends, quinn with $cc.
quic_send()
{
	local case=$1 args=("$3" "$2") sender=bpquic

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
	local stack=$1 cc ccs=('') more=64 case connections

	[ "$stack" != quinn ] || { read -r -a ccs <<<"${CC:-cubic}"; more=; }
	for cc in "${ccs[@]}"; do
		# The first run costs more CPU than others do.
		quic_rival bpshaper 5mbit
		quic_send up 1 1 >/dev/null
		for case in up down; do
			for connections in ${CONNECTIONS:-1 16 $more}; do
				quic_cell $case "$connections" "$2"
			done
		done
	done
	[ "$stack" = quinn ] || quic_cell beside 16 "$2"
}

part_quic()
{
	local rate stack

	modprobe sch_netem
	must on_rx tc qdisc add dev rxdev root netem delay 20ms limit 100000
	for rate in ${RATES:-5mbit 20mbit 200mbit}; do
		for stack in ${STACKS:-quic-go quinn}; do
			quic_stack "$stack" "$rate"
		done
	done
	on_rx tc qdisc del dev rxdev root
}
