# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Cases of part `classes`: what each class gets of 200 Mbit/s, and when.
#
#	floor	a floor of 60 Mbit/s beside nine greedy classes of a hundred times the weight
#	one	one greedy class alone, below a parent of 100 Mbit/s
#	weights	three greedy classes of the weights 9, 3 and 1, which are the default bands of fq
#	settle-weights, settle-floor
#		a class with a floor comes after 500 ms and goes after 1000, beside three of the
#		weights 3, 1 and 1, and beside nine. How long is it until all get what the law
#		says? (settle.awk)
#
# Four UDP senders are in each class. htb cannot have classes without a rate, so all have a floor
# of 1 Mbit/s at least, and the quantum of weight 1 is 1514 bytes.

# shellcheck source-path=SCRIPTDIR/.. source=lib/peers.sh
. "$here/lib/peers.sh"

share_rivals="bpshaper htb+pfifo htb+fq_codel htb+bpshaper"
share_ms=10		# of a window

# share_class SHAPER PARENT MINOR FLOOR WEIGHT CEIL: in Mbit/s
share_class()
{
	case $1 in
	bpshaper)
		must on_tx tc class add dev txdev parent "$2" classid "1:$3" bpshaper \
			floor "$4mbit" weight "$5" ceil "$6mbit"
		;;
	htb*)
		must on_tx tc class add dev txdev parent "$2" classid "1:$3" htb \
			rate "$4mbit" ceil "$6mbit" quantum $((1514 * $5))
		;;
	esac
}

# share_rival SHAPER MINOR:FLOOR:WEIGHT...: children of 1:1
share_rival()
{
	local shaper=$1 minor floor weight

	shift
	if [ "$shaper" = tbf+fq ]; then
		shape handle 2: tbf rate 200mbit burst 20kb limit 200k
		on_tx tc qdisc add dev txdev parent 2:1 handle 1: fq
		return
	fi
	class_root "$shaper"
	share_class "$shaper" "1:$([ "$shaper" = bpshaper ] || echo fff0)" 1 "${link:-200}" 1 "${link:-200}"
	while IFS=: read -r minor floor weight; do
		share_class "$shaper" 1:1 "$minor" "$floor" "$weight" "${link:-200}"
		[[ $shaper != *+* ]] ||
			must on_tx tc qdisc add dev txdev parent "1:$minor" "${shaper#*+}"
	done < <(printf '%s\n' "$@")
}

# share_lost: packets of all classes
share_lost()
{
	grep -oE '"c[0-9a-f]*_lost": -?[0-9]+' /tmp/peers | awk '{ sum += $2 } END { print sum + 0 }'
}

# share_save CASE SHAPER SNDBUF KEY VALUE...: fields of the report
share_save()
{
	local name=$1 shaper=$2 sndbuf=$3

	shift 3
	{
		printf '{ "lost_packets": %s' "$(share_lost)"
		printf ', "%s": %s' "$@"
		printf ' }\n'
	} >"$report"
	cat "$report"
	save shares "$shaper" case "$name" sndbuf "$sndbuf"
}

# share_senders SNDBUF OPTIONS_OF_THE_FIRST MINOR:FLOOR:WEIGHT...
share_senders()
{
	local sndbuf='' options=$2 class

	[ "$1" = default ] || sndbuf=,sndbuf=$(($1 / 2))
	for class in "${@:3}"; do
		echo "c${class%%:*}:udp,sockets=4,class=1-${class%%:*}$sndbuf$options"
		options=
	done
}

# share_percent KEY OF: of Mbit/s
share_percent() { awk "BEGIN { printf \"%.2f\", $(got "$1") * 100 / $2 }"; }

case_floor()
{
	local shaper sndbuf classes

	peers_routes
	classes="10:60:1 $(printf '%s:1:100 ' 31 32 33 34 35 36 37 38 39)"
	for sndbuf in default 4194304; do
		for shaper in ${RIVALS:-$share_rivals}; do
			# shellcheck disable=SC2086 # words
			share_rival "$shaper" $classes
			# shellcheck disable=SC2046,SC2086 # words
			peers 2 500 $(share_senders $sndbuf "" $classes)
			share_save floor "$shaper" $sndbuf kept_percent "$(share_percent c10_mbit 60)" \
				used_percent "$(share_percent mbit 200)"
		done
	done
}

case_one()
{
	local shaper link=100

	peers_routes
	for shaper in ${RIVALS:-$share_rivals}; do
		share_rival "$shaper" 10:10:1 20:10:1
		peers 2 500 c10:udp,sockets=4,class=1-10
		share_save one "$shaper" default kept_percent "$(share_percent c10_mbit 100)"
	done
}

# share_law FROM_MS UNTIL_MS CLASS...: of the arrivals, `settled KEY` has what came of it
share_law()
{
	local classes shares

	classes=$(printf '%s\n' "${@:3}")
	shares=$(awk -F: '{ print -1, 0, $3, $2, 0, 0, 0 }' <<<"$classes" | "$bpshares" 200 | xargs)
	awk -v names="$(sed 's/\(.*\):.*:.*/c\1/' <<<"$classes" | xargs)" -v shares="$shares" \
		-v window_ms=$share_ms -v from_ms="$1" -v until_ms="$2" -f "$here/lib/settle.awk" \
		/tmp/arrivals >/tmp/settled
}
settled() { json_get "$1" </tmp/settled; }

# The bands of fq, from 6.7 on: the priorities of these classes go to all three.
fq_has_bands() { [ "$(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -n 1)" = 6.7 ]; }

case_weights()
{
	local shaper classes="6:1:9 20:1:3 21:1:1" shapers=$share_rivals

	peers_routes
	! fq_has_bands || shapers+=" tbf+fq"
	for shaper in ${RIVALS:-$shapers}; do
		# shellcheck disable=SC2086 # words
		share_rival "$shaper" $classes
		# shellcheck disable=SC2046,SC2086 # words
		ARRIVALS=/tmp/arrivals peers 2 500 $(share_senders default "" $classes)
		# shellcheck disable=SC2086 # words
		share_law 500 2000 $classes
		share_save weights "$shaper" default off_percent "$(settled off_percent)" \
			used_percent "$(share_percent mbit 200)"
	done
}

# settle_cell CASE SNDBUF MINOR:FLOOR:WEIGHT...: the first comes and goes
settle_cell()
{
	local name=$1 sndbuf=$2 shaper start

	shift 2
	for shaper in ${RIVALS:-$share_rivals}; do
		share_rival "$shaper" "$@"
		# shellcheck disable=SC2046 # words
		ARRIVALS=/tmp/arrivals peers 1.5 300 \
			$(share_senders "$sndbuf" ,from=500,until=1000 "$@")
		share_law 500 1000 "$@"
		start="start_ms $(settled settle_ms) start_off_percent $(settled off_percent)"
		share_law 1000 1500 "${@:2}"
		# shellcheck disable=SC2086 # words
		share_save "$name" "$shaper" "$sndbuf" $start stop_ms "$(settled settle_ms)" \
			stop_off_percent "$(settled off_percent)" \
			gone_ms "$(settled others_ms)"
	done
}

case_settle-weights()
{
	local sndbuf

	peers_routes
	for sndbuf in default 4194304; do
		settle_cell settle-weights $sndbuf 10:80:1 20:1:3 21:1:1 22:1:1
	done
}

case_settle-floor()
{
	peers_routes
	# shellcheck disable=SC2046 # words
	settle_cell settle-floor default 10:60:1 $(printf '%s:1:1 ' 31 32 33 34 35 36 37 38 39)
}
