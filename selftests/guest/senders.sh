#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Programs that keep nothing when a send buffer is full: chronyd, tinc, rtpengine, aiocoap and
# Tcl, unmodified. Each sends five bursts, from a socket that was idle, beside TCP that takes all
# that is left of the rate.
#
# 1. A burst is no more than a shaper can queue: all packets arrive through cake, but one in a
#    hundred, which its AQM may take.
# 2. All packets arrive through bpshaper, without an exception.
# 3. TCP beside them has at least 8/10 of the rate meanwhile.
# 4. bpshaper drops nothing.
# 5. No socket is held afterwards.
#
# What arrives through tbf is printed. Only with selftests/vm/senders-bundle. $RATE in Mbit/s,
# the number of TCP streams ($STREAMS) and $PROGRAMS can be chosen.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

rate=${RATE:-10} streams=${STREAMS:-3}	# Mbit/s; of TCP
export BURSTS=5 GAP=1.5 COUNT=40 SIZE=600
programs=${PROGRAMS:-chronyd tinc rtpengine aiocoap tcl}
daemons=()

# daemon_start NETNS COMMAND...: until daemons_end
daemon_start()
{
	ip netns exec "$@" >>/tmp/daemons 2>&1 &
	daemons+=($!)
}

daemons_end()
{
	[ ${#daemons[@]} -gt 0 ] || return
	kill "${daemons[@]}"
	wait "${daemons[@]}"
	daemons=()
}

# peer NETNS ARGUMENTS...: of lib/senders.py
peer() { ip netns exec "$1" python3 "$here/lib/senders.py" "${@:2}"; }

# is_bound NETNS PORT: has UDP socket this port?
is_bound() { ip netns exec "$1" ss -Hlun "sport = :$2" | grep -q .; }

# received PORT COMMAND...: what comes there meanwhile, and a second later
received()
{
	local receiver

	ip netns exec "$rx" python3 "$here/lib/senders.py" receive "$1" >/tmp/arrived &
	receiver=$!
	must wait_until 20 is_bound "$rx" "$1"
	"${@:2}" >>/tmp/daemons 2>&1
	sleep 1
	kill "$receiver"
	wait "$receiver"
}

# Programs: NAME_start, if it is a daemon, and NAME_burst, after which /tmp/arrived says how many
# packets have arrived. /tmp/daemons has what they print.

chronyd_start()
{
	printf '%s\n' "allow 10.99.0.0/24" "local stratum 8" "pidfile /tmp/chronyd.pid" \
		"bindcmdaddress /" "cmdport 0" >/tmp/chrony.conf
	daemon_start "$tx" chronyd -d -x -u root -f /tmp/chrony.conf
	must wait_until 20 is_bound "$tx" 123
}

chronyd_burst() { peer "$rx" send 10.99.0.1 123 7000 ntp >/tmp/arrived; }

# tinc_node NAME PEER ADDRESS: its directory, and its end of the tunnel
tinc_node()
{
	local dir=/tmp/tinc.$1

	mkdir -p "$dir/hosts"
	printf '%s\n' "Name = $1" "AddressFamily = ipv4" "Interface = tunnel" "DeviceType = tun" \
		"ConnectTo = $2" >"$dir/tinc.conf"
	printf '%s\n' "Address = 10.99.0.$3" "Subnet = 10.98.0.$3/32" "PMTUDiscovery = no" \
		>"$dir/hosts/$1"
	yes '' | tincd -c "$dir" -K1024 >>/tmp/daemons 2>&1
	must ip -n "${!1}" tuntap add dev tunnel mode tun
	must ip -n "${!1}" addr add "10.98.0.$3/24" dev tunnel
	must ip -n "${!1}" link set tunnel up
}

tinc_start()
{
	local node

	modprobe tun
	tinc_node tx rx 1
	tinc_node rx tx 2
	cp /tmp/tinc.tx/hosts/tx /tmp/tinc.rx/hosts
	cp /tmp/tinc.rx/hosts/rx /tmp/tinc.tx/hosts
	for node in rx tx; do
		daemon_start "${!node}" tincd -c "/tmp/tinc.$node" -D -d3 --pidfile="/tmp/tinc.$node/pid"
	done
	must wait_until 30 grep -q "Connection with .* activated" /tmp/daemons
}

tinc_burst() { received 7002 peer "$tx" send 10.98.0.2 7002 7000 rtp; }

rtpengine_start()
{
	daemon_start "$tx" rtpengine --config-file=none --foreground --log-stderr --table=-1 \
		--interface=10.99.0.1 --listen-ng=127.0.0.1:2223 --num-threads=1 \
		--port-min=30000 --port-max=30100 --pidfile=/tmp/rtpengine.pid
	must wait_until 60 is_bound "$tx" 2223
	port=$(peer "$tx" rtpengine 7000 7002)
}

rtpengine_burst() { received 7002 peer "$rx" send 10.99.0.1 "$port" 7000 rtp; }

aiocoap_burst()
{
	received 5683 on_tx env PYTHONPATH="$here/aiocoap.whl" PYTHONWARNINGS=ignore \
		python3 "$here/lib/senders.py" coap 10.99.0.2
}

tcl_burst()
{
	cat >/tmp/burst.tcl <<-'END'
		package require udp
		set channel [udp_open]
		fconfigure $channel -remote {10.99.0.2 7002} -blocking 0 -translation binary
		for {set burst 0} {$burst < $env(BURSTS)} {incr burst} {
			for {set packet 0} {$packet < $env(COUNT)} {incr packet} {
				puts -nonewline $channel [string repeat x $env(SIZE)]
				flush $channel
			}
			after [expr {int($env(GAP) * 1000)}]
		}
	END
	received 7002 on_tx tclsh8.6 /tmp/burst.tcl
}

# bursts_through PROGRAM QDISC...: sets $arrived; TCP is there meanwhile
bursts_through()
{
	local background

	shape "${@:2}"
	traffic_try --tcp "$streams" --seconds 11 &
	background=$!
	sleep 0.5
	"$1_burst"
	arrived=$(</tmp/arrived)
	wait "$background"
	echo "# $1 through $2: $arrived of $sent packets, beside TCP with" \
		"$(result tcp_goodput_mbit_per_s) Mbit/s"
}

# program NAME PACKETS FILE: so many in a burst; FILE is what it cannot do without
program()
{
	local failed=$tap_failed sent=$((BURSTS * $2)) arrived

	[[ " $programs " == *" $1 "* ]] || return
	[ -e "$3" ] || {
		skip "$1 loses nothing" "there is no $3"
		return
	}
	COUNT=$2
	: >/tmp/daemons
	if declare -F "$1_start" >/dev/null; then
		"$1_start"
	fi
	bursts_through "$1" tbf rate "${rate}mbit" burst 20kb latency 50ms
	bursts_through "$1" cake bandwidth "${rate}mbit"
	check_num "$1: all but one in a hundred arrive through cake" "$arrived" '>=' $((sent * 99 / 100))
	bursts_through "$1" bpshaper rate "${rate}mbit"
	check_num "$1: all packets arrive through bpshaper" "$arrived" == "$sent"
	check_num "$1: TCP has most of the rate" "$(result tcp_goodput_mbit_per_s)" '>=' $((rate * 8 / 10))
	check_num "$1: bpshaper drops nothing" "$(stat drops)" == 0
	check "$1: no socket is held afterwards" wait_until 10 no_socket_is_held
	[ "$tap_failed" = "$failed" ] || tail -n 20 /tmp/daemons | sed 's/^/# /'
	daemons_end
}

type -P python3 >/dev/null || skip_all "python3 is not here: selftests/vm/senders-bundle"
topology_make
program chronyd 64 /usr/bin/chronyd
program tinc 40 /usr/bin/tincd
program rtpengine 40 /usr/bin/rtpengine
program aiocoap 40 "$here/aiocoap.whl"
program tcl 40 /usr/bin/tclsh8.6
finish
