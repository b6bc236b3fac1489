#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The recipes of Documentation/classes.rst put packets into the class that they say, and no others.
# Commands and programs are taken from the page. $PARTS chooses.
#
#  1. nftables: a cgroup and those below it, by the rule for a cgroup; by a port
#  2. slice: cgroups as systemd makes them, by the script for units; what it refuses changes nothing
#  3. bpf: a cgroup, by a program; those below it; that of a container
#  4. v1: a cgroup of net_cls, and one of net_prio
#  5. skbedit: what an action at the device says

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/peers.sh
. "$(dirname "$0")/lib/peers.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/pod.sh
. "$(dirname "$0")/lib/pod.sh"
# shellcheck source=lib/bpf.sh
. "$(dirname "$0")/lib/bpf.sh"
# shellcheck source=lib/recipes.sh
. "$(dirname "$0")/lib/recipes.sh"
cgroups=/sys/fs/cgroup

# held NAME CGROUP: greedy senders there get the ceil of 1:20 beside others
held()
{
	in_cgroup $cgroups send --udp 4 --seconds 1.5 &
	in_cgroup "$2" peers 1.5 300 a:udp,sockets=4
	wait
	near "$1: greedy ones get the ceil" "$(got a_mbit)" 20 2
	lossless "$1" a
	check_num "$1: they are held" "$(stat throttles)" '>' 8
}

nothing_else_chooses()
{
	in_net nft flush ruleset 2>/dev/null
	on_tx tc qdisc del dev "${device:-txdev}" root 2>/dev/null
	must on_tx tc qdisc add dev "${device:-txdev}" root handle 1: bpshaper rate 100mbit default 30
	class 1: 1:10 floor 30mbit
	class 1: 1:20 floor 10mbit ceil 20mbit
	class 1: 1:30
}

part_nftables()
{
	nothing_else_chooses
	recipe "mkdir $cgroups/bulk$" END
	mkdir $cgroups/{bulk/below,other}
	goes "a cgroup, by nftables" 1:20 $cgroups/bulk
	goes "those below it" 1:20 $cgroups/bulk/below size=501
	goes "not other cgroups" 1:30 $cgroups/other size=502
	goes "not the root" 1:30 $cgroups size=503
	goes "the rule wins over SO_PRIORITY" 1:20 $cgroups/bulk class=1-10
	held "a cgroup, by nftables" $cgroups/bulk
	part_nftables_later
	must in_net nft -f - <<-END
		table inet shape {
			chain output {
				udp dport 1024 meta priority set 1:10
			}
		}
	END
	goes "a port, by nftables" 1:10 $cgroups size=507
	rmdir $cgroups/{bulk,other}
}

# What the page says of a cgroup that changes
part_nftables_later()
{
	local before

	before=$(class_packets 1:30)
	# shellcheck disable=SC2016 # the inner bash expands it
	in_net bash -c "exec 3>/dev/udp/$nobody/9; echo \$BASHPID >$cgroups/bulk/cgroup.procs
		echo >&3; echo >&3; echo >&3"
	check_num "a socket has the cgroup in which it was made" \
		$(($(class_packets 1:30) - before)) == 3 packets
	must rmdir $cgroups/bulk/below $cgroups/bulk
	mkdir $cgroups/bulk
	goes "a cgroup that was made again is another" 1:30 $cgroups/bulk size=504
	in_net nft flush ruleset
	recipe "nft -f - <<'" END
	goes "the rule is loaded again" 1:20 $cgroups/bulk size=505
}

# limit ARGUMENT...: the script of the page
limit() { in_net /usr/local/sbin/limit-cgroup "${device:-txdev}" "$@"; }

rules() { in_net nft list ruleset; }

# limit_refused NAME ARGUMENT...: one line, and nothing changed
limit_refused()
{
	local before said

	before=$(rules; on_tx tc class show dev txdev)
	said=$(limit "${@:2}" 2>&1) && not_ok "$1: refused" "it worked"
	check_num "$1: one line says so" "$(wc -l <<<"$said")" == 1 lines
	is "$1: nothing changed" "$before" "$(rules; on_tx tc class show dev txdev)"
}

# What systemd makes of a slice and of a service in it
part_slice()
{
	local slice=$cgroups/bulk.slice/run-u1.service ssh=$cgroups/system.slice/ssh.service

	nothing_else_chooses
	mkdir -p /usr/local/sbin $slice $ssh
	sed -n '/^    # limit-cgroup/,/^$/s/^    //p' "$page" | sed '1i #!/bin/bash -e' >/usr/local/sbin/limit-cgroup
	chmod +x /usr/local/sbin/limit-cgroup
	recipe "limit-cgroup eth0 1:40 bulk"
	goes "a service of a slice" 1:40 $slice
	goes "not that of another slice" 1:30 $ssh size=501
	held "a slice" $slice
	part_slice_again
	part_slice_service
	rmdir $slice $cgroups/bulk.slice $ssh $cgroups/system.slice
}

part_slice_again()
{
	local before

	before=$(rules)
	must limit 1:40 bulk.slice/ 20mbit
	is "the same again changes no rule" "$before" "$(rules)"
	must limit 1:40 bulk.slice 30mbit
	is "another ceil" 30Mbit "$(on_tx tc class show dev txdev classid 1:40 | grep -o '30Mbit')"
	limit_refused "a cgroup that is not there" 1:40 bulk 20mbit
	limit_refused "the root of cgroups" 1:40 / 20mbit
	limit_refused "no ceil" 1:40 system.slice
	limit_refused "a ceil that is none" 1:40 system.slice fast
	limit_refused "another qdisc" 2:40 system.slice 20mbit
	limit_refused "no number of a class" 1:zz
	must limit 1:40
	must limit 1:40
	is "without a cgroup the class goes" "" "$(on_tx tc class show dev txdev classid 1:40)"
	goes "and nothing chooses it" 1:30 $slice size=502
}

