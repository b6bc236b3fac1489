#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# test_plugin.sh - what the tc plugin reads and writes, without the kernel module
#
#     words --> [ tc of this machine + plugin ] --> one line of refusal
#                                               --> "Cannot find device"
#     words --> [ harness + plugin ] --> TCA_OPTIONS in hex --> text, JSON
#     hex   --> [ tc monitor file + plugin ] --> text
#
#  1. tc loads the plugin and finds every symbol that the plugin asks for; a tc that
#     lacks one gets a clear refusal. Our declarations are those of iproute2.
#  2. help has every option and alias, and they are those of the uAPI.
#  3. Bad words give one line with all that is wrong, and no message is made.
#  4. Good words give exactly the attributes that they mean.
#  5. A command line of tbf works with one word replaced.
#  6. Attributes print as text that can be typed again, and as JSON.
#  7. Statistics of the qdisc and of classes print whatever their length is.
#  8. Any set of options survives words -> message -> JSON or text -> words ->
#     message.
#
# Refusals are tried on a device that does not exist. tc parses the options
# first and looks for the device then, so nothing ever reaches a qdisc.
#
# PLUGIN        the plugin; default: ../../q_bpshaper.so
# IPROUTE2_SRC  sources of iproute2; default: what tools/iproute2-src finds
# SEED          of the random option sets
#
# Output is TAP; the exit status is 0 if all tests passed.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
PLUGIN=$(realpath "${PLUGIN:-$top/q_bpshaper.so}")
SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
NODEV=bps-none0
TCA_OPTIONS=2
NLA_F_NESTED=$((0x8000))

tests=0
failures=0

bail() {
	echo "Bail out! $*"
	exit 1
}

