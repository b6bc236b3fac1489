# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Classes of 1: at $device, by default txdev, and what they get. Sourced after common.sh and peers.sh,
# never run.

# class OPTIONS...: a class of 1:; parent and classid first
class() { must on_tx tc class add dev "${device:-txdev}" parent "$1" classid "$2" bpshaper "${@:3}"; }

# class_packets CLASSID: that it has sent
class_packets()
{
	on_tx tc -s class show dev "${device:-txdev}" classid "$1" | awk '$1 == "Sent" { print $4 }'
}

# class_limit CLASSID: bytes that may wait in it
class_limit()
{
	on_tx tc -s class show dev "${device:-txdev}" classid "$1" |
		awk '{ for (i = 1; i < NF; i++) if ($i == "limit") print $(i + 1) + 0 }'
}

# lossless NAME SENDERS...
lossless()
{
	local name

	for name in "${@:2}"; do
		check_num "$1: $name loses nothing" "$(got "${name}_lost")" == 0 packets
	done
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	check "$1: no socket is held afterwards" wait_until 5 no_socket_is_held
}

# near NAME VALUE EXPECTED PERCENT
near()
{
	check_num "$1: at least $3 Mbit/s - $4 %" "$2" '>=' "$(awk "BEGIN { print $3 * (100 - $4) / 100 }")"
	check_num "$1: at most $3 Mbit/s + $4 %" "$2" '<=' "$(awk "BEGIN { print $3 * (100 + $4) / 100 }")"
}

# Before 5.12 a class cannot say why it does not go.
is_without_reason()
{
	[[ $(uname -r) == 5.10.* && $1 == "class del"* && $2 == *"resource busy"* ]]
}

# refused NAME WORDS COMMAND...: the message has these words
refused()
{
	local out

	if out=$(on_tx tc "${@:3}" 2>&1); then
		not_ok "$1: refused" "it worked: tc ${*:3}"
	elif [[ $out == *"$2"* ]] || is_without_reason "${*:3}" "$out"; then
		ok "$1: refused"
	else
		not_ok "$1: refused" "$out"
	fi
}