# unit_runs WORD: the lines of the unit's file
unit_runs()
{
	sed -n "s/^    $1=+//p" "$page" | sed "s/eth0/txdev/" >/tmp/unit
	[ -s /tmp/unit ] || not_ok "the page has $1"
	must in_net bash -e /tmp/unit
}

part_slice_service()
{
	local ssh=$cgroups/system.slice/foo.service

	mkdir $ssh
	unit_runs ExecStartPre
	goes "a service, by its path" 1:40 $ssh size=503
	goes "not its slice" 1:30 $cgroups/system.slice size=504
	rmdir $ssh
	mkdir $ssh
	goes "a new cgroup is another" 1:30 $ssh size=505
	unit_runs ExecStartPre
	goes "a service that has been restarted" 1:40 $ssh size=506
	unit_runs ExecStopPost
	unit_runs ExecStopPost
	is "a service that was stopped has no class" "" "$(on_tx tc class show dev txdev classid 1:40)"
	rmdir $ssh
}

# choose NAME CGROUP: the program NAME with the number of the cgroup, by the command of the page
choose()
{
	bpf_number "$1" "$(command stat -c %i "$2")" /tmp/bulk.o
	recipe "tc filter add dev eth0 parent 1: bpf"
}

part_bpf()
{
	bpf_is_here bulk "a cgroup, by a BPF program" || return
	nothing_else_chooses
	mkdir -p $cgroups/bulk.slice/run-u1.service
	choose bulk $cgroups/bulk.slice
	goes "a cgroup, by a BPF program" 1:20 $cgroups/bulk.slice
	goes "not those below it" 1:30 $cgroups/bulk.slice/run-u1.service size=501
	goes "not the root" 1:30 $cgroups size=502
	goes "SO_PRIORITY comes before it" 1:10 $cgroups/bulk.slice class=1-10
	nothing_else_chooses
	choose below $cgroups/bulk.slice
	goes "a cgroup and those below, by a BPF program" 1:20 $cgroups/bulk.slice/run-u1.service
	goes "and no other" 1:30 $cgroups size=503
	held "a BPF program" $cgroups/bulk.slice
	part_bpf_pod
	rmdir $cgroups/bulk.slice/run-u1.service $cgroups/bulk.slice
}

part_bpf_pod()
{
	local device=ifb0

	root_remove
	pod_make
	must ip -n "$tx" link add ifb0 type ifb
	must ip -n "$tx" link set ifb0 up
	pod_ingress matchall action mirred egress redirect dev ifb0
	nothing_else_chooses
	choose below $cgroups/bulk.slice
	pod_goes "a container's cgroup, at an ifb" 1:20 $cgroups/bulk.slice/run-u1.service
	pod_goes "not that of another container" 1:30 $cgroups
	pod_remove
	must ip -n "$tx" link del ifb0
}

part_v1()
{
	local v1=/run/cgroup-v1

	nothing_else_chooses
	recipe "mkdir $v1" "tc filter add .* cgroup$"
	goes "a cgroup of net_cls" 1:20 $v1/bulk
	goes "not the root of net_cls" 1:30 $v1 size=501
	must on_tx tc filter del dev txdev parent 1:
	goes "the filter has gone" 1:30 $v1/bulk size=502
	v1_net_prio
	rmdir $v1/bulk
	umount $v1
	rmdir $v1
}

# net_prio knows the devices of the first network namespace only, which is given a name here.
v1_net_prio()
{
	local tx=bps-first$$ device=firstdev

	must ip netns attach $tx $$
	must ip link add firstdev type dummy
	must ip addr add 10.97.0.1/24 dev firstdev
	must ip link set firstdev up
	must ip neigh replace 10.97.0.2 lladdr 02:00:00:00:00:01 dev firstdev nud permanent
	nothing_else_chooses
	recipe "echo .*net_prio"
	goes_first "a cgroup of net_prio" 1:20 $v1/bulk
	goes_first "not the root of net_prio" 1:30 $v1
	must ip link del firstdev
	must ip netns del $tx
}

# goes_first NAME CLASSID CGROUP: the same for three packets to that device
goes_first()
{
	local before

	before=$(class_packets "$2")
	in_cgroup "$3" bash -c 'exec 3>/dev/udp/10.97.0.2/9; echo >&3; echo >&3; echo >&3'
	check_num "$1" $(($(class_packets "$2") - before)) == 3 packets
}

part_skbedit()
{
	nothing_else_chooses
	must on_tx tc qdisc add dev txdev clsact
	must on_tx tc filter add dev txdev egress matchall action skbedit priority 1:10
	goes "an action at the device" 1:10 $cgroups
	must on_tx tc qdisc del dev txdev clsact
	goes "the action has gone" 1:30 $cgroups size=501
}

export PATH=$PATH:/usr/local/sbin
peers_topology
# What IPv6 says by itself would be counted.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
for part in ${PARTS:-nftables slice bpf v1 skbedit}; do
	"part_$part"
done
finish
