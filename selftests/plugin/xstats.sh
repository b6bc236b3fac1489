# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# Part of test_plugin.sh: statistics of a qdisc and of a class as text and as
# JSON, with a value of its own in each member, percentiles of the histograms,
# and statistics of a length that is not ours: what is missing is zero.

HISTS=("delay_hist=1:10 2:880 14:109 23:1" throttle_hist=0:7 outside_hist=3:34
	"lateness_hist=1:50 2:50")
HISTS_TEXT="
  delay: p50 <4.1us p99 <16.8ms max >4.29s
  throttle: p50 <1.02us p99 <1.02us max <1.02us
  outside: p50 <8.19us p99 <8.19us max <8.19us"
HISTS_DETAILS="
  delay: p50 <4.1us p99 <16.8ms max >4.29s; <2.05us 10; <4.1us 880; <16.8ms 109; >4.29s 1
  throttle: p50 <1.02us p99 <1.02us max <1.02us; <1.02us 7
  outside: p50 <8.19us p99 <8.19us max <8.19us; <8.19us 34"
XSTATS_TEXT="  throttles 3000000003 unthrottles 4000000004 throttled 14 overlimit 15 outside 37 turns 38000000038 idle_throttles 43000000043
  flows 16 (socket_flows 17 parked 21) sockets 36 limit 20b share 16Kb pool 19b memory 18Kb
  drops: pool 5000000005 memory 6000000006 alloc 7000000007 ack 34000000034 segments 35000000035 purged 22000000022
  unheld: no_owner 44000000044 foreign 45000000045 sndbuf 46000000046 control 47000000047 destructor 48000000048
  segments 8000000008 direct 11000000011 timer_wakeups 10000000010 max_backlog 6442Mb ballast_errors 9000000009
  paced_waits 26000000026 paced_flows 29 horizon_caps 27000000027 ce_marks 28000000028
  queues 30 waiting 31 locks 40000000040 grants 41000000041 revokes 42000000042 tokens -28b"
XSTATS_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0
  flows 0 (socket_flows 0 parked 0) sockets 0 limit 0b share 0b pool 0b memory 0b
  drops: pool 0 memory 0 alloc 0 ack 0 segments 0 purged 0
  segments 0 direct 0 timer_wakeups 0 max_backlog 0b ballast_errors 0"
LEAF_TEXT="  throttles 3000000003 unthrottles 4000000004 throttled 13 overlimit 14 outside 15 turns 5000000005
  flows 16 (socket_flows 17) sockets 18 limit 21b share 19b pool 20b paced_flows 22
  drops: pool 6000000006 memory 7000000007 alloc 8000000008 ack 9000000009 segments 10000000010
  rate 96000000096bit floor_in_effect 208000000208bit ceil_waits 11000000011 ce_marks 27000000027 children 2"
LEAF_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0 outside 0 turns 0
  flows 0 (socket_flows 0) sockets 0 limit 0b share 0b pool 0b paced_flows 0
  drops: pool 0 memory 0 alloc 0 ack 0 segments 0
  rate 0bit ceil_waits 0 children 0"

# xstats_all, leaf_all: all members
xstats_all()
{
	stats_members xstats "${HISTS[@]}" share=16384 memory=18432 \
		max_backlog=$((6442 << 20)) hub_tokens=-28
}

leaf_all() { stats_members leaf_xstats "${HISTS[@]}"; }

xstats_zero() { stats_members xstats others=0 "$@"; }

