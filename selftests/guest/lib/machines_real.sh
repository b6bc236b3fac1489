# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # for those who source it; by what is named below
#
# Two machines with a kernel (QEMU without KVM), by each way of attaching them, and what they send
# and what of that arrives. Sourced after common.sh, peers.sh, machines.sh and qemu.sh, never run.
#
#	machine 1 --- tap0 ---+
#	                      +--- as in machines.sh --- txdev (shaper) --- rxdev
#	machine 2 --- tap1 ---+
#
# Neighbours are permanent, so that all IPv4 packets are traffic.

machine_pid=() machine_answers=() machine_lines=()
real_places="bridge process zerocopy queues ovs macvtap ipvtap ifb"
rate=4		# Mbit/s
asked=12
probes=60	# pings
netdev=() address=() macs=() fds=() gateway='' state=state threads=1

# --- where they are attached: sets $netdev[] and $address[], options of QEMU's -netdev and IPv4 of each

# of_tap TAP [OPTIONS]
of_tap() { echo "tap,ifname=$1,script=no,downscript=no${2-,vhost=on,sndbuf=$bounded}"; }

# real_defaults: as on a bridge
real_defaults()
{
	local n

	shaped=txdev gateway='' state=state
	for n in 1 2; do
		address[n]=10.99.0.10$n
		macs[n]=02:00:00:00:01:0$n
		netdev[n]=$(of_tap tap$((n - 1)))
	done
	threads=1
}

# greedy SECONDS: a line that sends UDP
greedy() { echo "iperf -c 10.99.0.2 -u -b ${asked}m -l 1400 -t $1 >/dev/null"; }

# machine_greedy SECONDS: the same for machine 1, from each of its CPUs
machine_greedy()
{
	[ $threads = 2 ] || { greedy "$1"; return; }
	echo "taskset 1 $(greedy "$1") & taskset 2 $(greedy "$1"); wait"
}

# real_bridge_attach QUEUES: of tap0
real_bridge_attach()
{
	local tap

	taps_add "$1" tap0
	taps_add 1 tap1
	bridge_attach tap0 tap1
	for tap in tap0 tap1; do
		must bridge -n "$tx" link set dev $tap flood on mcast_flood on
	done
	# A frame to a MAC that the bridge does not know goes to all ports as copies without an owner.
	must bridge -n "$tx" fdb replace "$(mac_of "$rx" rxdev)" dev txdev master static
}

real_bridge() { real_bridge_attach 1; }

# QEMU itself writes to the taps, which have no send buffer.
real_process()
{
	real_bridge
	netdev=([1]=$(of_tap tap0 "") [2]=$(of_tap tap1 ""))
}

real_zerocopy()
{
	vhost_load experimental_zcopytx=1
	real_bridge
}

# Machine 1 has two queues and two CPUs, so its state is another one, and two threads that send.
real_queues()
{
	[ -e /opt/machine/state-queues ] || return 4
	real_bridge_attach 2
	threads=2
	netdev[1]+=,queues=2
	state="state-queues"
}

real_ovs()
{
	taps_add 1 tap0 tap1
	if ! ovs_attach tap0 tap1; then
		taps_remove tap0 tap1
		return 4
	fi
	# For what comes to the host.
	must ip -n "$tx" link set dp0 address "$(mac_of "$tx" txdev)" up
	on_tx sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.dp0.rp_filter=0
}

# real_lower KIND MODE
real_lower()
{
	local n fd

	for n in 1 2; do
		lower_attach "$1" "$2" lower$n
		if [ "$1" = macvtap ]; then
			must ip -n "$tx" link set lower$n address "${macs[n]}"
		else
			# All have that of txdev. What comes is divided by addresses.
			macs[n]=$(mac_of "$tx" txdev)
			must ip -n "$tx" addr add "${address[n]}/32" dev lower$n
		fi
		exec {fd}<>"$path"
		fds+=("$fd")
		netdev[n]=tap,fd=$fd,vhost=on,sndbuf=$bounded
	done
}

real_macvtap() { real_lower macvtap bridge; }
real_ipvtap() { real_lower ipvtap l2; }

