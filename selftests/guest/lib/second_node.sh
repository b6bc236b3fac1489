# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # by cni.sh, node.sh and cluster.sh
#
# A second node, with containerd and kubelet in a network and a mount namespace of its own.
# Sourced after cluster.sh, never run.
#
#	netns node2                      this namespace: API, the first node
#	+-------------------------+    +-------------------------+
#	|  node0 172.30.1.2 ------+----+-- uplink2 172.30.1.1    |
#	|  veths of its pods,     |    |                         |
#	|  10.89.0.0/16           |    |                         |
#	+-------------------------+    +-------------------------+
#
# Network namespaces of its pods are those of /run/netns here as well, for the traffic program.

# second_make: sets $on
second_make()
{
	must ip netns add node2
	must ip link add uplink2 type veth peer name node0 netns node2
	must ip addr add 172.30.1.1/24 dev uplink2
	must ip link set uplink2 up
	must ip -n node2 addr add $node_ip/24 dev node0
	must ip -n node2 link set node0 up
	must ip -n node2 link set lo up
	must ip -n node2 route add default via 172.30.1.1
	must ip -n node2 neigh replace 172.30.1.1 lladdr "$(ip link show dev uplink2 |
		awk '/link.ether/ { print $2 }')" dev node0 nud permanent
	# shellcheck disable=SC2016 # $dir is of that shell
	nsenter --net=/run/netns/node2 unshare -m --propagation unchanged bash -c '
		awk "{ print \$5 }" /proc/self/mountinfo | grep -v "^/run/netns" |
			xargs -n 1 mount --make-private
		for dir in /etc/cni/net.d /opt/cni/bin /run/{bpshaper,containerd,nri,runc} \
			/var/lib/{cni,containerd,kubelet} /var/log/{containers,pods}; do
			mkdir -p $dir /node2$dir
			mount --bind /node2$dir $dir || exit
		done
		touch /node2/made
		exec sleep infinity' &
	on=(nsenter -t $! -m -n)
	must wait_until 60 [ -e /node2/made ]
}

# second_start: without the plugin
second_start()
{
	local -x NETCONFPATH=/node2$NETCONFPATH

	mkdir -p $NETCONFPATH /node2/opt/cni/bin
	must cp $CNI_PATH/{host-local,portmap,ptp} /node2/opt/cni/bin
	net node ptp
	second_make
	start_containerd
	must wait_until 300 "${on[@]}" ctr version
	image_import $test_image /tmp/tiny '["/bin/busybox", "sleep", "1000000"]'
	image_import registry.example.org/bpshaper:1 /tmp/programs '["/bpshaper-agent"]'
	start_kubelet --kubeconfig $state/$node.conf
	later "the second node is Ready" node_is_ready
}

pod_is_ready()
{
	[ "$(pod_get "$1" "$2" | jq -r '.status.conditions[] | select(.type == "Ready").status')" = True ]
}

# chained PLUGIN: in the list of the second node
chained() { jq -e --arg type "$1" 'any(.plugins[]; .type == $type)' /node2$NETCONFPATH/node.conflist; }

second_install()
{
	refused "it has not the plugin" [ -e /node2$CNI_PATH/bpshaper ]
	sed "s|bpshaper:latest|bpshaper:1|; s|\"{}\"|'{ $keys }'|" "$here/kubernetes/cni.yaml" >/tmp/cni.yaml
	must kubectl --kubeconfig $state/admin.conf apply -f /tmp/cni.yaml >/dev/null
	account_create kube-system
	daemon_create bpshaper-cni cni2
	daemon_create bpshaper-agent agent2
	later "the pod of the DaemonSet bpshaper-cni is ready" pod_is_ready kube-system cni2
	pod_is_ready kube-system cni2 || {
		events kube-system cni2
		cat /node2/var/log/pods/kube-system_cni2_*/node-install/*.log
	} | sed 's/^/# /'
	check "it has put the plugin into the list" chained bpshaper
	later "the agent runs there, too" pod_is kube-system agent2 Running
}

second()
{
	local class_a class_b pod other

	net node ptp bpshaper "$keys"
	pod_start media first '"bpshaper/egress-floor": "1500kbit"'
	later "a pod of the first node has its floor" has media first 'floor 1500Kbit'
	other=$(class_line media first)

	local node=node2 node_ip=172.30.1.2 gateway=172.30.1.1 subnet=10.89.0.0/16 on=()
	second_start
	second_install
	pod_start media second-a '"bpshaper/egress-floor": "1500kbit"'
	later "a pod of the second node has as much, as floors are those of a node" \
		has media second-a 'floor 1500Kbit'
	must annotate media second-a '"bpshaper/egress-floor": null, "bpshaper/egress-weight": "3"'
	pod_start media second-b
	later "its weight there" has media second-a 'weight 3'
	later "another pod has what its agent sets by default" has media second-b 'prio 4'
	class_a=$(class_of media second-a) class_b=$(class_of media second-b)
	senders=()
	for pod in second-a second-b; do
		pod_sends $pod "$(netns_of media $pod)" 60
	done
	must wait_until 60 all_send "$class_a" "$class_b"
	rates "$class_a" "$class_b"
	part_near 0.75
	must annotate media second-b '"bpshaper/egress-weight": "3"'
	later "a change is in the class" has media second-b 'weight 3'
	rates "$class_a" "$class_b"
	part_near 0.5
	wait "${senders[@]}"
	for pod in second-a second-b; do
		loses_nothing $pod
		pod_delete media $pod
	done
	later "the pods go" eval '[ -z "$(left)" ]'
	on=()
	is "the class of the first node is as it was" "$other" "$(class_line media first)"
}
