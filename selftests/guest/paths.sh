#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# "Where is the owner?" of limits.rst: the ways to a shaper that devices.sh, whose drawing
# holds here as well, does not have. First tunnels and aggregates, then what stands between
# a container and the device, then copies, then sockets of the kernel.

# shellcheck source=lib/paths.sh
. "$(dirname "$0")/lib/paths.sh"

# has NAME MODULE...: or NAME is skipped
has()
{
	local module

	for module in "${@:2}"; do
		modprobe "$module" 2>/dev/null || {
			skip "$1" "no $module"
			return 1
		}
	done
}

# link_start NETNS WORDS...: bplink there until links_end; false if the kernel lacks it
link_start()
{
	rm -f /tmp/bplink
	ip netns exec "$1" "$bplink" "${@:2}" >/tmp/bplink 2>&1 &
	links+=($!)
	wait_until 5 grep -q . /tmp/bplink
	grep -qx ready /tmp/bplink || {
		sed 's/^/# /' /tmp/bplink
		return 1
	}
}

links=()
links_end()
{
	kill "${links[@]}"
	wait "${links[@]}" 2>/dev/null
	links=()
}

# team: packets alternate between its ports
for slave in slave0 slave1; do
	ip link add $slave netns "$tx" type veth peer name $slave netns "$rx"
done
if has "on a team" team team_mode_roundrobin; then
	for side in "$tx" "$rx"; do
		must ip -n "$side" link add team0 type team
		must ip netns exec "$side" "$bplink" team team0
		for slave in slave0 slave1; do
			must ip -n "$side" link set $slave master team0
			must ip -n "$side" link set $slave up
		done
	done
	addresses team0 10.98.2.
	shape_at "$tx" slave0 "rate 5mbit"
	lossless "on both ports of a team" "$tx" 10.98.2.2 "$tx" slave1
	throttled_at "on the slower port" "$tx" slave0
	no_qdisc "$tx" slave0
	no_qdisc "$tx" slave1
	lossless "on a team" "$tx" 10.98.2.2 "$tx" team0
	gone team0
fi

