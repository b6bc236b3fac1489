#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test_plugin.sh - what the tc plugin reads and writes, without the kernel module
#
#     words --> [ tc of this machine + plugin ] --> one line of refusal
#                                               --> "Cannot find device"
#     words --> [ harness + plugin ] --> TCA_OPTIONS in hex --> text, JSON
#     hex   --> [ tc monitor file + plugin ] --> text
#
#  1. tc loads the plugin and finds every symbol that the plugin asks for.
#  2. Bad words give one line, and no message is made.
#  3. Good words give exactly the attributes that they mean.
#  4. Attributes print as text that can be typed again, and as JSON.
#  5. Statistics print whatever their length is.
#  6. Any set of options survives words -> message -> JSON -> words -> message.
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
	tests=$((tests + 1))
	if [[ $2 == "$3" ]]; then
		echo "ok $tests - $1"
		return
	fi
	failures=$((failures + 1))
	echo "not ok $tests - $1"
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

harness_build() {
	local src=$1

	mkdir "$work/src"
	cp -r "$src"/{Makefile,include,lib,tc} "$work/src/"
	# What configure would find, less the optional libraries.
	echo "CFLAGS += -DHAVE_SETNS -DHAVE_HANDLE_AT -w" >"$work/src/config.mk"
	make -j"$(nproc)" -C "$work/src" SUBDIRS=lib >"$work/make.log" 2>&1 ||
		bail "iproute2's lib: $(grep -m 1 'error' "$work/make.log")"
	(
		cd "$work/src" &&
		gcc -g -O1 -Wall -D_GNU_SOURCE -DLIBDIR='""' -rdynamic \
			-Iinclude -Iinclude/uapi -Itc -o "$work/harness" \
			"$here/plugin_harness.c" tc/tc_util.c tc/tc_core.c \
			-Wl,--start-group lib/libutil.a lib/libnetlink.a \
			-Wl,--end-group -lm -ldl
	) >"$work/gcc.log" 2>&1 ||
		bail "harness: $(grep -m 1 -E 'error|undefined' "$work/gcc.log")"
}

# Tools

