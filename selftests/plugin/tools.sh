# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# What the parts of test_plugin.sh share: tc and the harness with the plugin,
# numbers of the options, and attributes in hex. Sourced, never run.

NODEV=bps-none0
# Names, numbers and bounds of the options, and the structs of statistics.
UAPI=$top/selftests/uapi/options.json
TCA_OPTIONS=2
NLA_F_NESTED=$((0x8000))

# What words and attributes are of: empty for a qdisc, class_ for a class.
object=

# tc and harness

stock_tc()
{
	TC_LIB_DIR=${PLUGIN%/*} tc "$@"
}

# tc_verdict WORDS [KIND]: all that tc says about them
tc_verdict()
{
	local -a argv place=(qdisc replace dev "$NODEV" root)
	local out

	[[ -z $object ]] || place=(class replace dev "$NODEV" classid 1:1)
	read -d '' -ra argv <<<"$1"
	out=$(stock_tc "${place[@]}" "${2:-bpshaper}" "${argv[@]}" 2>&1) &&
		echo "status 0"
	echo "$out"
}

# words_to_hex WORDS [DEVICE]: the nest that the plugin makes of them, or its
# refusal
words_to_hex()
{
	tr -s '\n\t' ' ' <<<"$1" | sed '$a\' |
		"$harness" "$PLUGIN" "${object}parse" "${2:-}" 2>&1
}

# hex_to OPTION... HEX: a nest, as words_to_hex() prints it, as text or JSON
hex_to()
{
	local hex=${!#}

	"$harness" "${@:1:$#-1}" "$PLUGIN" "${object}options" \
		<<<"${hex:8}" 2>&1
}

# options_to OPTION... <LINES: the same for lines as words_to_hex() prints them
options_to()
{
	sed 's/^nothing$//; s/^.\{8\}//' |
		"$harness" "$@" "$PLUGIN" "${object}options"
}

# xstats_to OPTION... HEX: statistics as text or JSON
xstats_to()
{
	local hex=${!#}

	"$harness" "${@:1:$#-1}" "$PLUGIN" xstats <<<"$hex" 2>&1
}

# message OPTIONS XSTATS [TC_OPTION...]: a dump, as tc prints it
message()
{
	"$harness" "$PLUGIN" "${object}message" <<<"$1 $2" >"$work/message"
	stock_tc "${@:3}" monitor file "$work/message" 2>&1
}

# Hex

is_little_endian=$(printf '\1\0' | od -An -tu2 | grep -w 1)

# int BYTES VALUE: the number in hex, in the byte order of the machine
int()
{
	local hex swapped=

	printf -v hex '%0*x' $((2 * $1)) "$2"
	hex=${hex: -2 * $1}
	if [[ $is_little_endian ]]; then
		while [[ $hex ]]; do
			swapped=${hex:0:2}$swapped
			hex=${hex:2}
		done
		hex=$swapped
	fi
	printf '%s' "$hex"
}

# attr TYPE HEX: an attribute; the payloads here need no padding
attr()
{
	int 2 $((4 + ${#2} / 2))
	int 2 "$1"
	printf '%s' "$2"
}

# attrs [OPTION VALUE]...: attributes by the words of their options
attrs()
{
	while (($#)); do
		attr "${option_number[$1]}" "$(int "${option_bytes[$1]}" "$2")"
		shift 2
	done
}

nest_hex() { attr $((TCA_OPTIONS | NLA_F_NESTED)) "$1"; }
nest() { nest_hex "$(attrs "$@")"; }

# Options

# By word or alias: number and bytes of the attribute, least and largest value,
# default if it is a number, and the range as a refusal has it.
declare -A option_number option_bytes option_least option_largest option_default
declare -A option_range

options_read()
{
	local word aliases number bytes least largest default range

	option_number=() option_bytes=() option_least=()
	option_largest=() option_default=() option_range=()
	while IFS='|' read -r word aliases number bytes least largest default \
			range; do
		for word in $word $aliases; do
			option_number[$word]=$number
			option_bytes[$word]=$bytes
			option_least[$word]=$least
			option_largest[$word]=$largest
			option_default[$word]=$default
			option_range[$word]=$range
		done
	done < <(options_list)
}

least() { echo "${option_least[$1]}"; }
largest() { echo "${option_largest[$1]}"; }
default() { echo "${option_default[$1]}"; }

# options_list: a line for each option, as options_read() takes it apart
options_list()
{
	jq -r ".${object}options[]"' | [.word, (.aliases | join(" ")), .attr,
		(.type | ltrimstr("u") | tonumber / 8), .min, .max,
		(.default | numbers // ""), .range] | map(tostring) | join("|")' \
		"$UAPI"
}

# Statistics

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

# stats_members STRUCT [MEMBER=VALUE]...: lines of "NAME SIZE VALUE" for all
# members. Those without a value have that of others or, if that is not given,
# of their place: 7 or, with 64 bits, 7000000007.
stats_members()
{
	local -A set=([xstats]=0 [class_xstats]=1 [leaf_xstats]=2)
	local name size value at=0

	set[type]=${set[$1]}
	for value in "${@:2}"; do
		set[${value%%=*}]=${value#*=}
	done
	while read -r name size; do
		((++at))
		value=${set[others]-$((size == 8 ? at * 1000000001 : at))}
		[[ $name != *_hist ]] || value=
		echo "$name $size ${set[$name]-$value}"
	done < <(jq -r ".$1[] | \"\(.name) \(.size)\"" "$UAPI")
}

# stats_hex <MEMBERS: port and address are in hex, and in network byte order
stats_hex()
{
	local name size value

	while read -r name size value; do
		# shellcheck disable=SC2086 # words
		case $name in
		*_hist) hist $value ;;
		peer_port | peer) printf '%-*s' $((2 * size)) "$value" | tr ' ' 0 ;;
		*) int "$size" "$value" ;;
		esac
	done
}

# struct_size NAME: hex digits of all of it, by the compiler
struct_size()
{
	gcc -I "$top" -x c -o "$work/size" - <<-END
	#include <stdio.h>
	#include "sch_bpshaper.h"
	int main(void)
	{
		printf("%zu", 2 * sizeof(struct tc_bpshaper_$1));
	}
	END
	"$work/size"
}
