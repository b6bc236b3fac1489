# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh and cni.sh
#
# A cluster: etcd, kube-apiserver, and node.sh. There are no scheduler and no controllers: pods name
# their node, and those of a DaemonSet are made of its template.
# Sourced after node.sh, never run.
#
# 10.96.0.1 is where pods find the API. Nobody translates it, so the host has it.

# --- programs

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
	mkdir -p /root/.kube
	must openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
		-keyout $state/key -out $state/cert -subj /CN=kubernetes \
		-addext subjectAltName=IP:127.0.0.1,IP:10.96.0.1 2>/dev/null
	printf '%s\n' 'token-admin,admin,admin,system:masters' \
		'token-node1,system:node:node1,node1,system:nodes' \
		'token-node2,system:node:node2,node2,system:nodes' >$state/tokens
	kubeconfig admin
	kubeconfig node1
	kubeconfig node2
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
	account_create "$1"
}

# account_create NAMESPACE: that of pods, which a controller makes
account_create()
{
	must create "/api/v1/namespaces/$1/serviceaccounts" <<<'{ "metadata": { "name": "default" } }'
}

# pod_create NAMESPACE POD [ANNOTATIONS]: members of JSON
pod_create()
{
	must create "/api/v1/namespaces/$1/pods" <<-END
		{ "metadata": { "name": "$2", "annotations": { ${3-} } },
		  "spec": { "nodeName": "$node", "automountServiceAccountToken": false,
			"enableServiceLinks": false, "terminationGracePeriodSeconds": 1,
			"dnsPolicy": "Default", "containers": [ { "name": "c", "image": "$test_image" } ] } }
	END
}

# daemon_create DAEMONSET POD: its pod of the node, as its controller would make it
daemon_create()
{
	call GET "/apis/apps/v1/namespaces/kube-system/daemonsets/$1" | jq --arg pod "$2" --arg node "$node" '
		{ metadata: { name: $pod, namespace: "kube-system" },
		  spec: (.spec.template.spec + { nodeName: $node }) }' >/tmp/pod
	must create /api/v1/namespaces/kube-system/pods </tmp/pod
}

pod_get() { call GET "/api/v1/namespaces/$1/pods/$2"; }
netns_of() { netns_with "$(pod_get "$1" "$2" | jq -r .status.podIP)"; }
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
	[ "$(call GET /api/v1/nodes/$node | jq -r '.status.conditions[] |
		select(.type == "Ready").status')" = "${1:-True}" ]
}

# --- all of it

cluster_start()
{
	node_prepare
	must ip addr add 10.96.0.1/32 dev node0
	cluster_configure
	start_etcd
	start_api
	node_start
	mkdir /tmp/programs
	cp "$here/bpshaper-agent" $CNI_PATH/bpshaper /tmp/programs
	image_import registry.example.org/bpshaper:1 /tmp/programs '["/bpshaper-agent"]'
	must wait_until 900 api_ready
	namespace_create media
	namespace_create tenant
	start_kubelet --kubeconfig $state/$node.conf
}