stock_tc() {
	TC_LIB_DIR=${PLUGIN%/*} tc "$@"
}

# All that tc says about some words.
tc_verdict() {
	local -a argv
	local out

	read -ra argv <<<"$1"
	out=$(stock_tc qdisc replace dev "$NODEV" root bpshaper \
		"${argv[@]}" 2>&1) &&
		echo "status 0"
	echo "$out"
}

words_to_hex() {
	"$work/harness" "$PLUGIN" parse "${2:-}" <<<"$1" 2>&1
}

# hex_to OPTION... HEX: HEX is a nest as words_to_hex() gives it
hex_to() {
	local hex=${!#}

	"$work/harness" "${@:1:$#-1}" "$PLUGIN" options <<<"${hex:8}" 2>&1
}

xstats_to() {
	local hex=${!#}

	"$work/harness" "${@:1:$#-1}" "$PLUGIN" xstats <<<"$hex" 2>&1
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

test_help() {
	local out word

	out=$(tc_verdict help)
	is "help shows the usage" "Usage: ... bpshaper [ rate RATE ] [ burst SIZE ]" \
		"${out%%$'\n'*}"
	for word in rate burst limit latency memory_limit quantum; do
		is "help tells unit, meaning, range and default of $word" 3 \
			"$(grep -A2 -E "^$word [A-Z]+: ." <<<"$out" |
			   grep -cE '^[a-z_]+ [A-Z]+: .|^  (range|default): +.')"
	done
}

# 2. Refusals

RATE_RANGE="must be 8bit to 64Tibit, up to 100% of the device's speed, or unlimited"
SIZE_RANGE="must be 1b to 4294967295b"
BOTH="limit and latency exclude each other"

refused() {
	is "tc refuses: $1" "bpshaper: $2" "$(tc_verdict "$1")"
	is "no message is made of: $1" "bpshaper: $2
refused" "$(words_to_hex "$1")"
}

test_refusals() {
	local value word

	for value in 0bit 7bit 0 -8bit -1mbit +1mbit -0 nan inf 1e999mbit x 10foo \
		     64.001Tibit 18446744073709551615Bps 101% 50%% 50%x 0x \
		     Unlimited unlim; do
		refused "rate $value" "\"rate $value\": $RATE_RANGE"
	done
	for word in burst buffer maxburst limit; do
		for value in 0 0.5 -1 4294967296 4gb 1e30 nan inf x 1kB/8; do
			refused "$word $value" "\"$word $value\": $SIZE_RANGE"
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
}

test_refused_sets() {
	refused "rate 5mbit rate 5mbit" '"rate 5mbit": duplicate of rate'
	refused "rate unlimited rate 1bit" '"rate 1bit": duplicate of rate'
	refused "burst 1k burst 1k" '"burst 1k": duplicate of burst'
	refused "burst 1k buffer 2k" '"buffer 2k": duplicate of burst'
	refused "maxburst 1k burst 2k" '"burst 2k": duplicate of burst'
	refused "limit 1k limit 1k" '"limit 1k": duplicate of limit'
	refused "latency 1ms latency 1ms" '"latency 1ms": duplicate of latency'
	refused "memory_limit 1m memory_limit 1m" \
		'"memory_limit 1m": duplicate of memory_limit'
	refused "quantum 1k quantum 1k" '"quantum 1k": duplicate of quantum'
	refused "limit 1k latency 1ms" "\"latency 1ms\": $BOTH"
	refused "latency 1ms rate 1mbit limit 1k" "\"limit 1k\": $BOTH"
	refused "foo" '"foo": unknown option, try help'
	refused "rate 1mbit foo 3" '"foo": unknown option, try help'
	refused "rat 1mbit" '"rat": unknown option, try help'
	refused "mem 1m" '"mem": unknown option, try help'
	refused "rate" '"rate": must be followed by RATE'
	refused "rate 1mbit latency" '"latency": must be followed by TIME'
	refused "rate 1mbit quantum" '"quantum": must be followed by SIZE'
	is "tc refuses a percentage of an unknown speed" \
		'bpshaper: "rate 10%": the speed of the device is unknown' \
		"$(tc_verdict "rate 10%")"
}

# 3. Messages

sends() {
	is "message of: $1" "$2" "$(words_to_hex "$1")"
	is "tc takes: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
}

test_messages() {
	local mbit=125000 max=4294967295

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
	sends "quantum 1514 memory_limit 32mb latency 10ms burst 25k rate 1mbit" \
		"$(nest "$(u64 $RATE64 $mbit)$(u32 $BURST 25600)$(
		u64 $LATENCY 10000000)$(u32 $MEMORY_LIMIT 33554432)$(
		u32 $QUANTUM 1514)")"
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
	is "rate 100% is all of it" \
		"$(nest "$(u64 $RATE64 $((speed * 125000)))")" \
		"$(words_to_hex "rate 100%" "$dev")"
	is "a percentage without a device is refused" \
		'bpshaper: "rate 50%": a percentage needs "dev"
refused' "$(words_to_hex "rate 50%" "")"
}

# 4. Options as text and JSON

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
	"$work/harness" "$PLUGIN" message <<<"$1 $2" >"$work/message"
	stock_tc "${@:3}" monitor file "$work/message" 2>&1
}

test_options_print() {
	prints "rate 200mbit burst 25k latency 10ms memory_limit 32mb quantum 1514" \
		"rate 200Mbit burst 25Kb latency 10ms memory_limit 32Mb quantum 1514b " \
		'{"rate":25000000,"burst":25600,"latency":10000000,"memory_limit":33554432,"quantum":1514}'
	prints "rate unlimited limit 1mb" "rate unlimited limit 1Mb " \
		'{"rate":"unlimited","limit":1048576}'
	prints "rate 64Tibit" "rate 70368Gbit " '{"rate":8796093022208}'
	prints "latency 1500us" "latency 1.5ms " '{"latency":1500000}'
	prints "limit 4294967295" "limit 4096Mb " '{"limit":4294967295}'
	prints "limit 4294900000" "limit 4294900000b " '{"limit":4294900000}'
}

# The kernel dumps both words when latency sets the limit.
test_latency_over_limit() {
	local hex

	hex=$(nest "$(u64 $RATE64 125000)$(u32 $LIMIT 3000)$(
	      u64 $LATENCY 2000000)")
	is "text has the cause of the limit only" "rate 1Mbit latency 2ms " \
		"$(hex_to "$hex")"
	is "details have limit and latency" "rate 1Mbit limit 3000b latency 2ms " \
		"$(hex_to -d "$hex")"
	is "tc -d has limit and latency" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit limit 3000b latency 2ms " \
		"$(message "${hex:8}" - -d)"
	is "JSON has limit and latency" \
		'{"rate":125000,"limit":3000,"latency":2000000}' \
		"$(hex_to -j "$hex")"
}

test_odd_attributes() {
	local hex

	hex=$(nest "$(u32 $RATE64 5)$(u32 $LATENCY 5)$(u32 $BURST 7)$(
	      u32 99 1)")
	is "attributes that are too short or unknown are passed over" \
		'{"burst":7}' "$(hex_to -j "$hex")"
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
	"$work/harness" -j "$PLUGIN" options <"$work/garbage" 2>/dev/null |
		jq -c . >"$work/garbage.out" 2>&1
	status="${PIPESTATUS[*]}"
	is "500 garbled dumps print as valid JSON, SEED=$SEED" "0 0 500" \
		"$status $(wc -l <"$work/garbage.out")"
	"$work/harness" "$PLUGIN" xstats <"$work/garbage" >/dev/null 2>&1
	is "500 garbled statistics do no harm" 0 $?
}

# 5. Statistics

XSTATS_TEXT="  throttles 1 unthrottles 2 throttled 12 overlimit 13
  flows 14 (sockets 15 parked 19) limit 18b share 16Kb pool 17b memory 18Kb
  drops: pool 3 memory 4 alloc 5
  segments 6 direct 9 timer_wakeups 8 max_backlog 6442Mb ballast_errors 7"
XSTATS_ZERO="  throttles 0 unthrottles 0 throttled 0 overlimit 0
  flows 0 (sockets 0 parked 0) limit 0b share 0b pool 0b memory 0b
  drops: pool 0 memory 0 alloc 0
  segments 0 direct 0 timer_wakeups 0 max_backlog 0b ballast_errors 0"

# Every field has a value of its own, in the order of the struct.
xstats_hex() {
	local value

	for value in 1 2 3 4 5 6 7 8 9 $((6442 << 20)) $((18 << 10)); do
		int 8 "$value"
	done
	for value in 12 13 14 15 $((16 << 10)) 17 18 19; do
		int 4 "$value"
	done
}

xstats_fields() {
	awk '/^struct tc_bpshaper_xstats/ { on = 1; next }
	     on && /^}/ { exit }
	     on { sub(/;.*/, "", $2); print $2 }' "$top/sch_bpshaper.h"
}

