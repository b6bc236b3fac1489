#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# One word replaces htb: published set-ups of htb, with htb and with bpshaper. $SETUPS chooses.
#
# A set-up is htb/NAME.tc, with lines for tc, and DEV for the device. Of each:
#
#  1. lines: htb takes them all
#  2. lines: bpshaper takes them all, but for child qdiscs of classes
#  3. classes: those of htb, with the same parents
#  4. default: packets without a class go where htb has them
#  5. shares: when all leaf classes are busy, each gets what it gets with htb, within 10 % or three
#     packets. Lines "# share: ID MBIT" say what else it gets; why, the set-up says. A line
#     "# idle: ID" names a class that nothing is sent to.
#
# What htb clamps or passes over, bpshaper does as well, and says so:
#
#  6. values: each of a class
#  7. places: a parent that is not there, and another one
#  8. options: what a command does not name has its default

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"

seconds=1.2 warmup_ms=200
no_child="a class has fair queues of its own, and no child qdisc"

# line_judge LINE STATUS WORDS EXPECTED: adds to $wrong what should not be. EXPECTED are words of a
# refusal; empty if the line is to be taken.
line_judge()
{
	if [ "$2" = 0 ] && [ -n "$4" ]; then
		wrong+=("taken: $1" "expected: $4")
	elif [ "$2" != 0 ] && [[ -z $4 || $3 != *"$4"* ]]; then
		wrong+=("refused: $1" "${3//$'\n'/ }" "expected: ${4:-success}")
	fi
}

