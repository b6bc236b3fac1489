# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Part of test_plugin.sh: statistics of older kernels, which are shorter, and
# of newer ones, which are longer. The struct grows at its end only; what is
# missing is zero.

# before MEMBER: the statistics of xstats.sh up to this member
before()
{
	local hex

	hex=$(xstats_hex)
	echo "${hex:0:$(struct_before xstats "$1")}"
}

# without_turns TEXT: of a kernel that has no turns
without_turns() { sed 's/ outside [0-9]* turns [0-9]*//; /^  outside: /d' <<<"$1"; }

# without_sockets TEXT: of a kernel that has no number of sockets either
without_sockets() { without_turns "$1" | sed 's/) sockets [0-9]*/)/'; }

# without_drops TEXT: of a kernel before drops_ack, too
without_drops()
{
	without_sockets "$1" | sed 's/ack [0-9]* segments [0-9]*/ack 0 segments 0/'
}

# without_group TEXT: of a kernel before groups, too
without_group() { without_drops "$1" | sed '/^  group_members /d'; }

# without_pacing TEXT: of a kernel before pacing, too
without_pacing()
{
	without_group "$1" | sed 's/horizon [0-9]*/horizon 0/; /^  paced_waits /d'
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
		"$(without_pacing "${XSTATS_TEXT%$'\n'*$'\n'*$'\n'*}")
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

test_xstats_before_pacing()
{
	local hex

	hex=$(before paced_waits)
	is "they may lack pacing" "$(without_pacing "$XSTATS_TEXT")" \
		"$(xstats_to "$hex")"
	is "with details that is zero" \
		"$XSTATS_NO_PACING" "$(xstats_to -d "$hex" | grep paced_waits)"
	is "and in JSON" "[0,0,0,0,0]" \
		"$(xstats_to -j "$hex" |
		   jq -c '[.paced_waits, .horizon_caps, .drops_horizon,
			   .ce_marks, .paced_flows]')"
	is "they may end within it" \
		"  paced_waits 21 paced_flows 0 horizon_caps 22 ce_marks 0" \
		"$(xstats_to "$(before drops_horizon)" | grep paced_waits)"
}

test_xstats_before_drops()
{
	local hex

	hex=$(before sockets)
	is "they may lack the sockets" "$(without_sockets "$XSTATS_TEXT")" \
		"$(xstats_to "$hex")"
	is "with details, too" "$(without_sockets "$XSTATS_DETAILS")" \
		"$(xstats_to -d "$hex")"
	is "and JSON has a zero" "15 0" "$(xstats_to -j "$hex" |
		jq -r '"\(.socket_flows) \(.sockets)"')"
	is "they may lack the last drops" "$(without_drops "$XSTATS_TEXT")" \
		"$(xstats_to "$(before drops_ack)")"
}

# A kernel with pacing and without groups has padding where group_members is
# now.
test_xstats_before_groups()
{
	local hex group

	hex=$(before group_members)
	is "they may lack groups" "$(without_group "$XSTATS_TEXT")" \
		"$(xstats_to "$hex$(int 4 0)")"
	is "with details nothing is said of them either" 0 \
		"$(xstats_to -d "$hex$(int 4 0)" | grep -c group)"
	is "and JSON has zeros" "[0,0,0]" \
		"$(xstats_to -j "$hex$(int 4 0)" |
		   jq -c '[.group_members, .group_waiting, .group_tokens]')"
	is "what is not in a group has no tokens to show" \
		"$(without_group "$XSTATS_TEXT")" \
		"$(xstats_to "$hex$(xstats_group 0 0 5)")"
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
	test_xstats_before_pacing
	test_xstats_before_drops
	test_xstats_before_groups
}