test_xstats() {
	local hex out

	hex=$(xstats_hex)
	is "statistics as text" "$XSTATS_TEXT" "$(xstats_to "$hex")"
	is "statistics of a newer kernel are cut" "$XSTATS_TEXT" \
		"$(xstats_to "${hex}ffffffffffffffffffffffff")"
	is "statistics of an older kernel end in zeros" \
		"${XSTATS_ZERO/throttles 0 unthrottles 0/throttles 1 unthrottles 2}" \
		"$(xstats_to "${hex:0:32}")"
	is "statistics may be empty" "$XSTATS_ZERO" "$(xstats_to "")"
	is "one line with -oneline" "${XSTATS_TEXT//$'\n'/\\}" \
		"$(xstats_to -o "$hex")"
	out=$(xstats_to -j "$hex")
	is "JSON has the fields of the struct, each once" \
		"$(xstats_fields | sort)" \
		"$(grep -oE '"[a-z_]+":' <<<"$out" | tr -d '":' | sort)"
	is "JSON has the values of the struct, in its order" \
		"1 2 3 4 5 6 7 8 9 $((6442 << 20)) 18432 12 13 14 15 16384 17 18 19" \
		"$(xstats_fields | while read -r field; do
			jq -r ".$field" <<<"$out"
		   done | paste -sd' ')"
	out=$(message "$(u64 $RATE64 125000)" "$hex" -s)
	is "tc -s shows them below the qdisc" \
		"qdisc bpshaper 8001: dev lo root rate 1Mbit "$'\n'"$XSTATS_TEXT" \
		"$(grep -v '^$' <<<"$out")"
}

