# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# Part of test_plugin.sh: statistics of a qdisc as text and as JSON, with a
# value of its own in each member, and percentiles of the histograms. Shorter
# and longer ones are in older_xstats.sh.

XSTATS_TEXT="  throttles 1 unthrottles 2 throttled 12 overlimit 13 outside 32 turns 33
  flows 14 (socket_flows 15 parked 19) sockets 31 limit 18b share 16Kb pool 17b memory 18Kb
  drops: pool 3 memory 4 alloc 5 ack 29 segments 30 purged 20
  segments 6 direct 9 timer_wakeups 8 max_backlog 6442Mb ballast_errors 7
  paced_waits 21 paced_flows 25 horizon_caps 22 ce_marks 24
  group_members 26 waiting 27 tokens -28b
  delay: p50 <4.1us p99 <16.8ms max >4.29s
  throttle: p50 <1.02us p99 <1.02us max <1.02us
  outside: p50 <8.19us p99 <8.19us max <8.19us"
XSTATS_DETAILS="${XSTATS_TEXT%$'\n'*$'\n'*$'\n'*}
  delay: p50 <4.1us p99 <16.8ms max >4.29s; <2.05us 10; <4.1us 880; <16.8ms 109; >4.29s 1
  throttle: p50 <1.02us p99 <1.02us max <1.02us; <1.02us 7
  outside: p50 <8.19us p99 <8.19us max <8.19us; <8.19us 34
  lateness: p50 <2.05us p99 <4.1us max <4.1us; <2.05us 50; <4.1us 50"
XSTATS_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0
  flows 0 (socket_flows 0 parked 0) sockets 0 limit 0b share 0b pool 0b memory 0b
  drops: pool 0 memory 0 alloc 0 ack 0 segments 0 purged 0
  segments 0 direct 0 timer_wakeups 0 max_backlog 0b ballast_errors 0"
