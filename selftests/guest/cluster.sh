#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A cluster, with the real etcd, kube-apiserver, containerd, runc and kubelet, and the
# agent in a pod as its manifest says. $PARTS chooses.
#
#  1. The API accepts the manifests, and the account of the agent may do what it needs, and nothing
#     else.
#  2. Pods that have half of the node each: the annotation of a weight of 3 gives three quarters, and
#     no socket loses a packet. The class has it within a second after the API has it.
#  3. A floor above the node's rate is refused by an Event and a condition with both sums, prio 0 to
#     a namespace that may not ask for it.
#  4. $KILLS times (100) one of agent, kubelet, containerd and API is killed amid changes, and pods
#     go and come: classes are as annotations say.
#  5. A pod that sends more than its annotation allows (containernetworking/plugins, issue 922; cilium,
#     issue 29083) loses packets with the plugin bandwidth, and none with bpshaper. The first bytes are
#     without a limit (kubernetes, issue 90838) with the former only.
#  6. A node without the module stays Ready, and pods without a limit start. If the configuration itself
#     has a limit it does not.
#  7. Of pods that went nothing is left, and the module can be removed.
#  8. A second node gets the plugin by the pod of its DaemonSet. Its pods divide its rate as their
#     annotations say, and floors of one node do not count on the other.
#
# Real time on several CPUs: shares and losses are asserted, and of times a second only.

# shellcheck source=lib/root.sh
. "$(dirname "$0")/lib/root.sh"
# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"
# shellcheck source=lib/cni_missing.sh
. "$(dirname "$0")/lib/cni_missing.sh"
# shellcheck source=lib/node.sh
. "$(dirname "$0")/lib/node.sh"
# shellcheck source=lib/cluster.sh
. "$(dirname "$0")/lib/cluster.sh"
# shellcheck source=lib/second_node.sh
. "$(dirname "$0")/lib/second_node.sh"

agent_account=system:serviceaccount:kube-system:bpshaper-agent
# What waits for a second hides that a machine is slow.
keys='"node": {"rate": "2mbit"}, "latency": "1s"'
config='default: { egress-floor: 0, egress-ceil: none, egress-weight: 1, egress-prio: 4 }
namespaces: { media: { may: { egress-floor: 100mbit, egress-weight: 1000 } } }'

# soon NAME COMMAND...: within a second
soon()
{
	local start=${EPOCHREALTIME/./} us

	until "${@:2}"; do
		[ $((${EPOCHREALTIME/./} - start)) -lt 30000000 ] || break
	done
	us=$((${EPOCHREALTIME/./} - start))
	check_num "$1 within a second" $us '<=' 1000000 us
	echo "# it took $((us / 1000)) ms"
}

# --- 1

# may ANSWER VERB RESOURCE [NAMESPACE [NAME]]: the agent, GROUP/RESOURCE/SUBRESOURCE
may()
{
	local group resource subresource

	IFS=/ read -r group resource subresource <<<"$3"
	is "may the agent $2 ${3#/} ${5-}? $1" "$1" "$(
		call POST /apis/authorization.k8s.io/v1/subjectaccessreviews json <<-END |
			{ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			  "spec": { "user": "$agent_account", "groups": [ "system:serviceaccounts" ],
				"resourceAttributes": { "verb": "$2", "group": "$group",
					"resource": "$resource", "subresource": "$subresource",
					"namespace": "${4-}", "name": "${5-}" } } }
		END
			jq .status.allowed)"
}