# setup_run KIND NAME: the lines of a set-up; what is wrong is in $wrong
setup_run()
{
	local line words status expected

	root_remove
	wrong=()
	# shellcheck disable=SC2162 # a backslash joins lines
	while read line; do
		[[ $line == [!#]* ]] || continue
		expected=
		[[ $1 == htb || $line != "qdisc "*" parent "* ]] || expected=$no_child
		line=${line//DEV/txdev}
		# shellcheck disable=SC2086 # words
		words=$(tc -n "$tx" ${line/ htb/ $1} 2>&1)
		status=$?
		line_judge "$line" $status "$words" "$expected"
	done <"$here/htb/$2.tc"
}

# classes KIND: "ID PARENT" of each, sorted
classes()
{
	tc -n "$tx" class show dev txdev |
		awk -v kind="$1" '$2 == kind { print $3, $4 == "root" ? "root" : $5 }' | sort
}

# leaves CLASSES: those that are no parents
leaves()
{
	awk '{ id[$1] = 1; parent[$2] = 1 } END { for (i in id) if (!parent[i]) print i }' \
		<<<"$1" | sort
}

# default_leaf LEAF...: where packets go that say nothing of a class. The kernel sends a packet of
# its own now and then, which may go elsewhere.
default_leaf()
{
	peers 0.05 0 plain:udp,every=5000
	tc -n "$tx" -s class show dev txdev | awk -v leaves=" $* " '
		$1 == "class" { id = $3 }
		$1 == "Sent" && $2 > most && index(leaves, " " id " ") { most = $2; leaf = id }
		END { print leaf }'
}

# shares LEAF...: "ID MBIT" of each, when all send at once
shares()
{
	local id senders=()

	for id; do
		senders+=("c${id#*:}:udp,class=${id/:/-}")
	done
	peers $seconds $warmup_ms "${senders[@]}"
	for id; do
		echo "$id $(got "c${id#*:}_mbit")"
	done
}

# shares_differ EXPECTED MEASURED: those that differ too much
shares_differ()
{
	local packet_mbit

	packet_mbit=$(awk "BEGIN { print 1512 * 8 / 1e6 / ($seconds - $warmup_ms / 1000) }")
	awk -v slack="$packet_mbit" '
		NR == FNR { expected[$1] = $2; next }
		{
			d = $2 - expected[$1]
			d = d < 0 ? -d : d
			if ($2 == "" || !($1 in expected) || d > 3 * slack && d > 0.1 * expected[$1])
				print $1 " has " $2 " Mbit/s, expected " expected[$1]
		}' <(echo "$1") <(echo "$2")
}

# busy NAME LEAF...: those of them that are not idle
busy()
{
	printf '%s\n' "${@:2}" | grep -vxFf <(sed -n 's/^# idle: //p' "$here/htb/$1.tc")
}

# traffic_check NAME LEAF...: after setup_run htb, and before anything has been sent
traffic_check()
{
	local name=$1 default htb expected bpshaper busy

	readarray -t busy < <(busy "$@")
	shift
	default=$(default_leaf "$@")
	htb=$(shares "${busy[@]}")
	expected=$(sed -n 's/^# share: //p' "$here/htb/$name.tc")

	setup_run bpshaper "$name"
	is "$name: packets without a class go to ${default:-none}" "$default" "$(default_leaf "$@")"
	bpshaper=$(shares "${busy[@]}")
	echo "# $name, Mbit/s: htb ${htb//$'\n'/, }; bpshaper ${bpshaper//$'\n'/, }"
	is "$name: the shares are the same" "" "$(shares_differ "${expected:-$htb}" "$bpshaper")"
}

# setup_check NAME
setup_check()
{
	local theirs ours leaves

	setup_run bpshaper "$1"
	check_none "$1: bpshaper takes each line but for child qdiscs" "${wrong[@]}"
	ours=$(classes bpshaper)

	setup_run htb "$1"
	check_none "$1: htb takes all lines" "${wrong[@]}"
	theirs=$(classes htb)
	is "$1: the classes are the same" "$theirs" "$ours"
	readarray -t leaves < <(leaves "$theirs")
	traffic_check "$1" "${leaves[@]}"
}

# check_none NAME TEXT...: there is no text
check_none()
{
	if [ $# = 1 ]; then
		ok "$1"
	else
		not_ok "$@"
	fi
}

# words_run KIND PLACE WORDS...: a class of that kind; what tc says is in $said
words_run()
{
	# shellcheck disable=SC2086 # words
	said=$(on_tx tc class $2 "$1" "${@:3}" 2>&1) || said="refused: $said"
}

# class_word ID WORD: what is shown behind the word
class_word()
{
	on_tx tc class show dev txdev classid "$1" | sed "s/.* $2 \\([^ ]*\\).*/\\1/"
}

# all_options ID
all_options()
{
	on_tx tc class show dev txdev classid "$1" | sed 's/.* parent [0-9:]* //'
}

# values_check NOTE WORDS...: both kinds have the class, and bpshaper says NOTE
values_check()
{
	local kind note=$1

	shift
	for kind in htb bpshaper; do
		root_remove
		must on_tx tc qdisc add dev txdev root handle 1: $kind default 10
		must on_tx tc class add dev txdev parent 1: classid 1:1 $kind rate 15mbit
		words_run $kind "add dev txdev parent 1:1 classid 1:10" "$@"
		is "$kind $*: the class is there" "1:1 root 1:10 1:1 " "$(classes $kind | tr '\n' ' ')"
	done
	is "bpshaper $*: it says ${note:-nothing}" "${note:+bpshaper: note: $note}" "$said"
}

# place_check NAME WARNING CLASSES PLACE WORDS...: likewise, beside 1:1, 1:2 and, below 1:1, 1:10
place_check()
{
	local kind

	for kind in htb bpshaper; do
		root_remove
		must on_tx tc qdisc add dev txdev root handle 1: $kind
		must on_tx tc class add dev txdev parent 1: classid 1:1 $kind rate 15mbit
		must on_tx tc class add dev txdev parent 1: classid 1:2 $kind rate 15mbit
		must on_tx tc class add dev txdev parent 1:1 classid 1:10 $kind rate 5mbit
		words_run $kind "$4" "${@:5}"
		is "$kind, $1" "$3 " "$(classes $kind | tr '\n' ' ')"
	done
	is "bpshaper, $1: it warns" "Warning: sch_bpshaper: $2." "$said"
}

values_checks()
{
	local words

	for words in 8 256 4294967295; do
		values_check "\"prio $words\" counts as 7" rate 8mbit prio $words
	done
	for words in 1250000 4294967295; do
		values_check "\"quantum $words\" counts as 1048576" quantum $words rate 8mbit
	done
	values_check '"prio 3" has no effect: it is repeated' rate 8mbit prio 3 prio 4
	for words in "burst 0" "cburst 0" "quantum 0" "ceil 0" "overhead 0" "linklayer ethernet" \
			"pri 07" "mtu 1500"; do
		# shellcheck disable=SC2086 # words
		values_check "" rate 8mbit $words
	done
}

places_checks()
{
	local all="1:1 root 1:10 1:1 1:2 root" moved="a class cannot move to another parent"

	place_check "no such parent: the class is at the top" "there is no such parent class" \
		"$all 1:802 root" "add dev txdev parent 1:7 classid 1:802" rate 5mbit ceil 20mbit
	is "it gets its rate at most" 5Mbit "$(class_word 1:802 ceil)"
	place_check "another parent: the class stays" "$moved" "$all" \
		"change dev txdev parent 1:2 classid 1:10" rate 6mbit
	is "and has its new rate" 6Mbit "$(class_word 1:10 ceil)"
	place_check "the qdisc as another parent: the class stays" "$moved" "$all" \
		"replace dev txdev parent 1: classid 1:10" rate 6mbit
	place_check "a ceil without a parent" "a class of htb without a parent gets its rate at most" \
		"$all" "change dev txdev classid 1:2" rate 6mbit ceil 8mbit
	is "it is the rate" 6Mbit "$(class_word 1:2 ceil)"
	place_check "an estimator: the class is there" \
		'classes have no rate estimator; "rate" of tc -s is what a class gets' \
		"1:1 root 1:10 1:1 1:11 1:1 1:2 root" \
		"add dev txdev parent 1:1 classid 1:11 est 1s 8s" rate 5mbit
}

options_check()
{
	local new

	shape handle 1: bpshaper rate 100mbit r2q 5
	must on_tx tc class add dev txdev parent 1: classid 1:1 bpshaper rate 15mbit
	must on_tx tc class add dev txdev parent 1:1 classid 1:10 bpshaper rate 2mbit ceil 8mbit
	new=$(all_options 1:10)
	must on_tx tc class replace dev txdev parent 1:1 classid 1:10 bpshaper \
		rate 3mbit ceil 9mbit prio 3 quantum 9000 cburst 90k latency 3ms
	must on_tx tc class replace dev txdev parent 1:1 classid 1:10 bpshaper rate 2mbit ceil 8mbit
	is "what a command of htb does not name has its default" "$new" "$(all_options 1:10)"
	is "2 Mbit/s and r2q 5 make a weight of 50000" 50000 "$(class_word 1:10 weight)"
	must on_tx tc qdisc change dev txdev root handle 1: bpshaper r2q 100
	must on_tx tc class change dev txdev classid 1:10 bpshaper prio 2
	is "another r2q, and our own words, leave it" 50000 "$(class_word 1:10 weight)"
}

peers_topology
values_checks
places_checks
options_check
for setup in "$here"/htb/*.tc; do
	setup=$(basename "$setup" .tc)
	[[ " ${SETUPS:-$setup} " != *" $setup "* ]] || setup_check "$setup"
done
root_remove
finish
