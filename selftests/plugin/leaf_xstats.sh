# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# Part of test_plugin.sh: statistics of a class that was added, as text and as
# JSON, with a value of its own in each member. A kernel may have fewer or more
# of them.

# What a member of 64 bits has more than its number
LEAF_BIG=$((1 << 32))
LEAF_TEXT="  throttles $((LEAF_BIG + 2)) unthrottles $((LEAF_BIG + 3)) throttled 12 overlimit 13 outside 14 turns $((LEAF_BIG + 4))
  flows 15 (socket_flows 16) sockets 17 limit 20b share 18b pool 19b paced_flows 21
  drops: pool $((LEAF_BIG + 5)) memory $((LEAF_BIG + 6)) alloc $((LEAF_BIG + 7)) ack $((LEAF_BIG + 8)) segments $((LEAF_BIG + 9))
  rate $(((LEAF_BIG + 11) * 8))bit floor_in_effect $(((LEAF_BIG + 22) * 8))bit ceil_waits $((LEAF_BIG + 10)) ce_marks $((LEAF_BIG + 23)) children 1
  delay: p50 <4.1us p99 <16.8ms max >4.29s
  throttle: p50 <1.02us p99 <1.02us max <1.02us
  outside: p50 <8.19us p99 <8.19us max <8.19us"
LEAF_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0 outside 0 turns 0
  flows 0 (socket_flows 0) sockets 0 limit 0b share 0b pool 0b paced_flows 0
  drops: pool 0 memory 0 alloc 0 ack 0 segments 0
  rate 0bit ceil_waits 0 children 0"

# leaf_hex: all members, in the order of the struct
leaf_hex()
{
	local size name value=0

	while read -r size name; do
		case $name in
		type) int 4 2 ;;
		delay_hist) hist 1:10 2:880 14:109 23:1 ;;
		throttle_hist) hist 0:7 ;;
		outside_hist) hist 3:34 ;;
		*) int "$size" $((++value + (size == 8) * LEAF_BIG)) ;;
		esac
	done < <(jq -r '.leaf_xstats[] | "\(.size) \(.name)"' "$UAPI")
}

# leaf_before MEMBER: the statistics up to this member
leaf_before()
{
	local hex

	hex=$(leaf_hex)
	echo "${hex:0:$(struct_before leaf_xstats "$1")}"
}

test_leaf_text()
{
	local hex

	hex=$(leaf_hex)
	is "statistics of a class as text" "$LEAF_TEXT" "$(xstats_to "$hex")"
	is "with details, its histograms" \
		"  delay: p50 <4.1us p99 <16.8ms max >4.29s; <2.05us 10; <4.1us 880; <16.8ms 109; >4.29s 1
  throttle: p50 <1.02us p99 <1.02us max <1.02us; <1.02us 7
  outside: p50 <8.19us p99 <8.19us max <8.19us; <8.19us 34" \
		"$(xstats_to -d "$hex" | tail -n 3)"
	is "one line with -oneline" "${LEAF_TEXT//$'\n'/\\}" \
		"$(xstats_to -o "$hex")"
	is "these statistics of a class are all there are" \
		"$(struct_size leaf_xstats)" ${#hex}
	is "tc -s shows them below the class" \
		"class bpshaper 8001:1 dev lo parent 8001: weight 3 "$'\n'"$LEAF_TEXT" \
		"$(message "$(attrs weight 3)" "$hex" -s | grep -v '^$')"
	is "without -s a class is a line" \
		"class bpshaper 8001:1 dev lo parent 8001: weight 3 " \
		"$(message "$(attrs weight 3)" "$hex")"
	is "a rate has the largest unit that fits, and is exact" \
		"rate 8Mbit rate 8000008bit" \
		"$(for rate in 1000000 1000001; do
			xstats_to "$(leaf_before rate)$(int 8 $rate)"
		   done | grep -o 'rate [0-9]*[A-Z]*bit' | paste -sd' ')"
}

test_leaf_json()
{
	local out

	out=$(xstats_to -j "$(leaf_hex)")
	is "JSON has the fields of the struct, each once" \
		"$(struct_members leaf_xstats | sort)" \
		"$(grep -oE '"[a-z_]+":' <<<"$out" | tr -d '":' | sort)"
	is "JSON has the values of the struct, in its order" \
		"1 $(seq $((LEAF_BIG + 2)) $((LEAF_BIG + 11)) | paste -sd' ') $(
			seq 12 21 | paste -sd' ')" \
		"$(members_of leaf_xstats "$out" | head -n 21 | paste -sd' ')"
	is "JSON has every bucket of the histograms of a class" \
		"[0,10,880$(printf ',0%.0s' {1..11}),109$(printf ',0%.0s' {1..8}),1]
[7$(printf ',0%.0s' {1..23})]
[0,0,0,34$(printf ',0%.0s' {1..20})]" \
		"$(members_of leaf_xstats "$out" | tail -n 5 | head -n 3)"
}

test_leaf_lengths()
{
	is "statistics of a class of a newer kernel are cut" "$LEAF_TEXT" \
		"$(xstats_to "$(leaf_hex)ffffffffffffffffffffffff")"
	is "those of an older kernel end in zeros" \
		"${LEAF_ZERO/throttles 0 unthrottles 0/throttles $((LEAF_BIG + 2)) unthrottles $((LEAF_BIG + 3))}" \
		"$(xstats_to "$(leaf_before turns)" |
		   sed 's/children 1$/children 0/')"
	is "they may lack the histograms, and what is behind" \
		"$(sed 's/ floor_in_effect [0-9]*bit//; s/ ce_marks [0-9]*//' <<<"${LEAF_TEXT%$'\n'*$'\n'*$'\n'*}")" \
		"$(xstats_to "$(leaf_before delay_hist)")"
	is "JSON has zeros for what is missing" \
		"21 [$(printf '0%.0s,' {1..23})0]" \
		"$(xstats_to -j "$(leaf_before delay_hist)" |
		   jq -r '"\(.paced_flows) \(.outside_hist)"')"
	is "they may end within a field" 12 \
		"$(xstats_to -j "$(leaf_before rate)0c" | jq .rate)"
	is "they may have a type only" "$LEAF_ZERO" "$(xstats_to "$(int 4 2)")"
}

test_leaf_xstats()
{
	local object=class_

	options_read
	test_leaf_text
	test_leaf_json
	test_leaf_lengths
}