# is NAME EXPECTED ACTUAL
is() {
	local name=${1//$'\n'/ }

	name=${name//$'\t'/}
	tests=$((tests + 1))
	if [[ $2 == "$3" ]]; then
		echo "ok $tests - $name"
		return
	fi
	failures=$((failures + 1))
	echo "not ok $tests - $name"
	echo "expected: $2" | sed 's/^/# /'
	echo "measured: $3" | sed 's/^/# /'
}

skip() {
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# Preparation

packages_require() {
	local -a missing=()

	command -v gcc >/dev/null || missing+=(gcc libc6-dev)
	command -v make >/dev/null || missing+=(make)
	command -v jq >/dev/null || missing+=(jq)
	((${#missing[@]})) || return 0
	((EUID == 0)) || bail "install ${missing[*]}"
	apt-get install -y --no-install-recommends "${missing[@]}" \
		>"$work/apt.log" 2>&1 </dev/null ||
		bail "cannot install ${missing[*]}: $(tail -n 1 "$work/apt.log")"
}

# Tools

stock_tc() {
	TC_LIB_DIR=${PLUGIN%/*} tc "$@"
}

# tc_verdict WORDS [KIND]: all that tc says about them
tc_verdict() {
	local -a argv
	local out

	read -d '' -ra argv <<<"$1"
	out=$(stock_tc qdisc replace dev "$NODEV" root "${2:-bpshaper}" \
		"${argv[@]}" 2>&1) &&
		echo "status 0"
	echo "$out"
}

words_to_hex() {
	tr -s '\n\t' ' ' <<<"$1" | sed '$a\' |
		"$harness" "$PLUGIN" parse "${2:-}" 2>&1
}

# hex_to OPTION... HEX: HEX is a nest as words_to_hex() gives it
hex_to() {
	local hex=${!#}

	"$harness" "${@:1:$#-1}" "$PLUGIN" options <<<"${hex:8}" 2>&1
}

# options_to OPTION... <LINES: the same for lines as words_to_hex() prints them
options_to() {
	sed 's/^nothing$//; s/^.\{8\}//' | "$harness" "$@" "$PLUGIN" options
}

xstats_to() {
	local hex=${!#}

	"$harness" "${@:1:$#-1}" "$PLUGIN" xstats <<<"$hex" 2>&1
}

is_little_endian() {
	[[ $(printf '\1\0' | od -An -tu2 | tr -d ' ') == 1 ]]
}

# int BYTES VALUE: the number in hex, in the byte order of the machine
int() {
	local hex swapped=

	printf -v hex '%0*x' $((2 * $1)) "$2"
	if is_little_endian; then
		while [[ $hex ]]; do
			swapped=${hex:0:2}$swapped
			hex=${hex:2}
		done
		hex=$swapped
	fi
	printf '%s' "$hex"
}

# attr TYPE HEX: an attribute; the payloads here need no padding
attr() {
	int 2 $((4 + ${#2} / 2))
	int 2 "$1"
	printf '%s' "$2"
}

u32() { attr "$1" "$(int 4 "$2")"; }
u64() { attr "$1" "$(int 8 "$2")"; }
nest() { attr $((TCA_OPTIONS | NLA_F_NESTED)) "$1"; }

# Numbers of the attributes; they are fixed for ever.
RATE64=2
BURST=3
LIMIT=4
LATENCY=5
MEMORY_LIMIT=6
QUANTUM=7
PEAKRATE64=8
MTU=9
OVERHEAD=10
MPU=11
LINKLAYER=12
SHARE_MIN=13
SHARE_MAX=14
BACKPRESSURE=15
PACING=16
MAXRATE64=17
LOW_RATE_THRESHOLD64=18
HORIZON=19
HORIZON_DROP=20
CE_THRESHOLD=21
TIMER_SLACK=22
GROUP=23

# The options, in the order in which they are sent and printed.
WORDS="rate burst limit latency peakrate mtu overhead mpu linklayer memory_limit
quantum share_min share_max backpressure pacing maxrate low_rate_threshold
horizon horizon_drop ce_threshold timer_slack group"

# 1. Loading

test_symbols() {
	local missing

	missing=$(comm -23 \
		<(nm -D --undefined-only "$PLUGIN" |
		  awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort) \
		<(nm -D --defined-only "$(command -v tc)" |
		  awk '{ print $3 }' | sort))
	is "tc exports every symbol that the plugin needs" "" "$missing"
}

# 2. Help

uapi_options() {
	sed -n 's/^\tTCA_BPSHAPER_\([A-Z_0-9]*\),$/\1/p' "$top/sch_bpshaper.h" |
		grep -vxE 'UNSPEC|PAD' | sed 's/64$//' | tr '[:upper:]' '[:lower:]'
}

# A tc without print_nl(), as far as the plugin can see.
test_mismatch() {
	mkdir "$work/other"
	sed 's/\bprint_nl\b/print_nx/g' "$PLUGIN" >"$work/other/q_bpshaper.so"
	is "a tc that lacks a helper is refused in one line" \
		'bpshaper: this tc has no print_nx(): the plugin is for another release of iproute2' \
		"$(PLUGIN=$work/other/q_bpshaper.so tc_verdict "rate 1mbit")"
	is "every helper is looked for" "" "$(comm -23 \
		<(nm -D --undefined-only "$PLUGIN" |
		  awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort) \
		<({ readelf -p .rodata "$PLUGIN"; echo show_details; } |
		  awk '{ print $NF }' | sort -u))"
}

# At once with the headers of this machine's iproute2, so differences do not compile.
test_declarations() {
	is "tools/iproute2 declares what iproute2 does" "" \
		"$(gcc -std=gnu11 -D_GNU_SOURCE -Wall -fsyntax-only \
			-I"$IPROUTE2_SRC/include" -I"$IPROUTE2_SRC/include/uapi" \
			-I"$IPROUTE2_SRC/tc" "$here/declarations.c" 2>&1)"
}

test_help() {
	local out word usage

	out=$(tc_verdict help)
	usage=${out%%$'\n\n'*}
	is "help shows the usage" \
		"Usage: ... bpshaper [ rate RATE ] [ burst SIZE[/CELL] ]" \
		"${out%%$'\n'*}"
	is "help is also there after other words" "$out" \
		"$(tc_verdict "rate 1mbit help")"
	is "the options are those of the uAPI" "$(uapi_options | sort)" \
		"$(grep -oE '^[a-z_]+' <<<"$out" | sort)"
	for word in $WORDS; do
		is "the usage has $word" 1 "$(grep -cw "$word" <<<"$usage")"
		is "help tells unit, meaning, range and default of $word" 3 \
			"$(sed -n "/^${word}[ |][^:]*: ./,/^\$/p" <<<"$out" |
			   grep -cE '^[a-z_]+[ |][^ :]+: .|^  (range|default): +.')"
	done
	is "help has the aliases of burst" "buffer maxburst" "$(aliases burst)"
	is "help has the aliases of mtu" "minburst" "$(aliases mtu)"
}

# aliases WORD: as help tells them; uses $out of the caller
aliases() {
	sed -n "/^$1 [A-Z]/,/^\$/s/^  also: *//p" <<<"$out" | paste -sd' '
}

# 3. Refusals

RATE_RANGE="must be 8bit to 64Tibit, up to 100% of the device's speed, or unlimited"
SIZE_RANGE="must be 1b to 4294967295b"
BUCKET_RANGE="$SIZE_RANGE, a cell a power of 2"

refused() {
	is "tc refuses: $1" "bpshaper: $2" "$(tc_verdict "$1")"
	is "no message is made of: $1" "bpshaper: $2
refused" "$(words_to_hex "$1")"
}

test_refusals() {
	local value word

	for word in rate peakrate maxrate; do
		for value in 0bit 7bit 0 -8bit -1mbit +1mbit -0 nan inf 1e999mbit \
			     x 10foo 64.001Tibit 18446744073709551615Bps 101% \
			     50%% 50%x 0x Unlimited unlim; do
			refused "$word $value" "\"$word $value\": $RATE_RANGE"
		done
	done
	for word in burst buffer maxburst mtu minburst; do
		for value in 0 0.5 -1 4294967296 4gb 1e30 nan inf x 1kB/ \
			     1kB/3 1kB/0 1kB/8b 1kB/8/8 /8 0/8; do
			refused "$word $value" \
				"\"$word $value\": $BUCKET_RANGE"
		done
	done
	for word in limit share_min share_max; do
		for value in 0 0.5 -1 4294967296 4gb 1e30 nan inf x 1kB/8; do
			refused "$word $value" "\"$word $value\": $SIZE_RANGE"
		done
	done
	for word in overhead mpu; do
		for value in 65536 64kb -1 nan x 20/8; do
			refused "$word $value" \
				"\"$word $value\": must be 0b to 65535b"
		done
	done
	for value in 0 0.5ns -1ms 60000000001ns 61s 1e30s inf 1parsec; do
		refused "latency $value" "\"latency $value\": must be 1ns to 60s"
	done
	for value in 0 65535 4gb -1 x; do
		refused "memory_limit $value" \
			"\"memory_limit $value\": must be 64kb to 4294967295b"
	done
	for value in 0 255 1048577 -1 x; do
		refused "quantum $value" \
			"\"quantum $value\": must be 256b to 1Mb"
	done
	for value in 1 ethernets token unspec; do
		refused "linklayer $value" \
			"\"linklayer $value\": must be ethernet, atm or adsl"
	done
	for word in backpressure pacing; do
		for value in 1 0 true o onn ON; do
			refused "$word $value" \
				"\"$word $value\": must be on or off"
		done
	done
	for value in unlimited -1 nan 64.001Tibit 1e30 x; do
		refused "low_rate_threshold $value" "$(printf '%s %s' \
			"\"low_rate_threshold $value\": must be 0bit to 64Tibit," \
			"up to 100% of the device's speed")"
	done
	# Bare numbers are in us: none of them may come out as ns.
	for value in 0 0.5ns 3600000000001ns 3601s 60min never \
		     3600000001 60000000001 3600000000001 1e30; do
		refused "horizon $value" \
			"\"horizon $value\": must be 1ns to 3600s"
	done
	for value in -1ns 60000000001ns 61s 60000001 1e30 Never nev unlimited \
		     18446744073709551615ns; do
		refused "ce_threshold $value" \
			"\"ce_threshold $value\": must be 0ns to 60s, or never"
	done
	for value in -1 4294967296ns 4294968 5s never; do
		refused "timer_slack $value" \
			"\"timer_slack $value\": must be 0ns to 4294967295ns"
	done
	# An overflow must not come out as another group, nor as none.
	for value in 4294967296 4294967297 18446744073709551616 1e30 -1 -0 +1 1x 0x \
		     08 1.0 x none; do
		refused "group $value" \
			"\"group $value\": must be 0 to 4294967295"
	done
}

test_refused_words() {
	refused "foo" '"foo": unknown option, try help'
	refused "rate 1mbit foo 3" '"foo": unknown option, try help'
	refused "rat 1mbit" '"rat": unknown option, try help'
	refused "mem 1m" '"mem": unknown option, try help'
	refused "mt 1k" '"mt": unknown option, try help'
	refused "minb 1k" '"minb": unknown option, try help'
	refused "back on" '"back": unknown option, try help'
	refused "rate" '"rate": must be followed by RATE'
	refused "rate 1mbit latency" '"latency": must be followed by TIME'
	refused "rate 1mbit quantum" '"quantum": must be followed by SIZE'
	refused "buffer" '"buffer": must be followed by SIZE[/CELL]'
	refused "linklayer" '"linklayer": must be followed by TYPE'
	refused "backpressure" '"backpressure": must be followed by on|off'
	refused "pacing" '"pacing": must be followed by on|off'
	refused "horizon" '"horizon": must be followed by TIME'
	refused "group" '"group": must be followed by NUMBER'
	refused "grou 1" '"grou": unknown option, try help'
	refused "horizon_drop on" '"on": unknown option, try help'
	refused "horizon_cap 1" '"1": unknown option, try help'
	refused "horizon_" '"horizon_": unknown option, try help'
	is "tc refuses a percentage of an unknown speed" \
		'bpshaper: "rate 10%": the speed of the device is unknown' \
		"$(tc_verdict "rate 10%")"
	is "an empty word is unknown" \
		'bpshaper: "": unknown option, try help' \
		"$(stock_tc qdisc add dev "$NODEV" root bpshaper "" 5 2>&1)"
}

test_contradictions() {
	local both="exclude each other" pair

	for pair in rate:1mbit burst:2k buffer:2k maxburst:2k limit:1k \
		    latency:1ms peakrate:1mbit mtu:2k minburst:2k overhead:4 \
		    mpu:64 linklayer:atm memory_limit:1m quantum:1k \
		    share_min:1k share_max:1k backpressure:off pacing:off \
		    maxrate:1mbit low_rate_threshold:0 horizon:1s \
		    ce_threshold:never timer_slack:0 group:1; do
		pair=${pair/:/ }
		refused "$pair $pair" "\"$pair\" repeats \"$pair\""
	done
	refused "rate unlimited rate 1bit" '"rate 1bit" repeats "rate unlimited"'
	refused "burst 1k buffer 2k" '"buffer 2k" repeats "burst 1k"'
	refused "maxburst 1k burst 2k" '"burst 2k" repeats "maxburst 1k"'
	refused "mtu 1k minburst 2k/8" '"minburst 2k/8" repeats "mtu 1k"'
	refused "limit 1k lim 2k" '"lim 2k" repeats "limit 1k"'
	refused "overhead 0 overhead 0" '"overhead 0" repeats "overhead 0"'
	refused "horizon_drop horizon_drop" '"horizon_drop" repeats "horizon_drop"'
	refused "horizon_drop rate 1mbit horizon_cap" \
		'"horizon_cap" repeats "horizon_drop"'

	refused "limit 1k latency 1ms" "\"limit 1k\" and \"latency 1ms\" $both"
	refused "lat 1ms rate 1mbit limit 1k" \
		"\"limit 1k\" and \"lat 1ms\" $both"
	refused "rate unlimited latency 1ms" \
		'"latency 1ms" needs a rate, not "rate unlimited"'
	refused "peakrate 1mbit rate 1mbit" \
		'"peakrate 1mbit" needs a rate below it, not "rate 1mbit"'
	refused "rate 1000001 peakrate 1mbit" \
		'"peakrate 1mbit" needs a rate below it, not "rate 1000001"'
	refused "rate unlimited peakrate 64Tibit" \
		'"peakrate 64Tibit" needs a rate below it, not "rate unlimited"'
	refused "share_max 1k share_min 1025" \
		'"share_min 1025" is above "share_max 1k"'
	refused "group 1 peakrate 2mbit rate 1mbit" \
		"\"group 1\" and \"peakrate 2mbit\" $both"
	refused "peakrate 2mbit group 1" \
		"\"group 1\" and \"peakrate 2mbit\" $both"
	refused "rate unlimited group 0x7" \
		'"group 0x7" needs a rate, not "rate unlimited"'
}

# What is wrong is told in one go, in one line.
test_all_at_once() {
	refused "limit 1k latency 9ms burst 1k maxburst 2k rate 2mbit peakrate 1mbit
		mtu 5 share_min 2k share_max 1k minburst 6" \
		"$(paste -sd' ' <<-'END'
		"maxburst 2k" repeats "burst 1k"; "minburst 6" repeats "mtu 5";
		"limit 1k" and "latency 9ms" exclude each other;
		"peakrate 1mbit" needs a rate below it, not "rate 2mbit";
		"share_min 2k" is above "share_max 1k"
		END
		)"
	refused "rate unlimited peakrate 1mbit latency 1ms" \
		'"latency 1ms" needs a rate, not "rate unlimited"; "peakrate 1mbit" needs a rate below it, not "rate unlimited"'
	refused "rate unlimited group 1 peakrate 1mbit" \
		'"peakrate 1mbit" needs a rate below it, not "rate unlimited"; "group 1" and "peakrate 1mbit" exclude each other; "group 1" needs a rate, not "rate unlimited"'
	refused "rate 0 burst 0 quantum 1 linklayer x mpu" \
		"$(paste -sd' ' <<-END
		"rate 0": $RATE_RANGE; "burst 0": $BUCKET_RANGE;
		"quantum 1": must be 256b to 1Mb;
		"linklayer x": must be ethernet, atm or adsl;
		"mpu": must be followed by SIZE
		END
		)"
	refused "limit 0 latency 1ms peakrate 0 rate 1mbit" \
		"$(paste -sd' ' <<-END
		"limit 0": $SIZE_RANGE; "peakrate 0": $RATE_RANGE;
		"limit 0" and "latency 1ms" exclude each other
		END
		)"
	refused "quantum 1 foo 3 bar 4" \
		'"quantum 1": must be 256b to 1Mb; "foo": unknown option, try help'
	is "help ends the line of what is wrong" \
		"bpshaper: \"quantum 1\": must be 256b to 1Mb
Usage: ..." "$(tc_verdict "quantum 1 help" | head -n 2 | sed 's/\.\.\. .*/.../')"
}

# 4. Messages

sends() {
	is "message of: $1" "$2" "$(words_to_hex "$1")"
	is "tc takes: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
}

test_messages() {
	local mbit=125000 max=4294967295 word

	sends "" nothing
	sends "rate 1mbit" "$(nest "$(u64 $RATE64 $mbit)")"
	sends "rate 8bit" "$(nest "$(u64 $RATE64 1)")"
	sends "rate 8" "$(nest "$(u64 $RATE64 1)")"
	sends "rate 64Tibit" "$(nest "$(u64 $RATE64 $((1 << 43)))")"
	sends "rate 40gbit" "$(nest "$(u64 $RATE64 5000000000)")"
	sends "rate unlimited" "$(nest "$(u64 $RATE64 -1)")"
	sends "burst 1b" "$(nest "$(u32 $BURST 1)")"
	sends "buffer 25k" "$(nest "$(u32 $BURST 25600)")"
	sends "maxburst 25kb" "$(nest "$(u32 $BURST 25600)")"
	sends "burst ${max}b" "$(nest "$(u32 $BURST $max)")"
	sends "limit 1" "$(nest "$(u32 $LIMIT 1)")"
	sends "limit $max" "$(nest "$(u32 $LIMIT $max)")"
	sends "latency 1ns" "$(nest "$(u64 $LATENCY 1)")"
	sends "latency 10" "$(nest "$(u64 $LATENCY 10000)")"
	sends "latency 1.5ms" "$(nest "$(u64 $LATENCY 1500000)")"
	sends "latency 60s" "$(nest "$(u64 $LATENCY 60000000000)")"
	sends "memory_limit 64kb" "$(nest "$(u32 $MEMORY_LIMIT 65536)")"
	sends "memory_limit $max" "$(nest "$(u32 $MEMORY_LIMIT $max)")"
	sends "quantum 256" "$(nest "$(u32 $QUANTUM 256)")"
	sends "quantum 1mb" "$(nest "$(u32 $QUANTUM 1048576)")"
	for word in mtu minburst; do
		sends "$word 1" "$(nest "$(u32 $MTU 1)")"
		sends "$word ${max}b/2048" "$(nest "$(u32 $MTU $max)")"
	done
	for word in burst buffer maxburst; do
		sends "$word 6000/16" "$(nest "$(u32 $BURST 6000)")"
		sends "$word 20kb/1" "$(nest "$(u32 $BURST 20480)")"
	done
	sends "peakrate 8" "$(nest "$(u64 $PEAKRATE64 1)")"
	sends "peakrate unlimited" "$(nest "$(u64 $PEAKRATE64 -1)")"
	sends "peakrate 1mbit rate 999999" \
		"$(nest "$(u64 $RATE64 124999)$(u64 $PEAKRATE64 $mbit)")"
	sends "rate unlimited peakrate unlimited limit 1" \
		"$(nest "$(u64 $RATE64 -1)$(u32 $LIMIT 1)$(u64 $PEAKRATE64 -1)")"
	sends "overhead 0 mpu 0" "$(nest "$(u32 $OVERHEAD 0)$(u32 $MPU 0)")"
	sends "overhead 65535 mpu 65535" \
		"$(nest "$(u32 $OVERHEAD 65535)$(u32 $MPU 65535)")"
	sends "linklayer ethernet" "$(nest "$(u32 $LINKLAYER 1)")"
	sends "linklayer atm" "$(nest "$(u32 $LINKLAYER 2)")"
	sends "linklayer adsl" "$(nest "$(u32 $LINKLAYER 2)")"
	sends "share_min 1 share_max 1" \
		"$(nest "$(u32 $SHARE_MIN 1)$(u32 $SHARE_MAX 1)")"
	sends "share_max $max share_min $max" \
		"$(nest "$(u32 $SHARE_MIN $max)$(u32 $SHARE_MAX $max)")"
	sends "backpressure off" "$(nest "$(u32 $BACKPRESSURE 0)")"
	sends "backpressure on" "$(nest "$(u32 $BACKPRESSURE 1)")"
	sends "pacing off" "$(nest "$(u32 $PACING 0)")"
	sends "pacing on" "$(nest "$(u32 $PACING 1)")"
	sends "maxrate 8" "$(nest "$(u64 $MAXRATE64 1)")"
	sends "maxrate 64Tibit" "$(nest "$(u64 $MAXRATE64 $((1 << 43)))")"
	sends "maxrate unlimited" "$(nest "$(u64 $MAXRATE64 -1)")"
	sends "low_rate_threshold 0bit" "$(nest "$(u64 $LOW_RATE_THRESHOLD64 0)")"
	sends "low_rate_threshold 64Tibit" \
		"$(nest "$(u64 $LOW_RATE_THRESHOLD64 $((1 << 43)))")"
	sends "horizon 1ns" "$(nest "$(u64 $HORIZON 1)")"
	sends "horizon 3600s" "$(nest "$(u64 $HORIZON 3600000000000)")"
	sends "horizon 3600000000" "$(nest "$(u64 $HORIZON 3600000000000)")"
	sends "horizon_drop" "$(nest "$(u32 $HORIZON_DROP 1)")"
	sends "horizon_cap" "$(nest "$(u32 $HORIZON_DROP 0)")"
	sends "horizon_drop rate 1mbit" \
		"$(nest "$(u64 $RATE64 $mbit)$(u32 $HORIZON_DROP 1)")"
	sends "ce_threshold 0ns" "$(nest "$(u64 $CE_THRESHOLD 0)")"
	sends "ce_threshold 60s" "$(nest "$(u64 $CE_THRESHOLD 60000000000)")"
	sends "ce_threshold 250" "$(nest "$(u64 $CE_THRESHOLD 250000)")"
	sends "ce_threshold never" "$(nest "$(u64 $CE_THRESHOLD -1)")"
	sends "timer_slack 0ns" "$(nest "$(u32 $TIMER_SLACK 0)")"
	sends "timer_slack ${max}ns" "$(nest "$(u32 $TIMER_SLACK $max)")"
	sends "timer_slack 50us" "$(nest "$(u32 $TIMER_SLACK 50000)")"
	sends "group 0" "$(nest "$(u32 $GROUP 0)")"
	sends "group 1" "$(nest "$(u32 $GROUP 1)")"
	sends "group $max" "$(nest "$(u32 $GROUP $max)")"
	# as for all other numbers of tc
	sends "group 0x10" "$(nest "$(u32 $GROUP 16)")"
	sends "group 010" "$(nest "$(u32 $GROUP 8)")"
	sends "group 7 rate 1mbit peakrate unlimited" \
		"$(nest "$(u64 $RATE64 $mbit)$(u64 $PEAKRATE64 -1)$(u32 $GROUP 7)")"
	sends "group 0 rate unlimited" \
		"$(nest "$(u64 $RATE64 -1)$(u32 $GROUP 0)")"
	sends "group 0 rate 1mbit peakrate 2mbit" \
		"$(nest "$(u64 $RATE64 $mbit)$(u64 $PEAKRATE64 $((2 * mbit)))$(
		u32 $GROUP 0)")"
	sends "timer_slack 20 ce_threshold 4ms horizon_cap horizon 2s
		low_rate_threshold 1mbit maxrate 20mbit pacing on" \
		"$(nest "$(u32 $PACING 1)$(u64 $MAXRATE64 $((20 * mbit)))$(
		u64 $LOW_RATE_THRESHOLD64 $mbit)$(u64 $HORIZON 2000000000)$(
		u32 $HORIZON_DROP 0)$(u64 $CE_THRESHOLD 4000000)$(
		u32 $TIMER_SLACK 20000)")"
	sends "backpressure off share_max 64kb share_min 3k quantum 1514
		memory_limit 32mb linklayer adsl mpu 64 overhead 24 mtu 1600
		peakrate 2mbit latency 10ms burst 25k rate 1mbit" \
		"$(nest "$(u64 $RATE64 $mbit)$(u32 $BURST 25600)$(
		u64 $LATENCY 10000000)$(u64 $PEAKRATE64 $((2 * mbit)))$(
		u32 $MTU 1600)$(u32 $OVERHEAD 24)$(u32 $MPU 64)$(
		u32 $LINKLAYER 2)$(u32 $MEMORY_LIMIT 33554432)$(
		u32 $QUANTUM 1514)$(u32 $SHARE_MIN 3072)$(
		u32 $SHARE_MAX 65536)$(u32 $BACKPRESSURE 0)")"
}

# A device whose speed is known: one of the machine's, or in a namespace of our
# own a veth, which says 10000 Mbit/s.
test_percent() {
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
		"$(nest "$(u64 $RATE64 $((speed * 62500)))")" \
		"$(words_to_hex "rate 50%" "$dev")"
	is "rate 0% is refused" "bpshaper: \"rate 0%\": $RATE_RANGE
refused" "$(words_to_hex "rate 0%" "$dev")"
	is "peakrate 80% is that of it" \
		"$(nest "$(u64 $PEAKRATE64 $((speed * 100000)))")" \
		"$(words_to_hex "peakrate 80%" "$dev")"
	is "rate 100% is all of it" \
		"$(nest "$(u64 $RATE64 $((speed * 125000)))")" \
		"$(words_to_hex "rate 100%" "$dev")"
	is "a percentage without a device is refused" \
		'bpshaper: "rate 50%": a percentage needs "dev"
refused' "$(words_to_hex "rate 50%" "")"
}

# 5. tbf

# as_tbf OPTIONS JSON: tbf takes them, we take them, and they mean JSON
as_tbf() {
	is "tbf takes: $1" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "$1" tbf)"
	is "so do we: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
	is "and with the same meaning: $1" "$2" \
		"$(hex_to -j "$(words_to_hex "$1")")"
}

# From tbf(8), its usage text, and what people write.
test_tbf() {
	as_tbf "rate 0.5mbit burst 5kb latency 70ms peakrate 1mbit minburst 1540" \
		'{"rate":62500,"burst":5120,"latency":70000000,"peakrate":125000,"mtu":1540}'
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
		'{"rate":4250000000,"burst":1048576,"latency":1000000,"peakrate":12500000000,"mtu":9000}'
	as_tbf "rate 10mbit burst 10kb/8 latency 10ms peakrate 11mbit mtu 2000
		mpu 64 overhead 18 linklayer atm" \
		'{"rate":1250000,"burst":10240,"latency":10000000,"peakrate":1375000,"mtu":2000,"overhead":18,"mpu":64,"linklayer":"atm"}'
	as_tbf "rate 2mbit burst 3k limit 9k overhead 14 linklayer adsl" \
		'{"rate":250000,"burst":3072,"limit":9216,"overhead":14,"linklayer":"atm"}'
	as_tbf "rate 2mbit burst 3k limit 9k linklayer ethernet" \
		'{"rate":250000,"burst":3072,"limit":9216,"linklayer":"ethernet"}'
	as_tbf "rate 2mbit b 3k li 9k o 4 lin eth p 3mbit mtu 2k" \
		'{"rate":250000,"burst":3072,"limit":9216,"peakrate":375000,"mtu":2048,"overhead":4,"linklayer":"ethernet"}'
	as_tbf "rate 2mbit burst 3k la 9ms" \
		'{"rate":250000,"burst":3072,"latency":9000000}'
	is "we take what tbf dumps" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "rate 500Kbit burst 5Kb/8 mpu 0b peakrate 1Mbit mtu 1540b/8 lat 70ms linklayer ethernet")"
}

# 6. Options as text and JSON

prints() {
	local hex

	hex=$(words_to_hex "$1")
	is "text of: $1" "$2" "$(hex_to "$hex")"
	is "JSON of: $1" "$3" "$(hex_to -j "$hex")"
	is "tc monitor shows: $1" "qdisc bpshaper 8001: dev lo root $2" \
		"$(message "${hex:8}" -)"
}

# message OPTIONS XSTATS [TC_OPTION...]: what tc itself makes of a dump
message() {
	"$harness" "$PLUGIN" message <<<"$1 $2" >"$work/message"
	stock_tc "${@:3}" monitor file "$work/message" 2>&1
}

test_options_print() {
	prints "rate 200mbit burst 25k latency 10ms memory_limit 32mb quantum 1514" \
		"rate 200Mbit burst 25Kb latency 10ms memory_limit 32Mb quantum 1514b " \
		'{"rate":25000000,"burst":25600,"latency":10000000,"memory_limit":33554432,"quantum":1514}'
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
	prints "rate 1mbit peakrate 2mbit mtu 1540 overhead 24 mpu 64 linklayer atm" \
		"rate 1Mbit peakrate 2Mbit mtu 1540b overhead 24b mpu 64b linklayer atm " \
		'{"rate":125000,"peakrate":250000,"mtu":1540,"overhead":24,"mpu":64,"linklayer":"atm"}'
	prints "backpressure off" "backpressure off " '{"backpressure":"off"}'
	prints "pacing off" "pacing off " '{"pacing":"off"}'
	prints "maxrate 20mbit low_rate_threshold 0" \
		"maxrate 20Mbit low_rate_threshold 0bit " \
		'{"maxrate":2500000,"low_rate_threshold":0}'
	prints "horizon 2s horizon_drop" "horizon 2s horizon_drop " \
		'{"horizon":2000000000,"horizon_drop":null}'
	prints "ce_threshold 1ms timer_slack 0" "ce_threshold 1ms timer_slack 0ns " \
		'{"ce_threshold":1000000,"timer_slack":0}'
	prints "rate 1mbit group 1" "rate 1Mbit group 1 " \
		'{"rate":125000,"group":1}'
	prints "group 0xffffffff" "group 4294967295 " '{"group":4294967295}'
}

# quiet WORDS: text has them with details only, JSON always
quiet() {
	local hex

	hex=$(words_to_hex "rate 1mbit $1")
	is "text does without $1" "rate 1Mbit " "$(hex_to "$hex")"
	is "details have $1" "rate 1Mbit $1 " "$(hex_to -d "$hex")"
	is "JSON has $1" "$2" "$(hex_to -j "$hex" | jq -c "del(.rate)")"
}

test_details() {
	quiet "peakrate unlimited" '{"peakrate":"unlimited"}'
	quiet "overhead 0b" '{"overhead":0}'
	quiet "mpu 0b" '{"mpu":0}'
	quiet "linklayer ethernet" '{"linklayer":"ethernet"}'
	quiet "backpressure on" '{"backpressure":"on"}'
	quiet "pacing on" '{"pacing":"on"}'
	quiet "maxrate unlimited" '{"maxrate":"unlimited"}'
	quiet "low_rate_threshold 550Kbit" '{"low_rate_threshold":68750}'
	quiet "horizon 10s" '{"horizon":10000000000}'
	quiet "horizon_cap" '{"horizon_cap":null}'
	quiet "ce_threshold never" '{"ce_threshold":"never"}'
	quiet "timer_slack 10us" '{"timer_slack":10000}'
	quiet "group 0" '{"group":0}'
	quiet "mtu 1514b" '{"mtu":1514}'
	quiet "peakrate unlimited mtu 1514b" '{"peakrate":"unlimited","mtu":1514}'
	is "tc -d asks for details" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit overhead 0b " \
		"$(message "$(u64 $RATE64 125000)$(u32 $OVERHEAD 0)" - -d)"
}

# A kernel may dump both words when latency sets the limit.
test_latency_over_limit() {
	local hex

	hex=$(nest "$(u64 $RATE64 125000)$(u32 $LIMIT 3000)$(
	      u64 $LATENCY 2000000)")
	is "text has the cause of the limit only" "rate 1Mbit latency 2ms " \
		"$(hex_to "$hex")"
	is "so it has with details, to be typed again" \
		"rate 1Mbit latency 2ms " "$(hex_to -d "$hex")"
	is "JSON has limit and latency" \
		'{"rate":125000,"limit":3000,"latency":2000000}' \
		"$(hex_to -j "$hex")"
}

test_odd_attributes() {
	local hex

	hex=$(nest "$(u32 $RATE64 5)$(u32 $LATENCY 5)$(u32 $PEAKRATE64 5)$(
	      u32 $BURST 7)$(u32 99 1)")
	is "attributes that are too short or unknown are passed over" \
		'{"burst":7}' "$(hex_to -j "$hex")"
	is "the text of a peak rate that is too short is none" "burst 7b " \
		"$(hex_to "$(nest "$(u32 $BURST 7)$(u32 $PEAKRATE64 5)$(
		   u32 $MTU 5)")")"
	is "a linklayer that we do not know is called that" \
		'{"linklayer":"unknown"}' \
		"$(hex_to -j "$(nest "$(u32 $LINKLAYER 9)")")"
	is "no attributes print nothing" "" "$(hex_to "$(nest "")")"
	is "a dump without options prints nothing" \
		"qdisc bpshaper 8001: dev lo root " "$(message - -)"
}

# Lengths and payloads at random: a crash or a message is a failure.
test_garbage() {
	local i j n hex status

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
	"$harness" -j "$PLUGIN" options <"$work/garbage" 2>/dev/null |
		jq -c . >"$work/garbage.out" 2>&1
	status="${PIPESTATUS[*]}"
	is "500 garbled dumps print as valid JSON, SEED=$SEED" "0 0 500" \
		"$status $(wc -l <"$work/garbage.out")"
	# As of a qdisc, of a class, and of what is not known.
	sed -E 's/^(.{2}).{6}/\1000000/; 1~3s/^../00/; 2~3s/^../01/' \
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

# 7. Statistics

XSTATS_TEXT="  throttles 1 unthrottles 2 throttled 12 overlimit 13
  flows 14 (socket_flows 15 parked 19) sockets 31 limit 18b share 16Kb pool 17b memory 18Kb
  drops: pool 3 memory 4 alloc 5 horizon 23 ack 29 segments 30 purged 20
  segments 6 direct 9 timer_wakeups 8 max_backlog 6442Mb ballast_errors 7
  paced_waits 21 paced_flows 25 horizon_caps 22 ce_marks 24
  group_members 26 waiting 27 tokens -28b
  delay: p50 <4.1us p99 <16.8ms max >4.29s
  throttle: p50 <1.02us p99 <1.02us max <1.02us"
XSTATS_DETAILS="${XSTATS_TEXT%$'\n'*$'\n'*}
  delay: p50 <4.1us p99 <16.8ms max >4.29s; <2.05us 10; <4.1us 880; <16.8ms 109; >4.29s 1
  throttle: p50 <1.02us p99 <1.02us max <1.02us; <1.02us 7
  lateness: p50 <2.05us p99 <4.1us max <4.1us; <2.05us 50; <4.1us 50"
XSTATS_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0
  flows 0 (socket_flows 0 parked 0) sockets 0 limit 0b share 0b pool 0b memory 0b
  drops: pool 0 memory 0 alloc 0 horizon 0 ack 0 segments 0 purged 0
  segments 0 direct 0 timer_wakeups 0 max_backlog 0b ballast_errors 0"
XSTATS_NO_PACING="  paced_waits 0 paced_flows 0 horizon_caps 0 ce_marks 0"
XSTATS_VALUES="1 2 3 4 5 6 7 8 9 $((6442 << 20)) 18432 12 13 14 15 16384 17 18 19 20"
XSTATS_PACING="21 22 23 24 25"
XSTATS_GROUP="26 27 -28"
XSTATS_DROPS="29 30"
XSTATS_SOCKETS=31
HIST_BUCKETS=24

# hist BUCKET:COUNT...: in hex
hist() {
	local -a count=()
	local i pair

	for pair; do
		count[${pair%:*}]=${pair#*:}
	done
	for ((i = 0; i < HIST_BUCKETS; i++)); do
		int 8 "${count[i]:-0}"
	done
}

# xstats_header: type and reserved
xstats_header() {
	int 4 0
	int 4 0
}

# Every field has a value of its own, in the order of the struct.
xstats_hex() {
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
	int 4 0
}

# xstats_group MEMBERS WAITING TOKENS: what is behind the statistics of pacing
xstats_group() {
	int 4 "$1"
	int 4 "$2"
	int 4 0
	int 8 "$3"
}

# xstats_drops ACK SEGMENTS: what is behind the statistics of groups
xstats_drops() {
	int 8 "$1"
	int 8 "$2"
}

# without_sockets TEXT: of a kernel that does not count them apart from flows
without_sockets() { sed 's/) sockets [0-9]*/)/' <<<"$1"; }

# without_drops TEXT: of one that does not count these either
without_drops() {
	without_sockets "$1" | sed 's/ack [0-9]* segments [0-9]*/ack 0 segments 0/'
}

# without_group TEXT: of a kernel that has none
without_group() { without_drops "$1" | sed '/^  group_members /d'; }

# without_pacing TEXT: of one that has neither
without_pacing() {
	without_group "$1" | sed 's/horizon [0-9]*/horizon 0/; /^  paced_waits /d'
}

# struct_fields NAME: the fields of a struct of the uAPI, but not its framing; an
# address says of what family it is
struct_fields() {
	awk -v name="$1" '
		$1 == "struct" && $2 == name { on = 1; next }
		on && /^}/ { exit }
		on { sub(/[;[].*/, "", $2); print $2 }' "$top/sch_bpshaper.h" |
		grep -vxE 'type|reserved[23]?|peer_family'
}

# json_values STRUCT JSON: in the order of the struct
json_values() {
	struct_fields "$1" | while read -r field; do
		jq -cr ".$field" <<<"$2"
	done
}

test_xstats() {
	local hex out size

	hex=$(xstats_hex)
	is "statistics as text" "$XSTATS_TEXT" "$(xstats_to "$hex")"
	is "statistics with details" "$XSTATS_DETAILS" "$(xstats_to -d "$hex")"
	is "statistics of a newer kernel are cut" "$XSTATS_DETAILS" \
		"$(xstats_to -d "${hex}ffffffffffffffffffffffff")"
	is "statistics of an older kernel end in zeros" \
		"${XSTATS_ZERO/throttles 0 unthrottles 0/throttles 1 unthrottles 2}" \
		"$(xstats_to "${hex:0:48}")"
	is "they may lack pacing" "$(without_pacing "$XSTATS_TEXT")" \
		"$(xstats_to "${hex:0:${#hex}-160}")"
	is "with details that is zero" \
		"$XSTATS_NO_PACING" \
		"$(xstats_to -d "${hex:0:${#hex}-160}" | grep paced_waits)"
	is "and in JSON" "[0,0,0,0,0]" \
		"$(xstats_to -j "${hex:0:${#hex}-160}" |
		   jq -c '[.paced_waits, .horizon_caps, .drops_horizon,
			   .ce_marks, .paced_flows]')"
	is "they may end within it" "  paced_waits 21 paced_flows 0 horizon_caps 22 ce_marks 0" \
		"$(xstats_to "${hex:0:${#hex}-128}" | grep paced_waits)"
	is "they may lack the sockets" "$(without_sockets "$XSTATS_TEXT")" \
		"$(xstats_to "${hex:0:${#hex}-16}")"
	is "with details, too" "$(without_sockets "$XSTATS_DETAILS")" \
		"$(xstats_to -d "${hex:0:${#hex}-16}")"
	is "and JSON has a zero" "15 0" "$(xstats_to -j "${hex:0:${#hex}-16}" |
		jq -r '"\(.socket_flows) \(.sockets)"')"
	is "they may lack the last drops" "$(without_drops "$XSTATS_TEXT")" \
		"$(xstats_to "${hex:0:${#hex}-48}")"
	# Where the members are, a kernel with pacing only has zeros, and ends.
	is "they may lack groups" "$(without_group "$XSTATS_TEXT")" \
		"$(xstats_to "${hex:0:${#hex}-88}$(int 4 0)")"
	is "with details nothing is said of them either" 0 \
		"$(xstats_to -d "${hex:0:${#hex}-88}$(int 4 0)" | grep -c group)"
	is "and JSON has zeros" "[0,0,0]" \
		"$(xstats_to -j "${hex:0:${#hex}-88}$(int 4 0)" |
		   jq -c '[.group_members, .group_waiting, .group_tokens]')"
	is "what is not in a group has no tokens to show" \
		"$(without_group "$XSTATS_TEXT")" \
		"$(xstats_to "${hex:0:${#hex}-88}$(xstats_group 0 0 5)")"
	is "tokens may be more than 32 bits hold, or none" \
		"  group_members 1 waiting 0 tokens 4294967295b
  group_members 1 waiting 1 tokens -4294967295b
  group_members 2 waiting 0 tokens 0b" \
		"$(for group in "1 0 4294967295" "1 1 -4294967295" "2 0 0"; do
			# shellcheck disable=SC2086 # words
			xstats_to "${hex:0:${#hex}-88}$(xstats_group $group)"
		   done | grep group)"
	is "they may lack the histograms" \
		"$(without_pacing "${XSTATS_TEXT%$'\n'*$'\n'*}")
$XSTATS_NO_PACING" "$(xstats_to -d "${hex:0:272}")"
	is "they may end within a field" 1 \
		"$(xstats_to -j "${hex:0:18}" | jq .throttles)"
	is "JSON has zeros for what is missing" \
		"20 [$(printf '0%.0s,' {1..23})0]" \
		"$(xstats_to -j "${hex:0:272}" |
		   jq -r '"\(.purged_packets) \(.lateness_hist)"')"
	is "statistics may be empty" "$XSTATS_ZERO" "$(xstats_to "")"
	is "with details, too" "$XSTATS_ZERO
$XSTATS_NO_PACING" "$(xstats_to -d "")"
	is "statistics of a type to come print nothing" "" \
		"$(xstats_to "$(int 4 2)${hex:8}")"
	is "one line with -oneline" "${XSTATS_TEXT//$'\n'/\\}" \
		"$(xstats_to -o "$hex")"
	out=$(xstats_to -j "$hex")
	is "JSON has the fields of the struct, each once" \
		"$(struct_fields tc_bpshaper_xstats | sort)" \
		"$(grep -oE '"[a-z_]+":' <<<"$out" | tr -d '":' | sort)"
	is "JSON has the values of the struct, in its order" "$XSTATS_VALUES" \
		"$(json_values tc_bpshaper_xstats "$out" | head -n 20 |
		   paste -sd' ')"
	is "JSON has every bucket of the histograms" \
		"[0,10,880$(printf ',0%.0s' {1..11}),109$(printf ',0%.0s' {1..8}),1]
[7$(printf ',0%.0s' {1..23})]
[0,50,50$(printf ',0%.0s' {1..21})]" \
		"$(json_values tc_bpshaper_xstats "$out" | sed -n 21,23p)"
	is "JSON has what came later" \
		"$XSTATS_PACING $XSTATS_GROUP $XSTATS_DROPS $XSTATS_SOCKETS" \
		"$(json_values tc_bpshaper_xstats "$out" | tail -n 11 |
		   paste -sd' ')"
	is "what was not paced is not mentioned" "$XSTATS_ZERO" \
		"$(xstats_to "$(xstats_header
				printf '00%.0s' {1..760})")"
	is "what was is" "$XSTATS_ZERO
  paced_waits 0 paced_flows 0 horizon_caps 0 ce_marks 1" \
		"$(xstats_to "$(xstats_header
				printf '00%.0s' {1..728}
				int 8 1; int 8 0; int 8 0; int 8 0)")"
	out=$(message "$(u64 $RATE64 125000)" "$hex" -s)
	is "tc -s shows them below the qdisc" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit "$'\n'"$XSTATS_TEXT" \
		"$(grep -v '^$' <<<"$out")"
	out=$(message "$(u64 $RATE64 125000)" "$hex" -s -d)
	is "tc -s -d shows all of them" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit "$'\n'"$XSTATS_DETAILS" \
		"$(grep -v '^$' <<<"$out")"
	size=$(printf '#include "sch_bpshaper.h"\nint main(void) { return sizeof(struct tc_bpshaper_xstats) / 8; }' |
		gcc -I "$top" -x c -o "$work/size" - && "$work/size"; echo $?)
	is "these statistics are all there are" $((size * 16)) ${#hex}
}

# percentiles BUCKET:COUNT...: what the text of the delays says
percentiles() {
	xstats_to "$(xstats_header
		     printf '00%.0s' {1..128}
		     hist "$@")" | sed -n 's/.*delay: //p'
}

test_percentiles() {
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

# class STATE COOKIE LONGEST HASH THROTTLES DEFICIT FAMILY PROTOCOL: in hex, as of a
# kernel that says nothing of peers
class() {
	int 4 1
	int 4 "$1"
	int 8 "$2"
	int 8 "$3"
	int 4 "$4"
	int 4 "$5"
	int 4 $(($6 & 0xffffffff))
	int 2 "$7"
	int 2 "$8"
}

# class_peer SOCKET_FLOWS SOCKET_BACKLOG FAMILY PORT ADDRESS: what is behind it, the
# port with 4 digits and the address with up to 32, in network byte order
class_peer() {
	local zeros=00000000000000000000000000000000

	int 4 "$1"
	int 4 "$2"
	int 2 "$3"
	printf %s "$4"
	int 4 0
	printf %s "$5${zeros:${#5}}"
}

test_classes() {
	local hex out

	hex=$(class 3 0x1f 3200000 0 12 -1200 2 17)
	is "a class that is a throttled socket" \
		"  throttled inet udp sk:1f throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "JSON has the fields of the struct, and the state by name" \
		'{"state":"throttled","cookie":31,"longest_throttle_ns":3200000,"hash":0,"throttles":12,"deficit":-1200,"family":2,"protocol":17,"socket_flows":0,"socket_backlog":0}' \
		"$(xstats_to -j "$hex")"
	is "one that is overlimit" \
		"  overlimit inet6 tcp sk:2 throttles 0 longest_throttle 0ns deficit 5" \
		"$(xstats_to "$(class 2 2 0 0 0 5 10 6)")"
	is "one that may send, of a packet socket" \
		"  unthrottled packet sk:ffffffffffffffff throttles 0 longest_throttle 0ns deficit 0" \
		"$(xstats_to "$(class 1 -1 0 0 0 0 17 0)")"
	is "one of the pool" "  socketless hash 0000abcd deficit 7" \
		"$(xstats_to "$(class 0 0 0 0xabcd 0 7 0 0)")"
	is "numbers without a name" \
		"  9 99 136 sk:1 throttles 4294967295 longest_throttle 5s deficit -2147483648" \
		"$(xstats_to "$(class 9 1 5000000000 0 4294967295 -2147483648 99 136)")"
	is "JSON of a state to come is its number" 9 \
		"$(xstats_to -j "$(class 9 1 0 0 0 0 2 6)" | jq -r .state)"
	is "a class of an older kernel ends in zeros" \
		'{"state":"throttled","cookie":31,"longest_throttle_ns":0,"hash":0,"throttles":0,"deficit":0,"family":0,"protocol":0,"socket_flows":0,"socket_backlog":0}' \
		"$(xstats_to -j "${hex:0:32}")"
	"$harness" "$PLUGIN" class <<<"- $hex" >"$work/message"
	out=$(stock_tc -s monitor file "$work/message" 2>&1)
	is "tc -s shows them below the class" \
		"class bpshaper 8001:1 dev lo parent 8001: "$'\n'"$(xstats_to "$hex")" \
		"$(grep -v '^$' <<<"$out")"
	is "without -s a class is a line" \
		"class bpshaper 8001:1 dev lo parent 8001: " \
		"$(stock_tc monitor file "$work/message" 2>&1)"
}

test_peers() {
	local throttled hex size fd00_1=fd000000000000000000000000000001

	throttled=$(class 3 0x1f 3200000 0 12 -1200 2 17)
	hex=$throttled$(class_peer 1 9000 2 0035 0a000001)
	is "a class with a peer" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "with details, what its socket holds" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 socket_flows 1 socket_backlog 9000b throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to -d "$hex")"
	is "JSON has peer and port" '["10.0.0.1",53,1,9000]' \
		"$(xstats_to -j "$hex" |
		   jq -c '[.peer, .peer_port, .socket_flows, .socket_backlog]')"
	is "these are the fields of the uAPI" \
		"$(struct_fields tc_bpshaper_class_xstats | sort)" \
		"$(xstats_to -j "$hex" | jq -r 'keys[]')"
	is "one of several flows of a socket" \
		"  throttled inet udp sk:1f hash 0000abcd peer 10.0.0.1:65535 socket_flows 4 socket_backlog 36Kb throttles 12 longest_throttle 0ns deficit 0" \
		"$(xstats_to "$(class 3 0x1f 0 0xabcd 12 0 2 17)$(
		   class_peer 4 36864 2 ffff 0a000001)")"
	is "a peer of IPv6" \
		"  throttled inet udp sk:1f peer [fd00::1]:53 throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$throttled$(class_peer 1 1 10 0035 $fd00_1)")"
	is "JSON of it is without brackets" '["fd00::1",53]' \
		"$(xstats_to -j "$throttled$(class_peer 1 1 10 0035 $fd00_1)" |
		   jq -c '[.peer, .peer_port]')"
	is "an address is as long as it can be" \
		" peer [fd00:1111:2222:3333:4444:5555:6666:7777]:65535 " \
		"$(xstats_to "$throttled$(class_peer 1 1 10 ffff \
			fd001111222233334444555566667777)" | grep -o ' peer [^ ]* ')"
	is "a packet without a port has an address only" " peer 10.0.0.1 , peer fd00::1 " \
		"$({ xstats_to "$throttled$(class_peer 1 1 2 0000 0a000001)"
		     xstats_to "$throttled$(class_peer 1 1 10 0000 $fd00_1)"
		   } | grep -o ' peer [^ ]* ' | paste -sd,)"
	is "so it has in JSON" '["peer"]' \
		"$(xstats_to -j "$throttled$(class_peer 1 1 2 0000 0a000001)" |
		   jq -c '[keys[] | select(startswith("peer"))]')"
	is "packets without a socket have a peer, too" \
		"  socketless hash 0000abcd peer 10.0.0.1:53 deficit 7" \
		"$(xstats_to "$(class 0 0 0 0xabcd 0 7 0 0)$(
		   class_peer 0 0 2 0035 0a000001)")"
	is "without a family there is no peer" "$(xstats_to "$throttled")" \
		"$(xstats_to "$throttled$(class_peer 1 1 0 0035 0a000001)")"
	is "nor is there of a family to come" "$(xstats_to "$throttled")" \
		"$(xstats_to "$throttled$(class_peer 1 1 99 0035 0a000001)")"
	is "nor in JSON" 0 \
		"$(xstats_to -j "$throttled$(class_peer 1 1 99 0035 0a000001)" |
		   grep -c '"peer')"
	is "an older kernel has no peers, with details neither" \
		"$(xstats_to "$throttled")" "$(xstats_to -d "$throttled")"
	is "a class of a newer kernel is cut" "$(xstats_to "$hex")" \
		"$(xstats_to "${hex}ffffffff")"
	size=$(printf '#include "sch_bpshaper.h"\nint main(void) { return sizeof(struct tc_bpshaper_class_xstats); }' |
		gcc -I "$top" -x c -o "$work/size" - && "$work/size"; echo $?)
	is "these fields are all there are" $((size * 2)) ${#hex}
}

# 8. Round trip

# random_words COUNT: sets of options that do not contradict themselves
random_words() {
	awk -v n="$1" -v seed="$SEED" '
	function integer(below) { return int(rand() * below) }
	function pick(words,    a) { return a[integer(split(words, a)) + 1] }
	function coin() { return rand() < 0.5 }
	# 1 to 2^bits - 1, of any order of magnitude
	function number(bits) {
		return sprintf("%.0f", int(exp(rand() * log(2) * bits)))
	}
	function sum(a, b) { return sprintf("%.0f", a + b) }
	function rate() {
		return coin() ? number(43) "Bps" : integer(30000) + 1 \
			pick("kbit mbit mibit MBps gbit")
	}
	function size(bits) {
		return coin() ? number(bits) : number(bits - 11) "k"
	}
	function cell() { return coin() ? "" : "/" pick("1 8 16 2048") }
	function add(words) { line[++len] = words }
	function bps(text,    value) {
		value = text + 0
		if (text ~ /Bps/)
			return text ~ /M/ ? value * 1e6 : value
		return value / 8 * (text ~ /k/ ? 1e3 : text ~ /mi/ ? 1048576 : \
				    text ~ /m/ ? 1e6 : 1e9)
	}
	function emit(    i, j, text) {
		for (i = len; i > 0; i--) {
			j = integer(i) + 1
			text = text (text == "" ? "" : " ") line[j]
			line[j] = line[i]
		}
		print text
		len = 0
	}
	BEGIN {
		srand(seed)
		while (n--) {
			main = coin() ? rate() : coin() ? "unlimited" : ""
			if (main != "")
				add("rate " main)
			has_peak = 0
			if (coin()) {
				peak = coin() ? rate() : "unlimited"
				if (peak == "unlimited" || main == "" ||
				    main != "unlimited" &&
				    int(bps(peak)) > int(bps(main))) {
					add("peakrate " peak)
					has_peak = peak != "unlimited"
				}
			}
			if (coin())
				add(pick("burst buffer maxburst b") " " \
				    size(32) cell())
			if (coin())
				add(pick("limit li") " " size(32))
			else if (main != "unlimited" && coin())
				add(pick("latency lat") " " \
				    (coin() ? number(25) : number(35) "ns"))
			if (coin())
				add(pick("mtu minburst") " " size(32) cell())
			if (coin())
				add(pick("overhead over") " " integer(65536))
			if (coin())
				add("mpu " integer(65536))
			if (coin())
				add(pick("linklayer link") " " \
				    pick("ethernet atm adsl eth"))
			if (coin())
				add("memory_limit " sum(65536, number(31)))
			if (coin())
				add("quantum " 256 + number(19))
			least = number(31)
			if (coin())
				add("share_min " least)
			if (coin())
				add("share_max " sum(least, number(30)))
			if (coin())
				add("backpressure " pick("on off"))
			if (coin())
				add("pacing " pick("on off"))
			if (coin())
				add("maxrate " (coin() ? rate() : "unlimited"))
			if (coin())
				add("low_rate_threshold " (coin() ? rate() : 0))
			if (coin())
				add("horizon " \
				    (coin() ? number(31) : number(41) "ns"))
			if (coin())
				add(pick("horizon_drop horizon_cap"))
			if (coin())
				add("ce_threshold " \
				    (coin() ? number(35) "ns" : \
				     pick("never 0 20")))
			if (coin())
				add("timer_slack " \
				    (coin() ? number(22) : number(32) "ns"))
			if (main != "unlimited" && !has_peak && coin())
				add("group " (coin() ? number(32) : \
				    sprintf("0x%x", integer(2147483647))))
			else if (coin())
				add("group 0")
			emit()
		}
	}'
}

json_to_words() {
	jq -r 'to_entries | map(
		if .value == null then .key
		elif (.value | type) == "string" then "\(.key) \(.value)"
		elif .key | test("rate$|^low_rate") then "\(.key) \(.value)Bps"
		elif .key | IN("latency", "horizon", "ce_threshold",
			       "timer_slack") then "\(.key) \(.value)ns"
		else "\(.key) \(.value)" end) | reverse | join(" ")'
}

test_round_trip() {
	local n=2000

	random_words $n >"$work/words"
	"$harness" "$PLUGIN" parse <"$work/words" >"$work/hex" 2>&1
	is "$n random option sets are taken, SEED=$SEED" "$n " \
		"$(wc -l <"$work/hex") $(grep -vE '^([0-9a-f]+|nothing)$' \
		   "$work/hex" | head -n 3)"
	is "no word is missing in them" 23 \
		"$(options_to -j <"$work/hex" | jq -r 'keys[]' | sort -u | wc -l)"
	options_to -j <"$work/hex" | json_to_words >"$work/json"
	round_trip "JSON" "$work/json"
	options_to -d <"$work/hex" >"$work/details"
	round_trip "text with details" "$work/details"
	options_to <"$work/hex" >"$work/text"
	"$harness" "$PLUGIN" parse <"$work/text" 2>&1 | options_to \
		>"$work/text2" 2>&1
	is "their text, typed again, gives the same text, SEED=$SEED" "" \
		"$(diff "$work/text" "$work/text2" | head -n 4)"
}

# round_trip NAME FILE: FILE has, line by line, what $work/hex became
round_trip() {
	"$harness" "$PLUGIN" parse <"$2" >"$work/hex2" 2>&1
	is "their $1, typed again, gives the same messages, SEED=$SEED" "" \
		"$(paste -d'|' "$work/words" "$work/hex" "$work/hex2" |
		   awk -F'|' '$2 != $3' | head -n 3)"
}

# As root, in namespaces of our own, for the sake of a device with a speed.
namespace_enter() {
	[[ ${BPSHAPER_NAMESPACE:-} ]] && return
	((EUID == 0)) && unshare -nm true 2>/dev/null || return 0
	export BPSHAPER_NAMESPACE=1
	exec unshare -nm "$0" "$@"
}

namespace_device_add() {
	[[ ${BPSHAPER_NAMESPACE:-} ]] || return 0
	mount -t sysfs none /sys 2>/dev/null &&
		ip link add bps0 type veth peer name bps1 2>/dev/null &&
		ip link set bps0 up && ip link set bps1 up
}

main() {
	local src

	[[ -f $PLUGIN ]] || bail "no plugin at $PLUGIN"
	[[ ${PLUGIN##*/} == q_bpshaper.so ]] || bail "tc loads q_bpshaper.so only"
	if [[ ${IPROUTE2_SRC:-} ]]; then
		src=$IPROUTE2_SRC
	else
		src=$("$top/tools/iproute2-src") || bail "no source of iproute2"
	fi
	export IPROUTE2_SRC=$src
	namespace_enter "$@"
	namespace_device_add

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	packages_require
	harness=$("$here/harness-build" 2>"$work/make.log") ||
		bail "harness: $(grep -m 1 -E 'error|undefined' "$work/make.log")"

	test_symbols
	test_mismatch
	test_declarations
	test_help
	test_refusals
	test_refused_words
	test_contradictions
	test_all_at_once
	test_messages
	test_percent
	test_tbf
	test_options_print
	test_details
	test_latency_over_limit
	test_odd_attributes
	test_garbage
	test_xstats
	test_percentiles
	test_classes
	test_peers
	test_round_trip

	echo "1..$tests"
	echo "# $((tests - failures)) of $tests passed"
	((failures == 0))
}

main "$@"
