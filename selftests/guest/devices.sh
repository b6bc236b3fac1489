#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Wherever it stands, sockets whose packets get there with their owner lose nothing,
# and several shaped devices may hold one socket at the same time. Where the kernel
# takes packets from their sockets on the way, nobody is throttled: that is
# asserted too, as the documentation says so.
#
#	netns $pod                netns $tx                        netns $rx
#	+----------------+    +--------------------------+    +------------------+
#	|  eth0 ---------+----+- podhost       txdev ----+----+- rxdev           |
#	|  10.99.0.5     |    |                10.99.0.1 |    |  10.99.0.2       |
#	+----------------+    +--------------------------+    +------------------+
#
# Each place is made on top of it and taken away again.

# shellcheck source=lib/paths.sh
. "$(dirname "$0")/lib/paths.sh"
# shellcheck source=lib/bpf.sh
. "$here/lib/bpf.sh"

for side in "$tx txdev" "$rx rxdev"; do
	ip -n "${side% *}" link add vlan5 link "${side#* }" type vlan id 5
done
addresses vlan5 10.98.1.
lossless "under a vlan" "$tx" 10.98.1.2 "$tx" txdev
no_qdisc "$tx" txdev
lossless "on a vlan" "$tx" 10.98.1.2 "$tx" vlan5
gone vlan5

# One socket, two devices: packets alternate between the slaves.
for side in "$tx" "$rx"; do
	ip -n "$side" link add bond0 type bond mode balance-rr miimon 10
done
for slave in slave0 slave1; do
	ip link add $slave netns "$tx" type veth peer name $slave netns "$rx"
	must ip -n "$tx" link set $slave master bond0
	must ip -n "$rx" link set $slave master bond0
done
addresses bond0 10.98.2.
check "on both slaves of a bond: the receiver is reached" reach "$tx" 10.98.2.2
shape_at "$tx" slave0 "rate 5mbit"
lossless "on both slaves of a bond" "$tx" 10.98.2.2 "$tx" slave1
throttled_at "on the slower slave" "$tx" slave0
for slave in slave0 slave1; do
	shape_at "$tx" $slave "rate 8bit limit 4k"
done
in_netns "$tx" "$bpsocket" udp 10.98.2.2 many lo 30 >/tmp/held &
holder=$!
must wait_until 10 grep -q held /tmp/held
no_qdisc "$tx" slave0
sleep 0.5
check "with one slave's shaper gone the other holds on" kill -0 $holder
no_qdisc "$tx" slave1
check "with both gone nobody is held" wait_until 10 eval '! kill -0 $holder'
kill -9 $holder 2>/dev/null
wait $holder
check_num "and none is charged" $? == 0
lossless "on a bond" "$tx" 10.98.2.2 "$tx" bond0
gone bond0
ip -n "$tx" link del slave0
ip -n "$tx" link del slave1

pod_make
must ip -n "$tx" link add eth1 link txdev netns $pod type macvlan mode bridge
ip -n $pod addr add 10.99.0.6/24 dev eth1
ip -n $pod link set eth1 up
lossless "under a container's macvlan" $pod 10.99.0.2 "$tx" txdev
no_qdisc "$tx" txdev
lossless "on a container's macvlan" $pod 10.99.0.2 $pod eth1
ip -n $pod link del eth1
must ip -n "$tx" link add eth1 link txdev netns $pod type ipvlan mode l2
ip -n $pod addr add 10.99.0.6/24 dev eth1
ip -n $pod link set eth1 up
lossless "under a container's ipvlan" $pod 10.99.0.2 "$tx" txdev
no_qdisc "$tx" txdev
ip -n $pod link del eth1

