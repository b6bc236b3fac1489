# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and by part_*, which set $name
#
# Containers, and what Documentation/containers.rst says of them. Sourced after common.sh and
# classes.sh, never run.

page=$here/containers.rst
tiny=/run/tiny
started=()

# --- what the page says

# page_file PATH: write the file that the page shows behind its path
page_file()
{
	mkdir -p "${1%/*}"
	awk -v path="\`\`$1\`\`" '
		/^[^ ]/ { if (shown) exit; if (index($0, path)) named = 1; if ($0 == "") named = 0 }
		named && /::$/ { shown = 1; next }
		shown { sub(/^    /, ""); print }' "$page" | sed -e '1{/^$/d}' -e '${/^$/d}' >"$1"
	[ -s "$1" ] || not_ok "the page shows $1"
	! grep -q '^#!' "$1" || chmod +x "$1"
}

# page_lines FROM [TO]: from the first line that begins so to the next that begins so, or that one
# alone. If there is none, a command that fails.
page_lines()
{
	from="^    $1" to="^    ${2-}" awk '
		$0 ~ ENVIRON["from"] { on = 1 }
		on && /^    / { print substr($0, 5); found = 1 }
		on && $0 ~ ENVIRON["to"] { exit }
		END { if (!found) print "the-page-has-none" }' "$page"
}

# page_run NAME OPTIONS IMAGE COMMAND LINES: run the commands with another name, more options, and an
# image
page_run()
{
	sed -e "s/--name web/--name $1 $2/" -e "s|IMAGE|$3 sleep 1000|" <<<"$4" >/tmp/recipe
	must bash -e /tmp/recipe >/tmp/said 2>&1 || cat /tmp/said
}

# --- containers

# tiny_make: a root of a single program
tiny_make()
{
	mkdir -p $tiny/{bin,dev,etc,proc,run,sys,tmp,usr,var}
	cp "$(type -P busybox)" $tiny/bin
	ln -s busybox $tiny/bin/sh
	ln -s busybox $tiny/bin/sleep
	touch $tiny/etc/os-release /usr/lib/os-release
	echo 0123456789abcdef0123456789abcdef >/etc/machine-id
}

# left: devices and shapers of containers that there are, a line each
left()
{
	ip -o link | sed -n 's/^[0-9]*: \(\(v\|ifb\)[^:]*\).*/\1/p'
	tc qdisc show | grep -E 'bpshaper|clsact' | grep -v 'dev eth0'
}

# attached PID: the network namespace of the container is $name
attached()
{
	ip netns del "$name" 2>/dev/null
	must ip netns attach "$name" "$1"
	started+=("$name")
}

# traffic OPTIONS...: between namespaces; none is that of the host
traffic()
{
	: >"$report"
	must "$traffic" --json "$report" --udp 4 --size 1400 --seconds "${seconds:-1}" "$@"
}

# rate_is DIRECTION RATE
rate_is()
{
	near "$name, $1" "$(result udp_wire_goodput_mbit_per_s)" "$2" 2
	check_num "$name, $1: nothing is lost" "$(result udp_lost_packets)" == 0 packets
}

# limited WHERE HOST POD: what it sends is limited at WHERE, a device in the namespace or at the host
limited()
{
	local shaper=(tc -s -j qdisc show dev "$1" root)

	traffic --tx-netns "$name" --dst "$2"
	rate_is "from it" 20
	[[ $1 == ifb* ]] || shaper=(ip netns exec "$name" "${shaper[@]}")
	check_num "$name: its sockets are held" "$("${shaper[@]}" | json_get throttles)" '>' 8
	traffic --rx-netns "$name" --dst "$3"
	rate_is "to it" 30
}

# unlimited: a container without the words that a recipe looks for
unlimited()
{
	is "$name, which did not ask for limits, has none" "" "$(left | grep bpshaper)"
}

# quiet COMMAND...: for must, whose results are printed
quiet() { "$@" >/dev/null; }

# refused NAME COMMAND...: the command fails
refused()
{
	if "${@:2}" >/tmp/refused 2>&1; then
		not_ok "$1" "it succeeds: ${*:2}"
	else
		ok "$1"
	fi
}

# ended: and with it all that there was for it
ended()
{
	ip netns del "$name" 2>/dev/null
	wait_until 20 nothing_left
	is "$name has ended: nothing is left" "" "$(left)"
}

nothing_left() { [ -z "$(left)" ]; }

# host_address DEVICE: of the gateway of containers
host_address() { ip -o -4 addr show dev "$1" | awk '{ sub("/.*", "", $4); print $4; exit }'; }
address() { ip -n "$name" -o -4 addr show dev eth0 | awk '{ sub("/.*", "", $4); print $4; exit }'; }

namespaces_remove()
{
	local name

	for name in "${started[@]}"; do
		ip netns del "$name" 2>/dev/null
	done
}
trap 'namespaces_remove; topology_remove' EXIT
