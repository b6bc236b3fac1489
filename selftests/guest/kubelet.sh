#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A node without an API: containerd, and kubelet with static pods. node-install puts the plugin into
# a file of the network's directory (/etc/cni/net.d/node/bpshaper.conf), which libcni reads from 1.3 on.
#
#  1. containerd reads the file, and reads it again when node-install changes it. A static pod has
#     weight and floor of the file, and as its ceil the annotation.
#  2. Static pods send all they can: two divide by weight, within 2 %, a third one is between floor and
#     ceil. No socket loses a packet, also while kubelet is killed.
#  3. kubelet comes back: it starts a pod whose file came meanwhile, and the classes of others are the same.
#  4. The class of a static pod goes with its file.
#  5. A pod that crictl runs has a class, which stopp removes. kubelet is stopped then, because it
#     removes pods that it does not know.
#  6. Of pods that went nothing is left.
#
# Real time on several CPUs: parts and losses are asserted, and no times.

# shellcheck source=lib/root.sh
. "$(dirname "$0")/lib/root.sh"
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"
# shellcheck source=lib/node.sh
. "$(dirname "$0")/lib/node.sh"

installer=
# shellcheck disable=SC2034 # of later
patience=120

# stop PID: of a background job
stop()
{
	kill -9 "$1"
	wait "$1" 2>/dev/null
}

# plugin_install KEYS: as the DaemonSet bpshaper-cni does
plugin_install()
{
	[ -z "$installer" ] || stop "$installer"
	CONFIG=file KEYS="{ \"node\": {\"rate\": \"2mbit\"}, \"latency\": \"1s\", $1 }" \
		/tmp/bpshaper node-install >>/out/install.log 2>&1 &
	installer=$!
}

# chained KEY VALUE: containerd has this in the plugin bpshaper of its network
chained()
{
	crictl info | jq -e --arg key "$1" --argjson value "$2" '.cniconfig.Networks[].Config.Plugins[]
		| select(.Network.type == "bpshaper").Source | fromjson | .[$key] == $value'
}

# static_pod POD [ANNOTATIONS]: members of JSON
static_pod()
{
	cat >"/tmp/$1.json" <<-END
		{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "$1", "annotations": { ${2-} } },
		  "spec": { "terminationGracePeriodSeconds": 1, "dnsPolicy": "Default",
			"enableServiceLinks": false,
			"containers": [ { "name": "c", "image": "$test_image" } ] } }
	END
	mv "/tmp/$1.json" "$state/pods"
}

# netns_of POD
netns_of()
{
	netns_with "$(crictl inspectp "$(sandbox "$1")" | jq -r .status.network.ip)"
}

sandbox() { crictl pods -q --state ready --name "^$1\$"; }
runs() { [ "$(crictl ps -q --pod "$(sandbox "$1")" | wc -l)" = 1 ]; }

static_pods()
{
	plugin_install '"weight": 20'
	later "containerd reads the file of the network's directory" chained weight 20
	is "which its list does not have" 0 "$(grep -c bpshaper $NETCONFPATH/node.conflist)"
	static_pod a
	later "a static pod has the weight of the file" has default a-node1 'weight 20'
	plugin_install '"weight": 60'
	later "containerd reads the file when it has changed" chained weight 60
	static_pod b
	later "the next pod has its weight" has default b-node1 'weight 60'
	plugin_install '"weight": 2, "floor": "150kbit"'
	later "containerd reads it again" chained floor '"150kbit"'
	static_pod c '"kubernetes.io/egress-bandwidth": "160k"'
	later "a pod has the floor of the file" has default c-node1 'floor 150Kbit'
	check "and as its ceil the annotation" has default c-node1 'ceil 160Kbit'
	for pod in a b c; do
		later "crictl ps has the container of $pod" runs $pod-node1
	done
	is "crictl pods has them" "a-node1 b-node1 c-node1" \
		"$(crictl pods -o json | jq -r '[.items[].metadata.name] | sort | join(" ")')"
	is "crictl info: runtime and network are ready" "true true" \
		"$(crictl info | jq -r '[.status.conditions[] | select(.type | test("^(Runtime|Network)Ready$")).status
			| tostring] | join(" ")')"
}