# The host routes for its machines, after the shaper on the ifb.
real_ifb()
{
	local n

	taps_add 1 tap0 tap1
	ifb_attach tap0 tap1
	for n in 1 2; do
		address[n]=10.97.0.10$n
		routed_attach tap$((n - 1))
		macs[n + 2]=$mac
		must ip -n "$tx" route replace "${address[n]}/32" dev tap$((n - 1))
		must ip -n "$tx" neigh replace "${address[n]}" lladdr "${macs[n]}" \
			dev tap$((n - 1)) nud permanent
	done
	must ip -n "$rx" route replace 10.97.0.0/16 via 10.99.0.1
	gateway=10.97.0.1
}

# real_detach PLACE
real_detach()
{
	local n fd

	for n in 1 2; do
		machine_end $n
	done
	for fd in "${fds[@]}"; do
		exec {fd}>&-
	done
	fds=()
	[ "$shaped" != ifb0 ] || ifb_detach
	case $1 in
	*vtap) taps_remove lower1 lower2 ;;
	ovs) ovs_detach; taps_remove tap0 tap1 ;;
	ifb) taps_remove tap0 tap1 ;;
	*) bridge_detach; taps_remove tap0 tap1 ;;
	esac
	[ "$1" != zerocopy ] || vhost_load
}

# real_attach PLACE: with its machines; fails if there is no such place here
real_attach()
{
	local n

	fds=()
	real_defaults
	"real_$1"
	[ $? != 4 ] || return
	must ip -n "$tx" link set txdev up
	arrivals_count
	for n in 1 2; do
		[ $n = 1 ] || state=state
		machine_run $n "${netdev[n]}" $state && real_setup $n && continue
		kill -0 "${machine_pid[n]}" 2>/dev/null || bail_out "QEMU has ended: $(xargs <"/tmp/qemu$n")"
		bail_out "machine $n does not start: $(tail -n 3 "/tmp/machine$n" | xargs)"
	done
	machine_prefer 2
}

# machine_prefer N: its threads have the only CPU before others, so that its pings wait for the shaper
# and not for the emulation of another machine
machine_prefer()
{
	local task pid=${machine_pid[$1]}

	for task in "/proc/$pid/task/"* $(pgrep "^vhost-$pid"); do
		must chrt -f -p 10 "${task##*/}"
	done
}

# real_setup N: its addresses
real_setup()
{
	local next=${gateway:-10.99.0.2} next_mac

	next_mac=$(mac_of "$rx" rxdev)
	[ -z "$gateway" ] || next_mac=${macs[$1 + 2]}
	[ -n "$gateway" ] || must ip -n "$rx" neigh replace "${address[$1]}" \
		lladdr "${macs[$1]}" dev rxdev nud permanent
	# fq_codel, Debian's default, drops what is old in the machine.
	machine_do "$1" "sysctl -w net.ipv6.conf.all.disable_ipv6=1 >/dev/null &&
		sysctl -w net.core.default_qdisc=pfifo_fast >/dev/null &&
		ip link set eth0 address ${macs[$1]} && ip addr add ${address[$1]}/24 dev eth0 &&
		ip link set eth0 up && arp -s $next $next_mac
		${gateway:+&& ip route add default via $gateway}"
}

# --- what arrives

# arrivals_count: from the host (0) and from each machine, by filters of rxdev
arrivals_count()
{
	local n

	must tc -n "$rx" qdisc replace dev rxdev clsact
	address[0]=10.99.0.1
	for n in 0 1 2; do
		tc -n "$rx" filter del dev rxdev ingress pref $((10 + n)) 2>/dev/null
		must tc -n "$rx" filter add dev rxdev ingress pref $((10 + n)) protocol ip \
			flower src_ip "${address[n]}" action pass
	done
}

# arrived N WHAT: packets or bytes (without their Ethernet headers) from N so far
arrived()
{
	json_value "$2" "$(tc -n "$rx" -s -j filter show dev rxdev ingress pref $((10 + $1)))"
}

nothing_arrives()
{
	local before

	before=$(arrived "$1" packets)
	sleep 0.5
	[ "$(arrived "$1" packets)" = "$before" ]
}

# have_sent N...: 20 packets since ${before[@]}
have_sent()
{
	local n

	for n; do
		[ "$(arrived "$n" packets)" -ge $((before[n] + 20)) ] || return
	done
}

# --- measurements

