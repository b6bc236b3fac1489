# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Part of test_plugin.sh: statistics of a length that is not ours. The struct
# grows at its end only; what is missing is zero.

# before MEMBER: the statistics of xstats.sh up to this member
before()
{
	local hex

	hex=$(xstats_hex)
	echo "${hex:0:$(struct_before xstats "$1")}"
}

test_cut_xstats()
{
	local no_hists

	is "statistics of a newer kernel are cut" "$XSTATS_DETAILS" \
		"$(xstats_to -d "$(xstats_hex)ffffffffffffffffffffffff")"
	is "statistics of an older kernel end in zeros" \
		"${XSTATS_ZERO/throttles 0 unthrottles 0/throttles 1 unthrottles 2}" \
		"$(xstats_to "$(before drops_pool)")"
	no_hists=$(before delay_hist)
	is "they may lack the histograms" \
		"$(sed -n '1s/ outside .*//p; 2s/ sockets [0-9]* / sockets 0 /p
			3s/ack 29 segments 30/ack 0 segments 0/p; 4p' <<<"$XSTATS_TEXT")
$XSTATS_NO_PACING" "$(xstats_to -d "$no_hists")"
	is "they may end within a field" 1 \
		"$(xstats_to -j "$(before throttles)01" | jq .throttles)"
	is "JSON has zeros for what is missing" \
		"20 [$(printf '0%.0s,' {1..23})0]" \
		"$(xstats_to -j "$no_hists" |
		   jq -r '"\(.purged_packets) \(.lateness_hist)"')"
	is "statistics may be empty" "$XSTATS_ZERO" "$(xstats_to "")"
	is "with details, too" "$XSTATS_ZERO
$XSTATS_NO_PACING" "$(xstats_to -d "")"
}

test_tokens()
{
	local hex

	hex=$(before group_members)
	is "what is not in a group has no tokens to show" 0 \
		"$(xstats_to "$hex$(xstats_group 0 0 5)" | grep -c tokens)"
	is "tokens may be more than 32 bits hold, or none" \
		"  group_members 1 waiting 0 tokens 4294967295b
  group_members 1 waiting 1 tokens -4294967295b
  group_members 2 waiting 0 tokens 0b" \
		"$(for group in "1 0 4294967295" "1 1 -4294967295" "2 0 0"; do
			# shellcheck disable=SC2086 # words
			xstats_to "$hex$(xstats_group $group)"
		   done | grep group)"
}

test_older_xstats()
{
	test_cut_xstats
	test_tokens
}