# --- 2, 3

classes() { for pod in a b c; do class_line default $pod-node1; done; }

killed()
{
	must pkill -9 -x kubelet
	static_pod d
	later "kubelet that was killed starts a pod whose file came meanwhile" has default d-node1 'floor 150Kbit'
}

shares()
{
	local pod before

	for pod in a b c; do
		neighbour_set "$(netns_of $pod-node1)"
		pod_sends $pod "$(netns_of $pod-node1)" 45
	done
	# shellcheck disable=SC2046 # words
	set -- $(for pod in a b c; do class_of default $pod-node1; done)
	must wait_until 60 all_send "$@"
	rates "$@"
	part_near 0.25
	# By weight it would have 49 without its floor, and 195 without its ceil.
	check_num "the third one has its floor, within 10 %" "${rates[2]}" '>=' 135 kbit/s
	check_num "and not more than its ceil, within 2 %" "${rates[2]}" '<=' 163 kbit/s
	before=$(classes)
	killed
	is "the classes of the others are the same" "$before" "$(classes)"
	wait "${senders[@]}"
	for pod in a b c; do
		loses_nothing $pod
	done
	is "the ifb drops nothing" 0 "$(json_value drops "$(tc -s -j qdisc show dev bps-node root)")"
}

# --- 4, 5, 6

is_class() { tc class show dev bps-node | grep -q "^class bpshaper $1 "; }
class_count() { tc class show dev bps-node | grep -c '^class .* weight'; }

file_removed()
{
	local class

	class=$(class_of default b-node1)
	rm $state/pods/b.json
	later "a static pod whose file goes loses its class" eval "! is_class $class"
	is "three pods have classes" 3 "$(class_count)"
}

crictl_pod()
{
	local pod class

	stop "$kubelet"
	must pkill -9 -x kubelet
	cat >/tmp/pod.json <<-END
		{ "metadata": { "name": "by-hand", "namespace": "hands", "uid": "1" },
		  "annotations": { "kubernetes.io/egress-bandwidth": "170k" },
		  "dns_config": { "servers": [ "$gateway" ] }, "linux": { "cgroup_parent": "/hands" } }
	END
	pod=$(crictl runp /tmp/pod.json) || {
		not_ok "crictl runp makes a pod"
		return
	}
	is "crictl runp makes a pod" SANDBOX_READY "$(crictl inspectp "$pod" | jq -r .status.state)"
	check "it has a class with its annotation" has hands by-hand 'ceil 170Kbit'
	is "it is one of four" 4 "$(class_count)"
	class=$(class_of hands by-hand)
	check "crictl stopp" crictl stopp "$pod"
	refused "its class is gone" is_class "$class"
	is "and no other" 3 "$(class_count)"
	check "crictl rmp" crictl rmp "$pod"
	check "crictl removes the others" crictl rmp -fa
	nothing_is_left "the node without pods"
	check "the module can be removed" wait_until 10 rmmod sch_bpshaper
}

cni_version=1.1.0
must cp /opt/cni/bin-1.1.0/* $CNI_PATH
must mv $CNI_PATH/bpshaper /tmp
must sysctl -qw net.core.netdev_max_backlog=100000
must modprobe sch_bpshaper
net node ptp
mkdir -p /node $state/pods
ln -s $CNI_PATH /node/bin && ln -s $NETCONFPATH /node/net.d
node_prepare
echo "staticPodPath: $state/pods" >>$state/kubelet.yaml
printf '%s\n' "runtime-endpoint: unix:///run/containerd/containerd.sock" "timeout: 120" >/etc/crictl.yaml
node_start
start_kubelet
kubelet=$!
static_pods
[ "$tap_failed" = 0 ] || finish
shares
file_removed
crictl_pod
finish
