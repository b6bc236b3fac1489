# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # $work is set by test_plugin.sh
#
# Part of test_plugin.sh: the messages that the plugin makes of good words,
# attribute for attribute, and command lines of tbf.

# sends WORDS [OPTION VALUE]...: these attributes, in this order
sends()
{
	local expected=nothing

	(($# == 1)) || expected=$(nest "${@:2}")
	is "message of: $1" "$expected" "$(words_to_hex "$1")"
	is "tc takes: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
}

send_rates()
{
	local mbit=125000

	sends "rate 1mbit" rate $mbit
	sends "rate 8bit" rate "$(least rate)"
	sends "rate 8" rate "$(least rate)"
	sends "rate 64Tibit" rate "$(largest rate)"
	sends "rate 40gbit" rate 5000000000
	sends "rate unlimited" rate -1
	sends "peakrate 8" peakrate "$(least peakrate)"
	sends "peakrate unlimited" peakrate -1
	sends "peakrate 1mbit rate 999999" rate 124999 peakrate $mbit
	sends "rate unlimited peakrate unlimited limit 1" \
		rate -1 limit 1 peakrate -1
	sends "maxrate 8" maxrate "$(least maxrate)"
	sends "maxrate 64Tibit" maxrate "$(largest maxrate)"
	sends "maxrate unlimited" maxrate -1
}

send_sizes()
{
	local max word

	max=$(largest burst)
	sends "burst 1b" burst "$(least burst)"
	sends "buffer 25k" burst 25600
	sends "maxburst 25kb" burst 25600
	sends "burst ${max}b" burst "$max"
	for word in burst buffer maxburst; do
		sends "$word 6000/16" burst 6000
		sends "$word 20kb/1" burst 20480
	done
	sends "limit 1" limit "$(least limit)"
	sends "limit $max" limit "$(largest limit)"
	sends "memory_limit 64kb" memory_limit "$(least memory_limit)"
	sends "memory_limit $max" memory_limit "$(largest memory_limit)"
	sends "overhead 0 mpu 0" overhead "$(least overhead)" mpu "$(least mpu)"
	sends "overhead 65535 mpu 65535" \
		overhead "$(largest overhead)" mpu "$(largest mpu)"
	sends "share_min 1" share_min "$(least share_min)"
	sends "share_min $max" share_min "$(largest share_min)"
}

send_times()
{
	sends "latency 1ns" latency "$(least latency)"
	sends "latency 10" latency 10000
	sends "latency 1.5ms" latency 1500000
	sends "latency 60s" latency "$(largest latency)"
	sends "ce_threshold 1ns" ce_threshold "$(least ce_threshold)"
	sends "ce_threshold 60s" ce_threshold "$(largest ce_threshold)"
	sends "ce_threshold 250" ce_threshold 250000
	sends "ce_threshold never" ce_threshold -1
}

send_names_and_numbers()
{
	sends "linklayer ethernet" linklayer 1
	sends "linklayer atm" linklayer 2
	sends "linklayer adsl" linklayer 2
	sends "backpressure off" backpressure 0
	sends "backpressure on" backpressure 1
	sends "pacing off" pacing 0
	sends "pacing on" pacing 1
	sends "queues 0" queues 0
	sends "queues 1" queues 1
	# as for all other numbers of tc
	sends "queues 0x1" queues 1
	sends "queues 01" queues 1
	sends "queues 1 rate unlimited" rate -1 queues 1
}

# A minor number is hexadecimal, as everywhere in tc.
send_default()
{
	sends "default 0" default "$(least default)"
	sends "default 20" default 32
	sends "default 0x20" default 32
	sends "default 010" default 16
	sends "default fFfF" default "$(largest default)"
	sends "rate 1mbit r2q 10 default 1" rate 125000 default 1 r2q 10
	sends "r2q 1" r2q "$(least r2q)"
	sends "r2q 010 de 20" default 32 r2q 10
	sends "r 4294967295 debug 0123" r2q "$(largest r2q)"
	is "htb takes an r2q of 0 for 1, and 16 bits of a default, and that is said" \
		"bpshaper: note: \"r2q 0\" counts as 1
bpshaper: note: \"default 15536\" counts as 0x5536
$(nest default $((0x5536)) r2q 1)" "$(words_to_hex "r2q 0 default 15536")"
	is "the last default and r2q count, and that is said" \
		"bpshaper: note: \"default 1\" has no effect: it is repeated
bpshaper: note: \"r2q 5\" has no effect: it is repeated
$(nest default 2 r2q 6)" "$(words_to_hex "default 1 r2q 5 default 2 r2q 6")"
	is "direct_qlen has no effect, and that is said" \
		"bpshaper: note: \"direct_qlen 5\" has no effect: packets of no class have fair queues, bounded by limit
$(nest rate 125000)" \
		"$(words_to_hex "direct_qlen 5 rate 1mbit")"
}

send_many()
{
	local mbit=125000

	sends ""
	sends "backpressure off ce_threshold 4ms share_min 3k default 1
		memory_limit 32mb linklayer adsl mpu 64 overhead 24 pacing on
		maxrate 20mbit peakrate 2mbit latency 10ms burst 25k rate 1mbit" \
		rate $mbit burst 25600 latency 10000000 \
		overhead 24 mpu 64 linklayer 2 maxrate $((20 * mbit)) \
		default 1 peakrate $((2 * mbit)) share_min 3072 \
		memory_limit 33554432 ce_threshold 4000000 pacing 1 \
		backpressure 0
}

# A device whose speed is known: one of the machine's, or in a namespace of our
# own a veth, which says 10000 Mbit/s.
test_percent()
{
	local dev='' file speed=

	for file in /sys/class/net/*/speed; do
		speed=$(cat "$file" 2>/dev/null) || continue
		((speed > 0)) || continue
		dev=${file%/speed} dev=${dev##*/}
		break
	done
	if [[ -z $dev ]]; then
		skip "a percentage is one of the device's speed" \
			"no device with a speed"
		return
	fi
	is "rate 50% is half the speed of $dev" \
		"$(nest rate $((speed * 62500)))" \
		"$(words_to_hex "rate 50%" "$dev")"
	is "rate 0% is refused" "bpshaper: \"rate 0%\": $(range rate)
refused" "$(words_to_hex "rate 0%" "$dev")"
	is "peakrate 80% is that of it" \
		"$(nest peakrate $((speed * 100000)))" \
		"$(words_to_hex "peakrate 80%" "$dev")"
	is "rate 100% is all of it" \
		"$(nest rate $((speed * 125000)))" \
		"$(words_to_hex "rate 100%" "$dev")"
	is "a percentage without a device is refused" \
		'bpshaper: "rate 50%": a percentage needs "dev"
refused' "$(words_to_hex "rate 50%" "")"
}

# The packet of the MTU that leaves at once at the peak rate is not an option.
without_minburst()
{
	sed -E '/^bpshaper: note: "(mtu|minburst) .*" has no effect: /d'
}

# as_tbf OPTIONS JSON: tbf takes them, we take them, and they mean JSON
as_tbf()
{
	is "tbf takes: $1" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "$1" tbf)"
	is "so do we: $1" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "$1" | without_minburst)"
	is "and with the same meaning: $1" "$2" \
		"$(hex_to -j "$(words_to_hex "$1" | without_minburst)")"
}

