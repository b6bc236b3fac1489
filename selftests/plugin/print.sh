# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # $harness, $work: set by test_plugin.sh
#
# Part of test_plugin.sh: options as text and as JSON, by the harness and by
# tc. What is printed can be typed again. Odd and garbled attributes do no
# harm.

prints()
{
	local hex who="qdisc bpshaper 8001: dev lo root"

	[[ -z $object ]] || who="class bpshaper 8001:1 dev lo parent 8001:"
	hex=$(words_to_hex "$1")
	is "text of: $1" "$2" "$(hex_to "$hex")"
	is "JSON of: $1" "$3" "$(hex_to -j "$hex")"
	is "tc monitor shows: $1" "$who $2" \
		"$(message "${hex:8}" -)"
}

test_options_print()
{
	prints "rate 200mbit burst 25k latency 10ms memory_limit 32mb" \
		"rate 200Mbit burst 25Kb latency 10ms memory_limit 32Mb " \
		'{"rate":25000000,"burst":25600,"latency":10000000,"memory_limit":33554432}'
	prints "rate unlimited limit 1mb" "rate unlimited limit 1Mb " \
		'{"rate":"unlimited","limit":1048576}'
	prints "rate 64Tibit" "rate 64Tibit " '{"rate":8796093022208}'
	prints "rate 128kbit" "rate 128Kbit " '{"rate":16000}'
	prints "rate 40gbit" "rate 40Gbit " '{"rate":5000000000}'
	prints "rate 1000001Bps" "rate 8000008bit " '{"rate":1000001}'
	prints "latency 1500us" "latency 1500us " '{"latency":1500000}'
	prints "latency 60s" "latency 60s " '{"latency":60000000000}'
	prints "latency 1234567ns" "latency 1234567ns " '{"latency":1234567}'
	prints "limit 4294967295" "limit 4294967295b " '{"limit":4294967295}'
	prints "limit 25590b" "limit 25590b " '{"limit":25590}'
	prints "rate 1mbit peakrate 2mbit overhead 24 mpu 64 linklayer atm" \
		"rate 1Mbit overhead 24b mpu 64b linklayer atm peakrate 2Mbit " \
		'{"rate":125000,"overhead":24,"mpu":64,"linklayer":"atm","peakrate":250000}'
	prints "backpressure off" "backpressure off " '{"backpressure":"off"}'
	prints "pacing off" "pacing off " '{"pacing":"off"}'
	prints "r2q 100" "r2q 100 " '{"r2q":100}'
	prints "maxrate 20mbit" "maxrate 20Mbit " '{"maxrate":2500000}'
	prints "ce_threshold 1ms" "ce_threshold 1ms " '{"ce_threshold":1000000}'
	prints "ce_threshold never" "ce_threshold never " '{"ce_threshold":"never"}'
	prints "queues 1" "queues 1 " '{"queues":1}'
	prints "default 20" "default 0x20 " '{"default":32}'
}

# quiet WORDS: text has them with details only, JSON always
quiet()
{
	local hex

	hex=$(words_to_hex "rate 1mbit $1")
	is "text does without $1" "rate 1Mbit " "$(hex_to "$hex")"
	is "details have $1" "rate 1Mbit $1 " "$(hex_to -d "$hex")"
	is "JSON has $1" "$2" "$(hex_to -j "$hex" | jq -c "del(.rate)")"
}

# quiet_default TEXT: of an option with its default, which is a number in JSON
quiet_default() { quiet "$1" "{\"${1% *}\":$(default "${1% *}")}"; }

test_details()
{
	quiet "peakrate unlimited" '{"peakrate":"unlimited"}'
	quiet_default "overhead 0b"
	quiet_default "mpu 0b"
	quiet "linklayer ethernet" '{"linklayer":"ethernet"}'
	quiet "backpressure on" '{"backpressure":"on"}'
	quiet "pacing on" '{"pacing":"on"}'
	quiet "r2q 10" '{"r2q":10}'
	quiet "maxrate unlimited" '{"maxrate":"unlimited"}'
	is "tc -d asks for details" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit overhead 0b " \
		"$(message "$(attrs rate 125000 overhead 0)" - -d)"
}

# Some kernels dump both when latency sets the limit.
test_latency_over_limit()
{
	local hex

	hex=$(nest rate 125000 limit 3000 latency 2000000)
	is "text has the cause of the limit only" "rate 1Mbit latency 2ms " \
		"$(hex_to "$hex")"
	is "so it has with details, to be typed again" \
		"rate 1Mbit latency 2ms " "$(hex_to -d "$hex")"
	is "JSON has limit and latency" \
		'{"rate":125000,"limit":3000,"latency":2000000}' \
		"$(hex_to -j "$hex")"
}

# short WORD: its attribute with 4 bytes instead of 8
short() { attr "${option_number[$1]}" "$(int 4 5)"; }

test_odd_attributes()
{
	local hex

	hex=$(nest_hex "$(short rate)$(short latency)$(short peakrate)$(
	      attrs burst 7)$(attr 99 "$(int 4 1)")")
	is "attributes that are too short or unknown are passed over" \
		'{"burst":7}' "$(hex_to -j "$hex")"
	is "the text of a peak rate that is too short is none" "burst 7b " \
		"$(hex_to "$(nest_hex "$(attrs burst 7)$(short peakrate)")")"
	is "a linklayer that we do not know is called that" \
		'{"linklayer":"unknown"}' \
		"$(hex_to -j "$(nest linklayer 9)")"
	is "no attributes print nothing" "" "$(hex_to "$(nest)")"
	is "a dump without options prints nothing" \
		"qdisc bpshaper 8001: dev lo root " "$(message - -)"
}

# Lengths and payloads at random: a crash or a message is a failure.
test_garbage()
{
	local i j n hex status mode

	for ((i = 0; i < 500; i++)); do
		hex=
		n=$((RANDOM % 24))
		for ((j = 0; j < n; j++)); do
			((j % 4)) && printf -v byte %02x $((RANDOM % 256)) ||
				printf -v byte %02x $((RANDOM % 16))
			hex+=$byte
		done
		echo "$hex"
	done >"$work/garbage"
	for mode in options class_options; do
		"$harness" -j "$PLUGIN" $mode <"$work/garbage" 2>/dev/null |
			jq -c . >"$work/garbage.out" 2>&1
		status="${PIPESTATUS[*]}"
		is "500 garbled $mode print as valid JSON, SEED=$SEED" \
			"0 0 500" "$status $(wc -l <"$work/garbage.out")"
	done
	# As of a qdisc, of a flow, of a class, and of what is not known.
	sed -E 's/^(.{2}).{6}/\1000000/
		1~4s/^../00/; 2~4s/^../01/; 3~4s/^../02/' \
		"$work/garbage" >"$work/garbage.xstats"
	"$harness" -d "$PLUGIN" xstats <"$work/garbage.xstats" \
		>/dev/null 2>&1
	is "500 garbled statistics do no harm, SEED=$SEED" 0 $?
	"$harness" -j "$PLUGIN" xstats <"$work/garbage.xstats" 2>/dev/null |
		jq -c . >"$work/garbage.out" 2>&1
	status="${PIPESTATUS[*]}"
	is "they print as valid JSON, SEED=$SEED" "0 0 500" \
		"$status $(wc -l <"$work/garbage.out")"
}

test_print()
{
	test_options_print
	test_details
	test_latency_over_limit
	test_odd_attributes
	test_garbage
}
