# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# A cluster of one node: etcd, kube-apiserver, containerd and kubelet. There are no scheduler and no
# controllers: pods name their node, and the agent's is made of the template of its DaemonSet.
# Sourced after cni.sh, never run.
#
# 10.96.0.1 is where pods find the API. Nobody translates it, so the host has it.

state=/var/lib/cluster
test_image=registry.example.org/tiny:1

# --- programs

# launch COMMAND...: it is started again when it ends, as systemd does. Its log is /out/COMMAND.log
launch()
{
	while :; do
		"$@" >>"/out/$1.log" 2>&1
		sleep 1
	done &>/dev/null &
}

start_etcd()
{
	launch etcd --data-dir $state/etcd --unsafe-no-fsync --heartbeat-interval 1000 \
		--election-timeout 10000 --log-level warn
}

start_api()
{
	launch kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 443 \
		--advertise-address 172.30.0.1 --endpoint-reconciler-type none \
		--service-cluster-ip-range 10.96.0.0/16 --allow-privileged \
		--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
		--token-auth-file $state/tokens --tls-cert-file $state/cert \
		--tls-private-key-file $state/key --service-account-key-file $state/cert \
		--service-account-signing-key-file $state/key \
		--service-account-issuer https://kubernetes.default.svc --profiling=false \
		--enable-priority-and-fairness=false
}

start_containerd() { launch containerd --log-level warn; }

start_kubelet()
{
	launch kubelet --config $state/kubelet.yaml --kubeconfig $state/node.conf \
		--hostname-override node1 --node-ip 172.30.0.1
}

# --- configuration

# kubeconfig NAME: who has the token of that name
kubeconfig()
{
	cat >"$state/$1.conf" <<-END
		apiVersion: v1
		kind: Config
		clusters: [{ name: c, cluster: { server: "https://10.96.0.1", certificate-authority: $state/cert } }]
		users: [{ name: u, user: { token: "token-$1" } }]
		contexts: [{ name: c, context: { cluster: c, user: u } }]
		current-context: c
	END
}

cluster_configure()
{
	mkdir -p $state /etc/containerd /root/.kube
	must openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
		-keyout $state/key -out $state/cert -subj /CN=kubernetes \
		-addext subjectAltName=IP:127.0.0.1,IP:10.96.0.1 2>/dev/null
	printf '%s\n' 'token-admin,admin,admin,system:masters' \
		'token-node,system:node:node1,node1,system:nodes' >$state/tokens
	kubeconfig admin
	kubeconfig node
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
	must ctr -n k8s.io images import --local --snapshotter native /tmp/image.tar >/dev/null
	rm -rf $to /tmp/image.tar
}

images_import()
{
	mkdir -p /tmp/tiny/{bin,dev,etc,proc,run,sys,tmp} /tmp/agent
	cp "$(type -P busybox)" /tmp/tiny/bin
	cp "$here/bpshaper-agent" /tmp/agent
	image_import $test_image /tmp/tiny '["/bin/busybox", "sleep", "1000000"]'
	image_import registry.example.org/bpshaper:1 /tmp/agent '["/bpshaper-agent"]'
}

# --- the API

# call METHOD PATH [TYPE]: as admin; the body, if there is a TYPE, is the standard input
call()
{
	curl -sS --fail-with-body --max-time 60 --cacert $state/cert -X "$1" \
		-H "Authorization: Bearer token-admin" \
		${3:+-H "Content-Type: application/$3" --data-binary @-} "https://10.96.0.1$2"
}

create() { call POST "$1" json >/tmp/answer || { cat /tmp/answer; return 1; }; }
api_ready() { call GET /readyz; }

namespace_create()
{
	must create /api/v1/namespaces <<<"{ \"metadata\": { \"name\": \"$1\" } }"
	must create "/api/v1/namespaces/$1/serviceaccounts" <<<'{ "metadata": { "name": "default" } }'
}

# pod_create NAMESPACE POD [ANNOTATIONS]: members of JSON
pod_create()
{
	must create "/api/v1/namespaces/$1/pods" <<-END
		{ "metadata": { "name": "$2", "annotations": { ${3-} } },
		  "spec": { "nodeName": "node1", "automountServiceAccountToken": false,
			"enableServiceLinks": false, "terminationGracePeriodSeconds": 1,
			"dnsPolicy": "Default", "containers": [ { "name": "c", "image": "$test_image" } ] } }
	END
}

pod_get() { call GET "/api/v1/namespaces/$1/pods/$2"; }
pod_is() { [ "$(pod_get "$1" "$2" | jq -r .status.phase)" = "$3" ]; }
pod_delete() { must call DELETE "/api/v1/namespaces/$1/pods/$2" >/dev/null; }

# annotate NAMESPACE POD ANNOTATIONS: null removes one
annotate()
{
	call PATCH "/api/v1/namespaces/$1/pods/$2" merge-patch+json >/tmp/answer \
		<<<"{ \"metadata\": { \"annotations\": { $3 } } }" || { cat /tmp/answer; return 1; }
}

# condition NAMESPACE POD: status, reason and message of the agent's
condition()
{
	pod_get "$1" "$2" | jq -r '.status.conditions[] | select(.type == "bpshaper/applied") |
		"\(.status) \(.reason) \(.message)"'
}

# events NAMESPACE POD: reason and message
events()
{
	call GET "/api/v1/namespaces/$1/events" | jq -r --arg pod "$2" \
		'.items[] | select(.involvedObject.name == $pod) | "\(.reason) \(.message)"'
}

node_is_ready()
{
	[ "$(call GET /api/v1/nodes/node1 | jq -r '.status.conditions[] |
		select(.type == "Ready").status')" = "${1:-True}" ]
}

# --- what the node has

# netns_of NAMESPACE POD: that has its address
netns_of()
{
	local name address

	address=$(pod_get "$1" "$2" | jq -r .status.podIP)
	for name in $(ip netns | cut -d ' ' -f 1); do
		ip -n "$name" -4 -o addr show | grep -qF " $address/" || continue
		echo "$name"
		return
	done
	return 1
}

# class_of NAMESPACE POD: by the alias of the host's end of its veth
class_of()
{
	sed -n "s|^bpshaper .* class \([^ ]*\) of bps-node pod $1/$2\$|\1|p" /sys/class/net/*/ifalias
}

class_line() { tc class show dev bps-node | grep " bpshaper $(class_of "$1" "$2") "; }

# has NAMESPACE POD TEXT: its class
has() { class_line "$1" "$2" | grep -qE -- " $3( |\$)"; }

# sent CLASS...: bytes of each so far, at one time
sent()
{
	tc -s class show dev bps-node | awk -v wanted="$*" '
		$1 == "class" { class = $3 }
		$1 == "Sent" { bytes[class] = $2 }
		END { n = split(wanted, c, " "); for (i = 1; i <= n; i++) print bytes[c[i]] }'
}

# --- all of it

cluster_start()
{
	# Network namespaces are in the one for ip, in the other for containerd.
	rmdir /var/run 2>/dev/null && ln -s /run /var/run
	must ip link add node0 type dummy
	must ip addr add 172.30.0.1/24 dev node0
	must ip addr add 10.96.0.1/32 dev node0
	must ip link set node0 up
	cluster_configure
	start_etcd
	start_api
	start_containerd
	must wait_until 300 ctr version
	images_import
	must wait_until 900 api_ready
	namespace_create media
	namespace_create tenant
	start_kubelet
}