agent_logs() { cat /var/log/pods/kube-system_agent_*/agent/*.log; }

manifests()
{
	check "the API accepts the manifests" kubectl --kubeconfig $state/admin.conf \
		apply --dry-run=server -k "$here/kubernetes"
	refused "and refuses one that is wrong" kubectl --kubeconfig $state/admin.conf \
		apply --dry-run=server -f - < <(sed s/hostPath:/hostPaht:/ "$here/kubernetes/cni.yaml")
	sed 's|bpshaper:latest|bpshaper:1|' "$here/kubernetes/agent.yaml" >/tmp/agent.yaml
	must kubectl --kubeconfig $state/admin.conf apply -f /tmp/agent.yaml >/dev/null
	may true list /pods
	may true patch /pods/status media
	may true create /events media
	may true get /configmaps kube-system bpshaper-agent
	may false patch /pods media
	may false delete /pods media
	may false get /secrets kube-system
	may false get /configmaps kube-system other
	may false list /configmaps kube-system
	may false patch /nodes/status
	configure "$config"
	# A controller makes this one.
	must create /api/v1/namespaces/kube-system/configmaps <<-END
		{ "metadata": { "name": "kube-root-ca.crt" },
		  "data": { "ca.crt": $(jq -Rs . $state/cert) } }
	END
	daemon_create bpshaper-agent agent
	later "the agent runs as its manifest says" pod_is kube-system agent Running
}

# configure YAML: the agent
configure()
{
	must call PATCH /api/v1/namespaces/kube-system/configmaps/bpshaper-agent merge-patch+json \
		<<<"{ \"data\": { \"config.yaml\": $(jq -Rs . <<<"$1") } }" >/dev/null
}

# --- 2

# pod_start NAMESPACE POD [ANNOTATIONS]: sets $netns
pod_start()
{
	pod_create "$@"
	must wait_until 600 pod_is "$1" "$2" Running
	netns=$(netns_of "$1" "$2")
	neighbour_set "$netns"
}

# weighs WEIGHT: the first pod; quick
weighs() { [[ $(tc class show dev bps-node) == *" $class_a "*" weight $1 "*" $class_b "* ]]; }

shares()
{
	local pod class_a class_b

	pod_start media a
	later "a pod has its class, with what the agent sets by default" has media a 'prio 4'
	pod_start media b
	later "and another one" has media b 'prio 4'
	class_a=$(class_of media a) class_b=$(class_of media b)
	for pod in a b; do
		pod_sends $pod "$(netns_of media $pod)" 60
	done
	must wait_until 60 all_send "$class_a" "$class_b"
	rates "$class_a" "$class_b"
	part_near 0.5
	must annotate media a '"bpshaper/egress-weight": "3"'
	soon "an annotation is in the class" weighs 3
	rates "$class_a" "$class_b"
	part_near 0.75
	wait "${senders[@]}"
	for pod in a b; do
		loses_nothing $pod
	done
	is "the ifb drops nothing" 0 "$(json_value drops "$(tc -s -j qdisc show dev bps-node root)")"
}

# --- 3

says() { "$1" "$2" "$3" | grep -qF -- "$4"; }

refusals()
{
	local text="egress-floor 2mbit of media/b: floors of other pods on this node are 1mbit \
and would be 3mbit, above its rate of 2mbit"

	must annotate media a '"bpshaper/egress-floor": "1mbit"'
	later "a floor that fits is in the class" has media a 'floor 1Mbit'
	must annotate media b '"bpshaper/egress-floor": "2mbit"'
	later "a floor above the node's rate is refused by an Event with both sums" \
		says events media b "FloorsAboveRate annotation bpshaper/$text"
	check "and by a condition" says condition media b "False FloorsAboveRate"
	check "its class is as it was" has media b 'weight 1'
	refused "it has no floor" has media b 'floor [1-9].*'
	pod_start tenant c '"bpshaper/egress-prio": "0"'
	later "prio 0 is refused to a namespace that may not ask for it" \
		says events tenant c 'NotAllowed annotation bpshaper/egress-prio 0: namespace tenant may ask for 4'
	check "it does not have it, though the plugin gives it to all" has tenant c 'prio 4'
	must annotate media b '"bpshaper/egress-floor": null'
	later "what asks for nothing is not refused" says condition media b "True Applied"
	must annotate media a '"bpshaper/egress-floor": null'
	later "and a floor goes with its annotation" eval '! has media a "floor [1-9].*"'
}

# --- 4

# kills_some: one to eight, of any kind, within seconds
kills_some()
{
	local victims=(bpshaper-agent kubelet containerd kube-apiserver) number=$((1 + RANDOM % 8))

	while [ $number != 0 ] && [ $killed -lt "${KILLS:-100}" ]; do
		sleep $((RANDOM % 2)).$((RANDOM % 10))
		number=$((number - 1))
		# Only what runs counts.
		! pkill -9 -x "${victims[RANDOM % 4]}" || killed=$((killed + 1))
	done
}

# replaced: a pod, while programs are killed
replaced()
{
	wait_until 600 call DELETE /api/v1/namespaces/tenant/pods/c
	kills_some
	wait_until 600 gone tenant c && wait_until 600 api_ready &&
		pod_create tenant c '"bpshaper/egress-prio": "0"'
	kills_some
	wait_until 600 pod_is tenant c Running
}

gone() { pod_get "$1" "$2" | grep -q '"code": 404'; }

as_annotated()
{
	has media a "weight $weight" && has media b "weight 1" && has tenant c 'prio 4' &&
		has media a 'prio 4'
}

kills()
{
	local killed=0 group=0 weight classes

	RANDOM=${SEED:-1}
	classes="$(class_of media a) $(class_of media b)"
	while [ $killed -lt "${KILLS:-100}" ]; do
		group=$((group + 1)) weight=$((group % 1000 + 4))
		wait_until 600 annotate media a "\"bpshaper/egress-weight\": \"$weight\""
		if [ $((group % 5)) = 0 ]; then replaced; else kills_some; fi
		echo "# $SECONDS s: $killed killed"
		wait_until 600 as_annotated || {
			not_ok "after $killed kills classes are as annotations say" \
				"$(tc class show dev bps-node)" "$(agent_logs | tail -n 20)"
			return
		}
	done
	ok "after each of $group groups of $killed kills classes are as annotations say"
	is "pods have the classes that they had" "$classes" "$(class_of media a) $(class_of media b)"
	is "each pod has one class" 3 "$(tc class show dev bps-node | grep -c '^class')"
	later "the node is Ready" node_is_ready
}

# --- 5

received() { cat "/sys/class/net/$(peer "$netns")/statistics/rx_bytes"; }

# report LIMITER SENDERS...: of a pod of 2 Mbit/s; sets $lost and $delay
report()
{
	must traffic "$netns" "" $gateway --seconds 10 --probe --udp "${@:2}"
	lost=$(result udp_loss_percent) delay=$(result probe_delay_p99_ms)
	echo "# $1, senders ${*:2}: lost $lost %, a probe takes $delay ms (p99)," \
		"$(result udp_wire_goodput_mbit_per_s) Mbit/s arrive"
}

reports()
{
	local lost delay bytes slow start

	cni_version=1.0.0 net node ptp bandwidth
	pod_start media r '"kubernetes.io/egress-bandwidth": "2M"'
	bytes=$(tc qdisc show | sed -n 's/^qdisc tbf .* dev bwp.* burst \([0-9]*\)b .*/\1/p')
	echo "# 90838, bandwidth: by an annotation of 2 Mbit/s $bytes bytes pass at once"
	check_num "90838: bandwidth lets a minute pass" "$bytes" '>' 15000000
	pod_delete media r
	later "the pod goes" gone media r
	cni_version=1.0.0 net node ptp bandwidth '"egressRate": 2000000, "egressBurst": 200000'
	pod_start media r
	report bandwidth 8
	slow=$delay
	check_num "922: bandwidth loses, so the test can" "$lost" '>' 20 %
	report bandwidth 1 --sndbuf 16777216
	check_num "29083: bandwidth loses, so the test can" "$lost" '>' 20 %
	pod_delete media r
	later "and another one" gone media r
	net node ptp bpshaper
	pod_start media r '"kubernetes.io/egress-bandwidth": "2M"'
	bytes=$(received) start=$SECONDS
	report bpshaper 8
	check_num "922: with bpshaper nothing is lost" "$lost" == 0 %
	check_num "and a probe takes less than half of the time" "$delay" "<" \
		"$(awk "BEGIN { print $slow / 2 }")"
	check_num "90838: bpshaper limits the first bytes" $(($(received) - bytes)) '<=' \
		$((250000 * (SECONDS - start + 2)))
	report bpshaper 1 --sndbuf 16777216
	check_num "29083: with bpshaper nothing is lost" "$lost" == 0 %
	pod_delete media r
	later "the pod goes, too" eval '[ -z "$(left)" ]'
}

