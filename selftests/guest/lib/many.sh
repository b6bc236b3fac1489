# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# One process with many sockets that does what it is told (bpmany). Sourced after
# common.sh, never run.

# many_say WORD: prints the answer
many_say()
{
	local answer

	# shellcheck disable=SC2154 # by coproc
	echo "$1" >&"${many[1]}"
	read -t 600 -r answer <&"${many[0]}"
	[ -n "$answer" ] && echo "$answer"
}

# many_start SOCKETS [BYTES [UID]]: sets $many_answer, "open" if all of them are
many_start()
{
	many_answer=
	coproc many { on_tx "$bpmany" "$1" $nobody "${2:-1200}" "${3:-0}"; }
	read -t 600 -r many_answer <&"${many[0]}"
	[ "$many_answer" = open ] || not_ok "$1 sockets are open" "$many_answer"
}

many_end()
{
	# shellcheck disable=SC2154 # by coproc
	local pid=$many_PID

	# shellcheck disable=SC1083,SC2093 # an element of an array
	exec {many[1]}>&-
	wait "$pid"
}