XSTATS_NO_PACING="  paced_waits 0 paced_flows 0 horizon_caps 0 ce_marks 0"
XSTATS_VALUES="1 2 3 4 5 6 7 8 9 $((6442 << 20)) 18432 12 13 14 15 16384 17 18 19 20"
XSTATS_PACING="21 22 24 25"
XSTATS_GROUP="26 27 -28"
XSTATS_DROPS="29 30"
XSTATS_SOCKETS=31
XSTATS_TURNS="32 33"
# hist BUCKET:COUNT...: a histogram in hex
hist()
{
	local -a count=()
	local i pair

	for pair; do
		count[${pair%:*}]=${pair#*:}
	done
	for ((i = 0; i < 24; i++)); do
		int 8 "${count[i]:-0}"
	done
}

# xstats_header: type and padding
xstats_header()
{
	int 4 0
	int 4 0
}

# xstats_hex: all members, each with a value of its own, in the order of the
# struct
xstats_hex()
{
	local value i=0

	xstats_header
	for value in $XSTATS_VALUES; do
		i=$((i + 1))
		int $((i > 11 && i < 20 ? 4 : 8)) "$value"
	done
	hist 1:10 2:880 14:109 23:1
	hist 0:7
	hist 1:50 2:50
	for value in $XSTATS_PACING; do
		int $((value == 25 ? 4 : 8)) "$value"
	done
	# shellcheck disable=SC2086 # words
	xstats_group $XSTATS_GROUP
	# shellcheck disable=SC2086 # words
	xstats_drops $XSTATS_DROPS
	int 4 $XSTATS_SOCKETS
	# shellcheck disable=SC2086 # words
	xstats_turns $XSTATS_TURNS
	hist 3:34
}

# xstats_group MEMBERS WAITING TOKENS: the members behind those of pacing
xstats_group()
{
	int 4 "$1"
	int 4 "$2"
	int 4 0
	int 8 "$3"
}

# xstats_drops ACK SEGMENTS: the members behind those of groups
xstats_drops()
{
	int 8 "$1"
	int 8 "$2"
}

# xstats_turns OUTSIDE TURNS: the members behind the sockets
xstats_turns()
{
	int 4 "$1"
	int 8 "$2"
}

# zeros BYTES: in hex
zeros() { printf '%0*d' $((2 * $1)) 0; }

test_xstats_text()
{
	local hex

	hex=$(xstats_hex)
	is "statistics as text" "$XSTATS_TEXT" "$(xstats_to "$hex")"
	is "statistics with details" "$XSTATS_DETAILS" "$(xstats_to -d "$hex")"
	is "statistics of a type to come print nothing" "" \
		"$(xstats_to "$(int 4 3)${hex:8}")"
	is "one line with -oneline" "${XSTATS_TEXT//$'\n'/\\}" \
		"$(xstats_to -o "$hex")"
	is "what was not paced is not mentioned" "$XSTATS_ZERO" \
		"$(xstats_to "$(xstats_header; zeros 952)")"
	is "what was is" "$XSTATS_ZERO
  paced_waits 0 paced_flows 0 horizon_caps 0 ce_marks 1" \
		"$(xstats_to "$(xstats_header; zeros 720; int 8 1; zeros 224)")"
	is "tc -s shows them below the qdisc" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit "$'\n'"$XSTATS_TEXT" \
		"$(message "$(attrs rate 125000)" "$hex" -s | grep -v '^$')"
	is "tc -s -d shows all of them" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit "$'\n'"$XSTATS_DETAILS" \
		"$(message "$(attrs rate 125000)" "$hex" -s -d | grep -v '^$')"
	is "these statistics are all there are" "$(struct_size xstats)" ${#hex}
}

test_xstats_json()
{
	local out

	out=$(xstats_to -j "$(xstats_hex)")
	is "JSON has the fields of the struct, each once" \
		"$(struct_members xstats | sort)" \
		"$(grep -oE '"[a-z_]+":' <<<"$out" | tr -d '":' | sort)"
	is "JSON has the values of the struct, in its order" "$XSTATS_VALUES" \
		"$(members_of xstats "$out" | head -n 20 | paste -sd' ')"
	is "JSON has every bucket of the histograms" \
		"[0,10,880$(printf ',0%.0s' {1..11}),109$(printf ',0%.0s' {1..8}),1]
[7$(printf ',0%.0s' {1..23})]
[0,50,50$(printf ',0%.0s' {1..21})]
[0,0,0,34$(printf ',0%.0s' {1..20})]" \
		"$(members_of xstats "$out" | sed -n '21,23p;$p')"
	is "JSON has what came later" \
		"$XSTATS_PACING $XSTATS_GROUP $XSTATS_DROPS $XSTATS_SOCKETS $XSTATS_TURNS" \
		"$(members_of xstats "$out" | tail -n 13 | head -n 12 | paste -sd' ')"
}

# percentiles BUCKET:COUNT...: the text of a histogram of delays
percentiles()
{
	xstats_to "$(xstats_header; zeros 128; hist "$@")" |
		sed -n 's/.*delay: //p'
}

test_percentiles()
{
	is "one packet is every percentile" \
		"p50 <1.05ms p99 <1.05ms max <1.05ms" "$(percentiles 10:1)"
	is "p50 is what half of them do not exceed" \
		"p50 <1.02us p99 <2.05us max <2.05us" "$(percentiles 0:1 1:1)"
	is "one of a hundred is not in p99" \
		"p50 <1.02us p99 <1.02us max <8.19us" "$(percentiles 0:99 3:1)"
	is "two of a hundred are" \
		"p50 <1.02us p99 <8.19us max <8.19us" "$(percentiles 0:98 3:2)"
	is "the last bucket has no bound" \
		"p50 >4.29s p99 >4.29s max >4.29s" "$(percentiles 23:5)"
	is "the last but one has" \
		"p50 <4.29s p99 <4.29s max <4.29s" "$(percentiles 22:5)"
}

test_xstats()
{
	test_xstats_text
	test_xstats_json
	test_percentiles
}