# HSR and PRP clone what they send, for each of their slaves.
if has "on hsr" hsr; then
	for kind in "hsr version 1" "prp proto 1"; do
		for side in "$tx" "$rx"; do
			must ip -n "$side" link set slave0 up
			must ip -n "$side" link set slave1 up
			# shellcheck disable=SC2086 # words
			must ip -n "$side" link add hsr0 type hsr slave1 slave0 slave2 slave1 \
				supervision 45 ${kind#* }
		done
		kind=${kind%% *}
		addresses hsr0 10.98.2.
		unowned "on a slave of $kind" "$tx" 10.98.2.2 "$tx" slave0
		no_qdisc "$tx" slave0
		lossless "on $kind" "$tx" 10.98.2.2 "$tx" hsr0
		gone hsr0
	done
fi
ip -n "$tx" link del slave0
ip -n "$tx" link del slave1

! has "L2TPv3 over IP" l2tp_eth l2tp_ip || l2tp_tunnelled "L2TPv3 over IP" ip
! has sit sit || inner=fd98:: tunnel sit
if has "ipip in FOU" fou ipip; then
	for side in "$tx" "$rx"; do
		must ip -n "$side" fou add port 5555 ipproto 4
	done
	name="ipip in FOU" tunnel ipip encap fou encap-sport 5555 encap-dport 5555
fi
if has PPPoE pppoe; then
	for side in "$tx txdev $(mac_of "$rx" rxdev)" "$rx rxdev $(mac_of "$tx" txdev)"; do
		read -r netns device mac <<<"$side"
		must link_start "$netns" pppoe "$device" "$mac"
		must ip -n "$netns" link set ppp0 name tun0 mtu 1492
	done
	tunnelled PPPoE
	links_end
fi
under_esp "tunnel mode" tunnel "${aes_gcm[@]}"
under_esp "CBC with HMAC" transport enc 'cbc(aes)' 0x00112233445566778899aabbccddeeff \
	auth 'hmac(sha256)' 0x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
if link_start "$tx" espinudp && link_start "$rx" espinudp; then
	for side in "$tx" "$rx"; do	# what carries ESP is not in ESP
		must ip -n "$side" xfrm policy add proto udp dport 4500 dir in priority 1
	done
	under_esp "in UDP" transport "${aes_gcm[@]}" encap espinudp 4500 4500 0.0.0.0
else
	skip "under ESP, in UDP" "no ESP in UDP"
fi
links_end
if has "OpenVPN DCO" ovpn; then
	for side in "$tx 10.99.0.2 0" "$rx 10.99.0.1 1"; do
		read -r netns remote number <<<"$side"
		must ip -n "$netns" link add tun0 mtu 1400 type ovpn
		must ip -n "$netns" link set tun0 up
		must link_start "$netns" ovpn tun0 "$remote" "$number"
	done
	tunnelled "OpenVPN DCO"
	links_end
fi

# ipvlan has an address of another network, to which the host is the router in l3 and l3s.
pod_make
must ip -n "$rx" route add 10.97.0.0/24 via 10.99.0.1
for mode in l2 l3 l3s; do
	must ip -n "$tx" link add eth1 link txdev netns $pod type ipvlan mode $mode
	must ip -n $pod link set eth1 up
	if [ $mode = l2 ]; then
		must ip -n $pod addr add 10.99.0.6/24 dev eth1
	else
		must ip -n $pod addr add 10.97.0.2/24 dev eth1
		must ip -n $pod route add default dev eth1
		lossless "under an ipvlan of $mode" $pod 10.99.0.2 "$tx" txdev
		no_qdisc "$tx" txdev
	fi
	lossless "on an ipvlan of $mode" $pod 10.99.0.2 $pod eth1
	ip -n $pod link del eth1
done

# Actions at the egress of the device come before its shaper. At the other end the packet is
# made again what it was.
must on_tx tc qdisc add dev txdev clsact
must on_rx tc qdisc add dev rxdev clsact
for action in "ct|all|" "vlan push id 5|802.1q|vlan pop" \
	"mpls push label 16|mpls_uc|mpls pop protocol ip"; do
	IFS='|' read -r push protocol pop <<<"$action"
	# shellcheck disable=SC2086 # words
	if on_tx tc filter add dev txdev egress pref 1 protocol ip matchall action $push \
		2>/tmp/filter; then
		[ -z "$pop" ] || must on_rx tc filter add dev rxdev ingress pref 1 \
			protocol $protocol matchall action $pop
		lossless "behind act_${push%% *}" "$tx" 10.99.0.2 "$tx" txdev
		on_tx tc filter del dev txdev egress
		on_rx tc filter del dev rxdev ingress
	else
		skip "behind act_${push%% *}" "$(tail -n 1 /tmp/filter)"
	fi
done
on_rx tc qdisc del dev rxdev clsact

# copied NAME: what goes to ifb0 is a copy, and the original goes on to txdev
copied()
{
	shape_at "$tx" ifb0 "rate 1mbit"
	lossless "the original of $1" "$tx" 10.99.0.2 "$tx" txdev
	check_num "copies of $1: no socket is throttled" "$(at "$tx" ifb0 throttles)" == 0
	check_num "copies of $1: the pool drops" "$(at "$tx" ifb0 drops_pool)" '>' 0
	check_num "copies of $1: what has no owner is counted" \
		"$(at "$tx" ifb0 unheld_no_owner)" '>=' "$(at "$tx" ifb0 drops_pool)"
}

must ip -n "$tx" link add ifb0 type ifb
must ip -n "$tx" link set ifb0 up
must on_tx tc filter add dev txdev egress matchall action mirred egress mirror dev ifb0
copied "mirred mirror"
on_tx tc qdisc del dev txdev clsact
must ip -n "$tx" route add 10.96.0.1 dev ifb0
if on_tx nft -f - 2>/tmp/nft <<-'END'
	table ip copies {
		chain output {
			type filter hook output priority 0
			ip daddr 10.99.0.2 dup to 10.96.0.1 device ifb0
		}
	}
END
then
	copied "nft dup"
	on_tx nft delete table ip copies
else
	skip "nft dup" "$(head -n 1 /tmp/nft)"
fi
ip -n "$tx" link del ifb0

# nft fwd makes a wire of the two devices.
must ip -n $pod addr add 10.99.0.5/24 dev eth0
if on_tx nft -f - 2>/tmp/nft <<-'END'
	table netdev wire {
		chain from_pod {
			type filter hook ingress device podhost priority 0
			fwd to txdev
		}
		chain to_pod {
			type filter hook ingress device txdev priority 0
			fwd to podhost
		}
	}
END
then
	on_tx ip link set txdev promisc on
	lossless "behind nft fwd" $pod 10.99.0.2 "$tx" txdev
	on_tx nft delete table netdev wire
else
	skip "behind nft fwd" "$(head -n 1 /tmp/nft)"
fi

# A bridge that tracks connections puts fragments together, and makes new ones.
must ip -n "$tx" link add br0 type bridge
must ip -n "$tx" link set br0 up
must ip -n "$tx" link set txdev master br0
must ip -n "$tx" link set podhost master br0
modprobe nf_conntrack_bridge 2>/dev/null
if on_tx nft -f - 2>/tmp/nft <<-'END'
	table bridge tracks {
		chain forward {
			type filter hook forward priority 0
			ct state new,established accept
		}
	}
END
then
	lossless "on a bridge with nft conntrack" $pod 10.99.0.2 "$tx" txdev
	kinds="--udp 4 --gso 4" size=1200 lossless "on a bridge with nft conntrack, UDP_SEGMENT" \
		$pod 10.99.0.2 "$tx" txdev
	kinds="--udp 4" size=4000 some=1 unowned "on a bridge with nft conntrack, fragments" \
		$pod 10.99.0.2 "$tx" txdev
	echo "# fragments: throttles $(at "$tx" txdev throttles), of $(($(at "$tx" txdev packets) + \
		$(at "$tx" txdev drops))) packets $(at "$tx" txdev unheld_no_owner) have no owner"
	on_tx nft delete table bridge tracks
else
	skip "on a bridge with nft conntrack" "$(head -n 1 /tmp/nft)"
fi
no_qdisc "$tx" txdev 2>/dev/null
ip -n "$tx" link set txdev nomaster

# netkit: as a veth
ip -n $pod link del eth0
if ip -n "$tx" link add podhost type netkit mode l2 peer name eth0 netns $pod 2>/tmp/netkit; then
	must ip -n "$tx" link set podhost master br0 up
	must ip -n "$tx" link set txdev master br0
	must ip -n $pod link set eth0 up
	must ip -n $pod addr add 10.99.0.5/24 dev eth0
	lossless "in a container with a netkit" $pod 10.99.0.2 $pod eth0
	no_qdisc $pod eth0
	lossless "on a bridge, from a netkit" $pod 10.99.0.2 "$tx" txdev
	no_qdisc "$tx" txdev
	must ip -n "$tx" link add ifb0 type ifb
	must ip -n "$tx" link set ifb0 up
	must on_tx tc qdisc add dev podhost clsact
	must on_tx tc filter add dev podhost ingress matchall \
		action mirred egress redirect dev ifb0
	lossless "on an ifb, from a netkit" $pod 10.99.0.2 "$tx" ifb0
	ip -n "$tx" link del ifb0
	on_tx tc qdisc del dev podhost clsact
	# What the host routes has no owner, as of a veth.
	ip -n "$tx" link set podhost nomaster
	ip -n "$tx" link set txdev nomaster
	must ip -n "$tx" addr add 10.97.0.1/24 dev podhost
	must ip -n $pod addr add 10.97.0.2/24 dev eth0
	must ip -n $pod addr del 10.99.0.5/24 dev eth0
	must ip -n $pod route add default via 10.97.0.1
	on_tx sysctl -qw net.ipv4.ip_forward=1
	unowned "on the device of a router, from a netkit" $pod 10.99.0.2 "$tx" txdev
	no_qdisc "$tx" txdev
else
	skip "netkit" "$(head -n 1 /tmp/netkit)"
fi
ip -n "$tx" link del br0
ip netns del $pod

# NVMe over TCP: the kernel's own socket is held as any other. nvmet listens in $rx. nsenter
# leaves /sys as it is, and configfs with it.
nvme_target()
{
	local config=/sys/kernel/config target

	mountpoint -q $config || mount -t configfs none $config || return
	target=$config/nvmet/subsystems/bps
	truncate -s 8M /tmp/nvme
	mkdir $target $target/namespaces/1 $config/nvmet/ports/1 &&
		echo 1 >$target/attr_allow_any_host &&
		echo /tmp/nvme >$target/namespaces/1/device_path &&
		echo 1 >$target/namespaces/1/buffered_io &&
		echo 1 >$target/namespaces/1/enable &&
		cd $config/nvmet/ports/1 || return
	echo tcp >addr_trtype
	echo ipv4 >addr_adrfam
	echo 10.99.0.2 >addr_traddr
	echo 4420 >addr_trsvcid
	nsenter --net="/run/netns/$rx" ln -s $target subsystems/bps
}

nvme_block() { compgen -G '/sys/class/block/nvme*n1'; }

if has "NVMe over TCP" configfs nvmet-tcp nvme-tcp && check "NVMe has a target" nvme_target; then
	shape_at "$tx" txdev "rate 20mbit limit 20k"
	echo "transport=tcp,traddr=10.99.0.2,trsvcid=4420,nqn=bps,nr_io_queues=1" |
		nsenter --net="/run/netns/$tx" tee /dev/nvme-fabrics >/dev/null
	check "NVMe over TCP connects" wait_until 10 nvme_block
	disk=$(basename "$(nvme_block)")
	head -c 1M /dev/urandom >/tmp/written
	check "NVMe over TCP writes" dd if=/tmp/written of="/dev/$disk" bs=128k oflag=direct
	head -c 1M /tmp/nvme >/tmp/read
	check "what was written is there" cmp /tmp/written /tmp/read
	throttled_at "NVMe over TCP" "$tx" txdev
	echo 1 >"/sys/class/nvme/${disk%n1}/delete_controller"
	(cd /sys/kernel/config/nvmet && rm ports/1/subsystems/bps &&
		rmdir ports/1 subsystems/bps/namespaces/1 subsystems/bps)
	must modprobe -r nvmet-tcp nvme-tcp
fi
finish