# statistics_print STRUCT NAME LINE TEXT DETAILS MEMBERS: LINE is what tc says without -s
statistics_print()
{
	local hex

	hex=$(stats_hex <<<"$6")
	is "$2 as text" "$4" "$(xstats_to "$hex")"
	is "$2 with details" "$5" "$(xstats_to -d "$hex")"
	is "$2 in one line with -oneline" "${4//$'\n'/\\}" "$(xstats_to -o "$hex")"
	is "tc -s shows $2" "$3"$'\n'"$4" "$(message - "$hex" -s | grep -v '^$')"
	is "tc -s -d shows all of it" "$3"$'\n'"$5" \
		"$(message - "$hex" -s -d | grep -v '^$')"
	is "without -s there is a line" "$3" "$(message - "$hex")"
	is "JSON of $2 has each member" \
		"$(grep -vE '^(type|reserved.*|[a-z]+_hist) ' <<<"$6" | cut -d' ' -f1,3 | sort)" \
		"$(xstats_to -j "$hex" | jq -r 'to_entries[] |
			select(.value | numbers) | "\(.key) \(.value)"' | sort)"
	is "and every bucket of its histograms" \
		"[0,10,880$(printf ',0%.0s' {1..11}),109$(printf ',0%.0s' {1..8}),1]
[7$(printf ',0%.0s' {1..23})]
[0,0,0,34$(printf ',0%.0s' {1..20})]" \
		"$(xstats_to -j "$hex" | jq -c '.delay_hist, .throttle_hist, .outside_hist')"
	is "these members are all there are" "$(struct_size "$1")" ${#hex}
	is "members that are not known are cut" "$5" "$(xstats_to -d "${hex}ffffffffffffffffffffffff")"
}

test_zero_xstats()
{
	local hex

	hex=$(xstats_all | stats_hex)
	is "statistics of a type to come print nothing" "" \
		"$(xstats_to "$(int 4 3)${hex:8}")"
	is "members that are missing are zero" \
		"${XSTATS_ZERO/throttles 0 unthrottles 0/throttles 3000000003 unthrottles 4000000004}" \
		"$(xstats_to "$(xstats_all | sed '/^drops_pool/,$d' | stats_hex)")"
	is "and statistics may end within a field" 1 "$(xstats_to -j "$(int 8 0)01" | jq .throttles)"
	is "or be empty" "$XSTATS_ZERO" "$(xstats_to "")"
	is "statistics of a class may have a type only" "$LEAF_ZERO" "$(xstats_to "$(int 4 2)")"
	is "what was not paced is not mentioned" "$XSTATS_ZERO" \
		"$(xstats_to "$(xstats_zero | stats_hex)")"
	is "what was is" "$XSTATS_ZERO
  paced_waits 0 paced_flows 0 horizon_caps 0 ce_marks 1" \
		"$(xstats_to "$(xstats_zero ce_marks=1 | stats_hex)")"
	is "why packets cannot be held is said once there is one" \
		"unheld: no_owner 0 foreign 0 sndbuf 0 control 1 destructor 0" \
		"$(xstats_to "$(xstats_zero unheld_control=1 | stats_hex)" | grep -o 'unheld.*')"
	is "where there is one lock there are no tokens to show" "$XSTATS_ZERO" \
		"$(xstats_to "$(xstats_zero hub_tokens=5 | stats_hex)")"
	is "tokens may be more than 32 bits hold, or none" \
		"tokens 4294967295b tokens -4294967295b tokens 0b" \
		"$(for tokens in 4294967295 -4294967295 0; do
			xstats_to "$(xstats_zero queues=2 hub_tokens=$tokens | stats_hex)"
		   done | grep -o 'tokens .*' | paste -sd' ')"
	is "a rate has the largest unit that fits, and is exact" \
		"rate 8Mbit rate 8000008bit" \
		"$(for rate in 1000000 1000001; do
			xstats_to "$(stats_members leaf_xstats others=0 rate=$rate | stats_hex)"
		   done | grep -o 'rate [0-9]*[A-Z]*bit' | paste -sd' ')"
}

# percentiles BUCKET:COUNT...: the text of a histogram of delays
percentiles()
{
	xstats_to "$(xstats_zero delay_hist="$*" | stats_hex)" | sed -n 's/.*delay: //p'
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
	statistics_print xstats "a qdisc's statistics" "qdisc bpshaper 8001: dev lo root " \
		"$XSTATS_TEXT$HISTS_TEXT" "$XSTATS_TEXT$HISTS_DETAILS
  lateness: p50 <2.05us p99 <4.1us max <4.1us; <2.05us 50; <4.1us 50" "$(xstats_all)"
	object=class_ statistics_print leaf_xstats "a class's statistics" \
		"class bpshaper 8001:1 dev lo parent 8001: " \
		"$LEAF_TEXT$HISTS_TEXT" "$LEAF_TEXT$HISTS_DETAILS" "$(leaf_all)"
	test_zero_xstats
	test_percentiles
}