ip -n $pod addr add 10.99.0.5/24 dev eth0
must ip -n "$tx" link add br0 type bridge
must ip -n "$tx" link set br0 up
must ip -n "$tx" link set txdev master br0
must ip -n "$tx" link set podhost master br0
ip -n "$tx" addr del 10.99.0.1/24 dev txdev
must ip -n "$tx" addr add 10.99.0.1/24 dev br0
lossless "on a member of a bridge, from a container" $pod 10.99.0.2 "$tx" txdev
lossless "on a member of a bridge, from the host" "$tx" 10.99.0.2 "$tx" txdev

# br_netfilter takes what a bridge forwards from its socket.
netfilter() { on_tx sysctl -qw net.bridge.bridge-nf-call-iptables="$1"; }

if modprobe br_netfilter 2>/dev/null; then
	netfilter 1
	unowned "on a member of a bridge with br_netfilter" $pod 10.99.0.2 "$tx" txdev
	lossless "on a member of a bridge with br_netfilter, from the host" \
		"$tx" 10.99.0.2 "$tx" txdev
	netfilter 0
	lossless "on a member of a bridge with br_netfilter that does not call iptables" \
		$pod 10.99.0.2 "$tx" txdev
	must rmmod br_netfilter	# or it is there for the tests that follow
else
	skip "on a member of a bridge with br_netfilter" "no br_netfilter"
fi
no_qdisc "$tx" txdev
lossless "on a bridge" "$tx" 10.99.0.2 "$tx" br0
no_qdisc "$tx" br0

# What comes in from the container is shaped, as it leaves an ifb.
must ip -n "$tx" link add ifb0 type ifb
must ip -n "$tx" link set ifb0 up
must on_tx tc qdisc add dev podhost clsact
must on_tx tc filter add dev podhost ingress matchall \
	action mirred egress redirect dev ifb0
lossless "on an ifb before a bridge, from a container" $pod 10.99.0.2 "$tx" ifb0
# XDP and GRO see a packet when it arrives at the host's end, before the ifb.
if bpf_is_here pass "on an ifb behind XDP"; then
	must ip -n "$tx" link set podhost xdp obj "$here/pass.bpf.o" sec xdp
	unowned "on an ifb behind XDP" $pod 10.99.0.2 "$tx" ifb0
	lossless "in a container, XDP at the host's end" $pod 10.99.0.2 $pod eth0
	no_qdisc $pod eth0
	must ip -n "$tx" link set podhost xdp off
fi
if in_netns $pod ethtool -K eth0 tso off 2>/dev/null &&
	on_tx ethtool -K podhost gro on 2>/dev/null; then
	kinds="--tcp 2" unowned "on an ifb behind GRO, TCP without TSO" \
		$pod 10.99.0.2 "$tx" ifb0
	in_netns $pod ethtool -K eth0 tso on
	lossless "on an ifb behind GRO, TCP with TSO" $pod 10.99.0.2 "$tx" ifb0
	on_tx ethtool -K podhost gro off
else
	skip "on an ifb behind GRO" "no ethtool, or no GRO for a veth"
fi
on_tx tc qdisc del dev podhost clsact
# At egress, redirection makes a copy, which has no owner.
must on_tx tc qdisc add dev txdev clsact
must on_tx tc filter add dev txdev egress matchall \
	action mirred egress redirect dev ifb0
unowned "on an ifb, redirected at egress" $pod 10.99.0.2 "$tx" ifb0
on_tx tc qdisc del dev txdev clsact
ip -n "$tx" link del ifb0
ip -n "$tx" link del br0

# Routed packets have lost their sockets when they come to the device.
must ip -n "$tx" addr replace 10.99.0.1/24 dev txdev
ip -n $pod addr del 10.99.0.5/24 dev eth0
ip -n $pod addr add 10.97.0.2/24 dev eth0
ip -n $pod route add default via 10.97.0.1
must ip -n "$tx" addr add 10.97.0.1/24 dev podhost
must ip -n "$rx" route add 10.97.0.0/24 via 10.99.0.1
on_tx sysctl -qw net.ipv4.ip_forward=1
unowned "on the device of a router" $pod 10.99.0.2 "$tx" txdev
no_qdisc "$tx" txdev
lossless "in the routed container" $pod 10.99.0.2 $pod eth0
ip netns del $pod