# 6. Round trip

pick() {
	shift $((RANDOM % $#))
	echo "$1"
}

# A number of 1 to 2^$1 - 1, of any order of magnitude.
number() {
	local bits=$((RANDOM % $1 + 1))

	echo $((((RANDOM << 45 | RANDOM << 30 | RANDOM << 15 | RANDOM) &
		 ((1 << bits) - 1)) | 1))
}

random_words() {
	local words='' value

	case $((RANDOM % 4)) in
	0) words+=" rate unlimited" ;;
	1) words+=" rate $(number 43)Bps" ;;
	2) words+=" rate $((RANDOM + 1))$(pick kbit mbit mibit MBps)" ;;
	esac
	((RANDOM % 2)) && words+=" $(pick burst buffer maxburst) $(number 32)"
	case $((RANDOM % 3)) in
	0) words+=" limit $(number 32)" ;;
	1) words+=" latency $(pick "$(number 25)" "$(number 35)ns")" ;;
	esac
	((RANDOM % 2)) && words+=" memory_limit $((RANDOM * 65536 + 65536))"
	((RANDOM % 2)) && words+=" quantum $((256 + RANDOM * 31))"
	echo "${words# }"
}

json_to_words() {
	jq -r 'to_entries | map(
		if .key == "rate" and .value != "unlimited"
		then "rate \(.value)Bps"
		elif .key == "latency" then "latency \(.value)ns"
		else "\(.key) \(.value)" end) | reverse | join(" ")'
}

test_round_trip() {
	local i n=1000

	RANDOM=$SEED
	for ((i = 0; i < n; i++)); do
		random_words
	done >"$work/words"
	"$work/harness" "$PLUGIN" parse <"$work/words" >"$work/hex" 2>&1
	sed 's/^nothing$//; s/^.\{8\}//' "$work/hex" |
		"$work/harness" -j "$PLUGIN" options |
		tee "$work/json" | json_to_words >"$work/words2"
	"$work/harness" "$PLUGIN" parse <"$work/words2" >"$work/hex2" 2>&1
	is "$n random option sets are taken, SEED=$SEED" "$n 0" \
		"$(wc -l <"$work/hex") $(grep -cvE '^([0-9a-f]+|nothing)$' "$work/hex")"
	is "their JSON, typed again, gives the same messages, SEED=$SEED" "" \
		"$(paste -d'|' "$work/words" "$work/hex" "$work/hex2" |
		   awk -F'|' '$2 != $3' | head -n 3)"
	sed 's/^nothing$//; s/^.\{8\}//' "$work/hex" |
		"$work/harness" "$PLUGIN" options |
		"$work/harness" "$PLUGIN" parse 2>&1 |
		grep -c '^refused' >"$work/refused"
	is "their text, typed again, is taken, SEED=$SEED" 0 \
		"$(cat "$work/refused")"
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
	harness_build "$src"

	test_symbols
	test_help
	test_refusals
	test_refused_sets
	test_messages
	test_percent
	test_options_print
	test_latency_over_limit
	test_odd_attributes
	test_garbage
	test_xstats
	test_round_trip

	echo "1..$tests"
	echo "# $((tests - failures)) of $tests passed"
	((failures == 0))
}

main "$@"
