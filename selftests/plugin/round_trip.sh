# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # $harness, $work: set by test_plugin.sh
#
# Part of test_plugin.sh: random sets of options survive words -> message ->
# JSON or text -> words -> message. random_words.awk makes the sets. SEED=
# repeats a run.

# random_words COUNT: without "rate" of a class, which says more than its value
random_words()
{
	jq -r ".${object}options[]"' | [.word, (.aliases - ["rate"] | join(" ")), .unit, .min, .max,
		.special // "", .usage] | map(tostring) | join("|")' "$UAPI" |
		awk -v count="$1" -v seed="$SEED" -v object="$object" \
			-f "$here/random_words.awk"
}

# json_to_words: JSON has rates in bytes per second, times in ns, no units, and
# all numbers decimal
json_to_words()
{
	jq -r --slurpfile uapi "$UAPI" --arg options "${object}options" '
		def hex: [recurse(if . > 15 then . / 16 | floor else empty end) %
			16 | "0123456789abcdef"[.:. + 1]] | reverse | add;
		($uapi[0][$options] | map({ key: .word, value:
			({ "bytes per second": "Bps", "ns": "ns" }[.unit] // "") }) |
			from_entries) as $suffix |
		to_entries | map(
			if (.value | type) == "string" then "\(.key) \(.value)"
			elif .key == "default" then "\(.key) \(.value | hex)"
			else "\(.key) \(.value)\($suffix[.key])" end) |
		reverse | join(" ")'
}

# round_trip NAME FILE: FILE has, line by line, what $work/hex became
round_trip()
{
	"$harness" "$PLUGIN" "${object}parse" <"$2" >"$work/hex2" 2>&1
	is "their $1, typed again, gives the same messages, SEED=$SEED" "" \
		"$(paste -d'|' "$work/words" "$work/hex" "$work/hex2" |
		   awk -F'|' '$2 != $3' | head -n 3)"
}

test_round_trip()
{
	local n=2000

	random_words $n >"$work/words"
	"$harness" "$PLUGIN" "${object}parse" <"$work/words" >"$work/hex" 2>&1
	is "$n random ${object}option sets are taken, SEED=$SEED" "$n " \
		"$(wc -l <"$work/hex") $(grep -vE '^([0-9a-f]+|nothing)$' \
		   "$work/hex" | head -n 3)"
	is "no word is missing in them" \
		"$(jq -r ".${object}options[].word" "$UAPI" | sort)" \
		"$(options_to -j <"$work/hex" | jq -r 'keys[]' | sort -u)"
	options_to -j <"$work/hex" | json_to_words >"$work/json"
	round_trip "JSON" "$work/json"
	options_to -d <"$work/hex" >"$work/details"
	round_trip "text with details" "$work/details"
	options_to <"$work/hex" >"$work/text"
	"$harness" "$PLUGIN" "${object}parse" <"$work/text" 2>&1 | options_to \
		>"$work/text2" 2>&1
	is "their text, typed again, gives the same text, SEED=$SEED" "" \
		"$(diff "$work/text" "$work/text2" | head -n 4)"
}