# Tunnels keep the owner of the inner packet; then also on both devices.
tunnel vxlan id 5 dstport 4789
tunnel gre
tunnel ipip
net=fd99:: tunnel ip6gre
must ip -n "$tx" link add tun0 type geneve id 5 remote 10.99.0.2
must ip -n "$rx" link add tun0 type geneve id 5 remote 10.99.0.1
tunnelled geneve
if modprobe l2tp_eth 2>/dev/null; then
	l2tp_tunnelled l2tp udp udp_sport 1701 udp_dport 1701
else
	skip l2tp "no l2tp_eth"
fi
if modprobe macsec 2>/dev/null; then
	macsec "$tx" txdev "$(mac_of "$rx" rxdev)"
	macsec "$rx" rxdev "$(mac_of "$tx" txdev)"
	addresses tun0 10.98.3.
	# It copies what has no room for its tag behind the data.
	kinds="--udp 4" lossless "under macsec, UDP" "$tx" 10.98.3.2 "$tx" txdev
	kinds="--tcp 2" unowned "under macsec, TCP" "$tx" 10.98.3.2 "$tx" txdev
	no_qdisc "$tx" txdev
	lossless "on macsec" "$tx" 10.98.3.2 "$tx" tun0
	gone tun0
else
	skip macsec "no macsec"
fi
under_esp "AES-GCM" transport "${aes_gcm[@]}"
if type -P wg >/dev/null && modprobe wireguard 2>/dev/null; then
	wireguard_make
	# Between socket and shaper is wireguard's own queue, of 1024 packets:
	# what send buffers hold beyond that it drops.
	sndbuf=212992
	tunnelled wireguard
	sndbuf=4194304
else
	skip "wireguard" "no wg"
fi

if modprobe vrf 2>/dev/null; then
	must ip -n "$tx" link add vrf0 type vrf table 10
	must ip -n "$tx" link set vrf0 up
	must ip -n "$tx" link set txdev master vrf0
	on_tx sysctl -qw net.ipv4.tcp_l3mdev_accept=1 net.ipv4.udp_l3mdev_accept=1 \
		net.ipv4.raw_l3mdev_accept=1
	must ip -n "$tx" route add 10.99.0.2 dev vrf0
	lossless "under a vrf" "$tx" 10.99.0.2 "$tx" txdev
	no_qdisc "$tx" txdev
	lossless "on a vrf" "$tx" 10.99.0.2 "$tx" vrf0
	ip -n "$tx" link del vrf0
else
	skip "under a vrf" "no vrf"
fi

# Devices with a process at the other end.
for kind in tun slip; do
	if ! modprobe $kind 2>/dev/null; then
		skip "on $kind" "no $kind"
		continue
	fi
	wire_start $kind
	ip link set "${ends[0]}" name wire0 netns "$tx"
	ip link set "${ends[1]}" name wire0 netns "$rx"
	must ip -n "$tx" link set wire0 mtu 1500
	must ip -n "$rx" link set wire0 mtu 1500
	must ip -n "$tx" addr add 10.98.4.1 peer 10.98.4.2 dev wire0
	must ip -n "$rx" addr add 10.98.4.2 peer 10.98.4.1 dev wire0
	must ip -n "$tx" link set wire0 up
	must ip -n "$rx" link set wire0 up
	lossless "on $kind" "$tx" 10.98.4.2 "$tx" wire0
	# A SLIP device stops when its line is full; a tun device drops.
	if [ $kind = slip ]; then
		options="limit 20k"
		lossless "on $kind as fast as it is" "$tx" 10.98.4.2 "$tx" wire0
	fi
	kill -KILL $wire
	wait $wire 2>/dev/null
done
finish