# snmp N PROTOCOL COLUMN: a counter of a machine
snmp()
{
	machine_do "$1" "awk '/^$2: [0-9]/ { print \$$3 }' /proc/net/snmp >/tmp/count" &&
		machine_count "$1" /tmp/count
}

# difference BEFORE AFTER: nothing if the machine did not answer one of them
difference() { [ -z "$1" ] || [ -z "$2" ] || echo $(($2 - $1)); }

machine_packets() { snmp "$1" Ip 11; }
machine_retransmits() { snmp "$1" Tcp 13; }

# measure_udp N: for 3 s; sets $sent, packets that the machine counts itself, and $received
measure_udp()
{
	local before

	received=''
	before=$(arrived "$1" packets)
	sent=$(machine_packets "$1")
	machine_do "$1" "$(machine_greedy 3)" || return
	wait_until 20 nothing_arrives "$1"
	sent=$(difference "$sent" "$(machine_packets "$1")")
	received=$(($(arrived "$1" packets) - before))
}

# measure_tcp CC: of machine 1; sets $part of the rate, with headers, and $again, segments
measure_tcp()
{
	local bytes packets ns before=()

	part=''
	again=$(machine_retransmits 1)
	before[1]=$(arrived 1 packets)
	machine_do 1 "sysctl -w net.ipv4.tcp_congestion_control=$1 >/dev/null"
	machine_start 1 "iperf -c 10.99.0.2 -t 6 >/dev/null"
	wait_until 10 have_sent 1
	sleep 0.5
	ns=$(date +%s%N) bytes=$(arrived 1 bytes) packets=$(arrived 1 packets)
	sleep 4
	ns=$(($(date +%s%N) - ns))
	bytes=$(($(arrived 1 bytes) - bytes)) packets=$(($(arrived 1 packets) - packets))
	machine_wait 1 || return
	again=$(difference "$again" "$(machine_retransmits 1)")
	part=$(awk "BEGIN { print ($bytes + 14 * $packets) * 8e3 / $ns / $rate }")
}

# measure_shares N...: of the bytes that arrive in 2 s, when these have started; sets ${share[@]}
measure_shares()
{
	local n bytes=() before=() sum=0

	for n in 0 1 2; do before[n]=$(arrived $n packets); done
	wait_until 10 have_sent "$@"
	sleep 0.5
	for n in 0 1 2; do bytes[n]=$(arrived $n bytes); done
	sleep 2
	for n in 0 1 2; do
		bytes[n]=$(($(arrived $n bytes) - bytes[n]))
		sum=$((sum + bytes[n]))
	done
	for n in 0 1 2; do
		share[n]=$(awk "BEGIN { print ${bytes[n]} / ($sum + !$sum) }")
	done
}

# measure_halves: machine 1 beside a sender of the host, or behind an ifb beside machine 2
measure_halves()
{
	local pid=

	machine_start 1 "$(machine_greedy 7)"
	if [ "$shaped" = ifb0 ]; then
		machine_start 2 "$(greedy 7)"
		measure_shares 1 2
		machine_wait 2
	else
		on_tx sh -c "$(greedy 7)" &
		pid=$!
		measure_shares 0 1
		wait $pid
	fi
	machine_wait 1
}

# times: the median and the 99th percentile of what ping prints, in ms; "lost" if an answer is missing
times()
{
	sed -n 's/.* time=\([0-9.]*\) ms.*/\1/p' | sort -n | awk -v n=$probes '{ t[NR] = $1 }
		END { print NR == n ? t[int((NR + 1) / 2)] " " t[int(NR * 0.99 + 0.5)] : "lost lost" }'
}

ping="ping -i 0.05 -c $probes 10.99.0.2"

# measure_probe: ping of the host, unless its packets do not pass the shaper, and then of machine 2,
# beside machine 1; sets $host_p50, $host_p99, $guest_p50 and $guest_p99
measure_probe()
{
	machine_start 1 "$(machine_greedy 12)"
	sleep 1
	host_p50=null host_p99=null
	# shellcheck disable=SC2086 # words
	[ "$shaped" = ifb0 ] || read -r host_p50 host_p99 < <(on_tx $ping | times)
	machine_do 2 "$ping"
	read -r guest_p50 guest_p99 < <(machine_said 2 | times)
	machine_wait 1
}