# --- 6, 7

ends()
{
	local pod

	for pod in media/a media/b tenant/c; do
		pod_delete "${pod%/*}" "${pod#*/}"
	done
	later "the pods go" eval '[ -z "$(left)" ]'
	nothing_is_left "the node without pods"
}

missing()
{
	# shellcheck disable=SC2034 # of module_back
	local modprobe

	modprobe=$(</proc/sys/kernel/modprobe)
	net node ptp bpshaper '"node": {"rate": "2mbit"}'
	bpshaper_hidden
	later "where the configuration has a limit, a node without the module is not Ready" \
		node_is_ready False
	net node ptp bpshaper ''
	later "where it has none, it is" node_is_ready
	pod_create media free
	later "and pods without a limit start" pod_is media free Running
	pod_create media bound '"kubernetes.io/egress-bandwidth": "2M"'
	later "one with a limit does not, and an Event says what to install" \
		says events media bound 'install bpshaper-dkms'
	module_back
	later "it starts when the module is there" pod_is media bound Running
	pod_delete media free
	pod_delete media bound
	later "they go" eval '[ -z "$(left)" ]'
}

cni_version=1.1.0
must cp /opt/cni/bin-1.1.0/* /opt/cni/bin
must sysctl -qw net.core.netdev_max_backlog=100000
net node ptp bpshaper "$keys"
cluster_start
later "the node is Ready" node_is_ready
for part in ${PARTS:-manifests shares refusals kills ends reports missing second}; do
	echo "# $SECONDS s: $part"
	$part
done
finish
