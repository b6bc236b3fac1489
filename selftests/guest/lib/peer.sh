# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# A remote peer of TCP that does what it is told (bpacks). Sourced after common.sh, never
# run.

# peer_connect CONNECTIONS
peer_connect()
{
	local answer=''

	coproc peer {
		exec "$bpacks" "$tx" "$rx" rxdev $nobody 10.99.0.1 "$(mac_of "$tx" txdev)" "$1"
	}
	# A subshell does not have the descriptors of a coproc.
	# shellcheck disable=SC1083,SC2093 # an element of an array
	exec {to_peer}>&"${peer[1]}" {from_peer}<&"${peer[0]}" {peer[1]}>&-
	read -t 20 -r answer <&"$from_peer"
	[ "$answer" = open ] || not_ok "the peer connects" "$answer"
}

# peer WORD N ARGUMENT: and wait until it is done
peer()
{
	local answer=''

	echo "$*" >&"$to_peer"
	read -t 60 -r answer <&"$from_peer"
	[ "$answer" = "$1 $2" ] || not_ok "the peer does $*" "$answer"
}

peer_end()
{
	# shellcheck disable=SC2154 # by coproc
	local pid=$peer_PID

	exec {to_peer}>&- {from_peer}<&-
	wait "$pid"
}