# From tbf(8), its usage text, and what people write.
test_tbf()
{
	as_tbf "rate 0.5mbit burst 5kb latency 70ms peakrate 1mbit minburst 1540" \
		'{"rate":62500,"burst":5120,"latency":70000000,"peakrate":125000}'
	as_tbf "rate 200mbit burst 20kb limit 200k" \
		'{"rate":25000000,"burst":20480,"limit":204800}'
	as_tbf "limit 10000 burst 6000/16 rate 1mbit" \
		'{"rate":125000,"burst":6000,"limit":10000}'
	as_tbf "rate 220kbit latency 50ms burst 1540" \
		'{"rate":27500,"burst":1540,"latency":50000000}'
	as_tbf "rate 1mbit burst 32kbit latency 400ms" \
		'{"rate":125000,"burst":4096,"latency":400000000}'
	as_tbf "rate 1mbit buffer 1600 limit 3000" \
		'{"rate":125000,"burst":1600,"limit":3000}'
	as_tbf "rate 40gbit maxburst 1mb limit 10mb" \
		'{"rate":5000000000,"burst":1048576,"limit":10485760}'
	as_tbf "rate 34gbit peakrate 100gbit mtu 9000/16 burst 1mb latency 1000" \
		'{"rate":4250000000,"burst":1048576,"latency":1000000,"peakrate":12500000000}'
	as_tbf "rate 10mbit burst 10kb/8 latency 10ms peakrate 11mbit mtu 2000
		mpu 64 overhead 18 linklayer atm" \
		'{"rate":1250000,"burst":10240,"latency":10000000,"overhead":18,"mpu":64,"linklayer":"atm","peakrate":1375000}'
	as_tbf "rate 2mbit burst 3k limit 9k overhead 14 linklayer adsl" \
		'{"rate":250000,"burst":3072,"limit":9216,"overhead":14,"linklayer":"atm"}'
	as_tbf "rate 2mbit burst 3k limit 9k linklayer ethernet" \
		'{"rate":250000,"burst":3072,"limit":9216,"linklayer":"ethernet"}'
	as_tbf "rate 2mbit b 3k li 9k o 4 lin eth p 3mbit mtu 2k" \
		'{"rate":250000,"burst":3072,"limit":9216,"overhead":4,"linklayer":"ethernet","peakrate":375000}'
	as_tbf "rate 2mbit burst 3k la 9ms" \
		'{"rate":250000,"burst":3072,"latency":9000000}'
	is "we take what tbf dumps" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "rate 500Kbit burst 5Kb/8 mpu 0b peakrate 1Mbit mtu 1540b/8 lat 70ms linklayer ethernet" |
		   without_minburst)"
	is "a minburst has no effect, and that is said" \
		"bpshaper: note: \"minburst 1k\" has no effect: one packet of the MTU leaves at once at the peakrate
$(nest rate 125000)" "$(words_to_hex "rate 1mbit minburst 1k")"
}

test_messages()
{
	send_rates
	send_sizes
	send_times
	send_names_and_numbers
	send_default
	send_many
	test_percent
	test_tbf
}
