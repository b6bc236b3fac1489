# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# A node of Kubernetes: containerd and kubelet, images, and the classes of pods. Sourced after
# cni.sh, never run.

state=/var/lib/cluster
test_image=registry.example.org/tiny:1
# shellcheck disable=SC2034 # of ptp
gateway=10.88.0.1
# Which node is meant: second_node.sh has another one.
node=node1 node_ip=172.30.0.1
senders=()
patience=600

# later NAME COMMAND...: what waits for programs that start, in real time
later() { check "$1" wait_until $patience "${@:2}"; }

# --- programs

# launch COMMAND...: it is started again when it ends, as systemd does. Its log is /out/NODE-COMMAND.log
launch()
{
	while :; do
		"${on[@]}" "$@" >>"/out/$node-$1.log" 2>&1
		sleep 1
	done &>/dev/null &
}

start_containerd() { launch containerd --log-level warn; }

# start_kubelet OPTIONS...
start_kubelet()
{
	launch kubelet --config $state/kubelet.yaml --hostname-override $node \
		--node-ip $node_ip "$@"
}

# --- configuration

node_prepare()
{
	# Network namespaces are in the one for ip, in the other for containerd.
	rmdir /var/run 2>/dev/null && ln -s /run /var/run
	# ip would bind it later, over the namespaces of pods.
	must mkdir -p /run/netns
	must mount --bind /run/netns /run/netns
	must mount --make-shared /run/netns
	must ip link add node0 type dummy
	must ip addr add $node_ip/24 dev node0
	must ip link set node0 up
	mkdir -p $state /etc/containerd
	cat >$state/kubelet.yaml <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: { anonymous: { enabled: false }, webhook: { enabled: false } }
		authorization: { mode: AlwaysAllow }
		cgroupDriver: cgroupfs
		cgroupsPerQOS: false
		enforceNodeAllocatable: []
		failSwapOn: false
		localStorageCapacityIsolation: false
		imageGCHighThresholdPercent: 100
		evictionHard: { memory.available: 1Mi }
		runtimeRequestTimeout: 10m
		nodeStatusUpdateFrequency: 5s
		resolvConf: ""
		featureGates: { KubeletCrashLoopBackOffMax: true }
		crashLoopBackOff: { maxContainerRestartPeriod: 1s }
	END
	cat >/etc/containerd/config.toml <<-END
		version = 3
		[plugins.'io.containerd.cri.v1.images']
		snapshotter = 'native'
		[plugins.'io.containerd.cri.v1.images'.pinned_images]
		sandbox = '$test_image'
		[plugins.'io.containerd.cri.v1.runtime'.cni]
		use_internal_loopback = true
	END
}

# --- images

# image_import NAME DIR COMMAND: the root in DIR
image_import()
{
	local to=/tmp/image

	rm -rf $to && mkdir $to
	tar -C "$2" -cf $to/layer.tar .
	cat >$to/config.json <<-END
		{ "architecture": "amd64", "os": "linux", "config": { "Entrypoint": $3 },
		  "rootfs": { "type": "layers", "diff_ids":
			[ "sha256:$(sha256sum $to/layer.tar | cut -d ' ' -f 1)" ] } }
	END
	echo "[{ \"Config\": \"config.json\", \"RepoTags\": [\"$1\"], \"Layers\": [\"layer.tar\"] }]" \
		>$to/manifest.json
	tar -C $to -cf /tmp/image.tar .
	must "${on[@]}" ctr -n k8s.io images import --local --snapshotter native /tmp/image.tar >/dev/null
	rm -rf $to /tmp/image.tar
}

# node_start: after node_prepare, with the image of pods
node_start()
{
	start_containerd
	must wait_until 300 "${on[@]}" ctr version
	mkdir -p /tmp/tiny/{bin,dev,etc,proc,run,sys,tmp}
	cp "$(type -P busybox)" /tmp/tiny/bin
	image_import $test_image /tmp/tiny '["/bin/busybox", "sleep", "1000000"]'
}

# --- what the node has

# netns_with ADDRESS
netns_with()
{
	local name

	for name in $(ip netns | cut -d ' ' -f 1); do
		ip -n "$name" -4 -o addr show | grep -qF " $1/" || continue
		echo "$name"
		return
	done
	return 1
}

# class_of NAMESPACE POD: by the alias of the host's end of its veth
class_of()
{
	"${on[@]}" ip -o link show |
		sed -n "s/.* alias bpshaper .* class \([^ ]*\) of bps-node pod $1\/$2\(\\\\.*\)\?\$/\1/p"
}

class_line() { "${on[@]}" tc class show dev bps-node | grep " bpshaper $(class_of "$1" "$2") "; }

# has NAMESPACE POD TEXT: its class
has() { class_line "$1" "$2" | grep -qE -- " $3( |\$)"; }

# sent CLASS...: bytes of each so far, at one time
sent()
{
	"${on[@]}" tc -s class show dev bps-node | awk -v wanted="$*" '
		$1 == "class" { class = $3 }
		$1 == "Sent" { bytes[class] = $2 }
		END { n = split(wanted, c, " "); for (i = 1; i <= n; i++) print bytes[c[i]] }'
}

# --- traffic

# neighbour_set NETNS: what waits for the answer to ARP is not counted
neighbour_set()
{
	must ip -n "$1" neigh replace "$(ip -n "$1" route show default | awk '{ print $3 }')" lladdr \
		"$("${on[@]}" ip link show dev "$(peer "$1")" | awk '/link\/ether/ { print $2 }')" \
		dev eth0 nud permanent
}

# pod_sends POD NETNS SECONDS: all it can, in the background
pod_sends()
{
	"$traffic" --tx-netns "$2" --dst $gateway --udp 4 --port $((6010 + ${#senders[@]} * 10)) \
		--seconds "$3" --drain-ms 5000 --json "/tmp/$1.json" &
	senders+=($!)
}

# loses_nothing POD: that has sent
loses_nothing()
{
	is "no socket of $1 loses a packet" 0 "$(json_get udp_lost_packets <"/tmp/$1.json")"
}

# all_send CLASS...: each more than what waits at the start
all_send()
{
	sent "$@" | awk '$1 > 100000 { n++ } END { exit n != '$#' }'
}

# rates CLASS...: kbit/s of each in ten seconds, in ${rates[@]}
rates()
{
	local start=${EPOCHREALTIME/./} bytes

	mapfile -t bytes < <(sent "$@"; sleep 10; sent "$@")
	mapfile -t rates < <(printf '%s\n' "${bytes[@]}" | awk -v n=$# -v us=$((${EPOCHREALTIME/./} - start)) '
		NR > n { print ($1 - before[NR - n]) * 8000 / us }
		{ before[NR] = $1 }')
	echo "# kbit/s: ${rates[*]}"
}

# part_near PART: of the first of ${rates[@]}, in what it and the second one send
part_near()
{
	check_num "the first pod has $1 of what both send, within 2 %" \
		"$(awk "BEGIN { d = ${rates[0]} / (${rates[0]} + ${rates[1]}) / $1 - 1
			print d < 0 ? -d : d }")" '<=' 0.02
}
