#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bpshaper-agent with real classes, pods of the plugin and traffic. bpapi stands for the API server:
# it serves files, and logs what is written.
#
#  1. Two pods, one from before the agent, have half of the node each; a weight of 3 gives three
#     quarters within a second. No socket loses a packet.
#  2. A floor above the node's rate, prio 0 in the wrong namespace and a wrong value are refused, and
#     change nothing. An Event says that XDP or GRO takes a pod's packets from their sockets.
#  3. What goes, is changed or is removed is put right. Another pod's class has not its values.
#  4. Started again it tells nothing again. While the API is away it changes nothing.
#  5. What a pod receives is limited, and DEL takes all away.
#  6. At rest 5 s take 1 % of a CPU at most, and with CYCLES (cni-long) 70 s with 1000 classes more.
# In icount mode only: it asserts times.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/cni.sh
. "$(dirname "$0")/lib/cni.sh"
# shellcheck source=lib/api.sh
. "$here/lib/api.sh"
# shellcheck source=lib/bpf.sh
. "$here/lib/bpf.sh"

agent=$here/bpshaper-agent said=/tmp/agent.log
[ "$(nproc)" = 1 ] || skip_all "times are asserted in icount mode only"
[ -x "$agent" ] || skip_all "there is no bpshaper-agent here: selftests/vm/cni-bundle"

config='default: { egress-floor: 0, egress-ceil: none, egress-weight: 1, egress-prio: 4, ingress-ceil: none }
namespaces: { media: { may: { egress-floor: 100mbit, egress-weight: 10 } } }'

agent_start()
{
	"$agent" --node node1 --server http://127.0.0.1:8001 >>$said 2>&1 &
	agent_pid=$!
}

stop()
{
	kill -9 "$1"
	wait "$1" 2>/dev/null
}

# node_add POD NAMESPACE: by the plugin
node_add()
{
	export CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=$2;K8S_POD_NAME=$1"
	must pod_add "$1" node
	must ip -n "$1" neigh replace 10.88.0.1 lladdr \
		"$(cat "/sys/class/net/$(peer "$1")/address")" dev eth0 nud permanent
}

class_of() { ip -o link show dev "$(peer "$1")" | sed 's/.* class \([^ ]*\) of .*/\1/'; }

class_line() { tc class show dev bps-node | grep " bpshaper $(class_of "$1") "; }

# has POD TEXT: its class
has() { class_line "$1" | grep -qE -- " $2( |\$)"; }

as_before() { has "$1" 'weight 1' && ! has "$1" 'floor [1-9].*'; }

# soon NAME COMMAND...: within a second
soon()
{
	local start=${EPOCHREALTIME/./}

	until "${@:2}"; do
		if [ $((${EPOCHREALTIME/./} - start)) -gt 1000000 ]; then
			not_ok "$1" "$(tc class show dev bps-node; tail -n 5 $said)"
			return
		fi
		sleep 0.02
	done
	ok "$1"
}

# later NAME COMMAND...: when the API or the agent is back
later() { check "$1" wait_until 60 "${@:2}"; }

sent() { tc -s class show dev bps-node classid "$(class_of "$1")" | awk '$1 == "Sent" { print $2 }'; }

# share_near EXPECTED: of the first pod, in two seconds
share_near()
{
	local a b

	a=$(sent a) b=$(sent b)
	sleep 2
	a=$(($(sent a) - a)) b=$(($(sent b) - b))
	check_num "the first pod has $1 of what both send, within 2 %" \
		"$(awk "BEGIN { d = $a / ($a + $b) / $1 - 1; print d < 0 ? -d : d }")" '<=' 0.02
}

# cpu: of the agent so far, in microseconds
cpu() { awk '{ sum += $1 } END { printf "%d", sum / 1000 }' /proc/"$agent_pid"/task/*/schedstat; }

traffic_start()
{
	local pod port=6000

	for pod in a b; do
		port=$((port + 10))
		"$traffic" --tx-netns $pod --dst 10.88.0.1 --udp 4 --port $port --seconds 9 \
			--json /tmp/$pod.json &
		senders+=($!)
	done
}

shares()
{
	local pod before senders=()

	must sysctl -qw net.core.netdev_max_backlog=100000
	net node ptp bpshaper '"node": {"rate": "40mbit"}'
	mkdir -p $api/pods $api/configmaps
	config_says "$config"
	node_add a media
	api_start
	pod_says media a ''
	agent_start
	soon "a pod that was there before the agent has the default" has a 'prio 4'
	node_add b media
	pod_says media b ''
	soon "and one that the plugin adds later" has b 'prio 4'
	sleep 1
	before=$(cpu)
	sleep 5
	check_num "at rest 5 s take" $(($(cpu) - before)) '<=' 50000 "us of CPU"
	traffic_start
	sleep 2
	share_near 0.5
	pod_says media a '"egress-weight": "3"'
	soon "an annotation is in the class within a second" has a 'weight 3'
	share_near 0.75
	wait "${senders[@]}"
	for pod in a b; do
		is "no socket of $pod loses a packet" 0 \
			"$(json_get udp_lost_packets </tmp/$pod.json)"
	done
	is "the ifb drops nothing" 0 "$(json_value drops "$(tc -s -j qdisc show dev bps-node root)")"
}

refusals()
{
	pod_says media a '"egress-weight": "3", "egress-floor": "30mbit"'
	soon "a floor that fits is in the class" has a 'floor 30Mbit'
	pod_says media b '"egress-floor": "20mbit", "egress-weight": "9"'
	soon "a floor above the node's rate is refused by an Event that names the pod and all sums" \
		event_has FloorsAboveRate "egress-floor 20mbit of media/b: floors of other pods on this \
node are 30mbit and would be 50mbit, above its rate of 40mbit"
	check "and by a condition" grep -q '^PATCH .*/pods/b/status .*"status":"False"' $log
	check "its class is as it was" as_before b
	node_add c tenant
	pod_says tenant c '"egress-prio": "0"'
	soon "prio 0 is refused to a namespace that may not ask for it" event_has NotAllowed \
		'egress-prio 0: namespace tenant may ask for 4'
	check "it does not have it, though the plugin gives it to all" has c 'prio 4'
	pod_says media b '"egress-weight": "many"'
	soon "a wrong value is named" event_has BadAnnotation 'bpshaper/egress-weight: \"many\"'
	pod_says media b '"egress-weight": "2"'
	soon "and another one is taken" has b 'weight 2'
	later "which an Event says" event_has Applied 'as annotations say'
	sleep 2
	is "there is one Event for each refusal" "1 1 1" \
		"$(events FloorsAboveRate b) $(events BadAnnotation b) $(events NotAllowed c)"
	must ethtool -K "$(peer b)" gro on
	soon "an Event says that GRO takes its TCP without TSO" event_has NotHeld "GRO on $(peer b): TCP"
	must ethtool -K "$(peer b)" gro off
	later "and that it has not, any more" applies_to b
	bpf_is_here pass "XDP at the host's end" || return
	must ip link set "$(peer b)" xdp obj "$here/pass.bpf.o" sec xdp
	soon "an Event says that XDP takes its sockets" event_has NotHeld "XDP on $(peer b): the pod"
	must ip link set "$(peer b)" xdp off
	later "and that it waits again" applies_to b
}

# The defaults come back; the kernel says what others do.
back()
{
	pod_says media b ''
	soon "an annotation that goes leaves the default" has b 'weight 1'
	must tc class change dev bps-node classid "$(class_of a)" bpshaper weight 7
	soon "what tc has changed is put right" has a 'weight 3'
	config_says "${config/egress-weight: 1,/egress-weight: 5,}"
	soon "another default is taken" has b 'weight 5'
	must tc qdisc del dev bps-node root
	soon "when somebody removes the bpshaper of the node, a class comes back" has a 'weight 3'
	soon "as does another" has b 'weight 5'
	is "the bpshaper has its rate" 1 "$(tc qdisc show dev bps-node root | grep -c 'bpshaper 1: .* rate 40Mbit ')"
	is "the log counts it" 1 "$(grep -c 'is put back.*times=1' $said)"
	config_says "default: { egress-wieght: 1 }"
	sleep 1
	check "a ConfigMap that is wrong is not" has b 'weight 5'
	check "and the log says why" grep -q 'egress-wieght: there is no such word' $said
	config_says "$config"
	soon "the right one is" has b 'weight 1'
}

rate_set() { must tc qdisc change dev bps-node root handle 1: bpshaper rate "$1"; }

# The agent keeps what it has read: classes and the rate that are others' by now.
others()
{
	local class

	rate_set 80mbit
	pod_says media b '"egress-floor": "45mbit"'
	soon "a floor fits below a rate that has become larger" has b 'floor 45Mbit'
	pod_says media b ''
	soon "it goes" as_before b
	rate_set 35mbit
	pod_says media b '"egress-floor": "9mbit"'
	soon "none fits above one that has become smaller" event_has FloorsAboveRate \
		"39mbit, above its rate of 35mbit"
	rate_set 40mbit
	node_add d media
	pod_says media d '"egress-weight": "7"'
	soon "a pod has its weight" has d 'weight 7'
	class=$(class_of d)
	sleep 0.5
	kill -STOP "$agent_pid"
	must pod_del d node
	node_add e media
	pod_says media e ''
	pod_says media d '"egress-weight": "8"'
	sleep 0.5
	kill -CONT "$agent_pid"
	is "while the agent stands still another one gets its class" "$class" "$(class_of e)"
	soon "which has the default then" has e 'weight 1 prio 4'
	sleep 1
	check "not what the API says of the first" has e 'weight 1 prio 4'
	must pod_del e node
}

restarts()
{
	local turn before

	stop "$agent_pid"
	pod_says media b '"egress-weight": "4"'
	sleep 1
	check "without the agent classes stay" has b 'weight 1'
	agent_start
	later "started again it puts them right" has b 'weight 4'
	for turn in {1..10}; do
		pod_says media b "\"egress-weight\": \"$turn\""
		sleep 0.0"$turn"
		stop "$agent_pid"
		agent_start
	done
	later "also when it was killed 10 times amid changes" has b 'weight 10'
	check "the others are as they were" has a 'weight 3'
	stop "$agent_pid"
	pod_says tenant c '"egress-prio": "0"' "{ \"type\": \"bpshaper/applied\", \"status\":
		\"False\", \"reason\": \"NotAllowed\", \"message\": \"annotation bpshaper/egress-prio 0: x\" }"
	before=$(events NotAllowed c)
	agent_start
	sleep 3
	is "what a condition says no Event says again" "$before" "$(events NotAllowed c)"
}

away()
{
	local before

	before=$(tc class show dev bps-node | grep weight)
	stop "$api_pid"
	pod_says media b '"egress-weight": "6"'
	sleep 3
	is "while the API is away nothing changes" "$before" "$(tc class show dev bps-node | grep weight)"
	stop "$agent_pid"
	agent_start
	sleep 3
	is "nor by an agent that is started then" "$before" "$(tc class show dev bps-node | grep weight)"
	api_start
	later "when the API is back the agent goes on" has b 'weight 6'
}

receives()
{
	pod_says media b '"bpshaper/ingress-ceil": "8mbit"'
	soon "what a pod receives gets a ceil" ends_with b 'rate 8Mbit'
	pod_says media b ''
	soon "which goes again" no_root b
	pod_says media b '"bpshaper/ingress-ceil": "8mbit"'
	soon "and comes again" ends_with b 'rate 8Mbit'
	must tc qdisc del dev "$(peer b)" root
	soon "also when somebody removes it" ends_with b 'rate 8Mbit'
}

ends_with() { tc qdisc show dev "$(peer "$1")" root | grep -q "bpshaper 1: .*$2 "; }
no_root() { ! tc qdisc show dev "$(peer "$1")" root | grep -q bpshaper; }

# crowd_make COUNT: pods as far as the agent can see, a class and a device with an alias each
crowd_make()
{
	local i

	for ((i = 1; i <= $1; i++)); do
		printf 'link add crowd%d group 9 type dummy\n' $i
		printf 'link set crowd%d alias "bpshaper %032x eth0 of %d in node ' $i $i $i
		printf 'class 1:%x of bps-node pod media/m%d"\n' $((i + 256)) $i
	done >/tmp/devices
	for ((i = 1; i <= $1; i++)); do
		printf 'class add dev bps-node parent 1: classid 1:%x bpshaper\n' $((i + 256))
		printf '{ "apiVersion": "v1", "kind": "Pod", "metadata": %s }' \
			"{ \"namespace\": \"media\", \"name\": \"m$i\", \"uid\": \"uid-m$i\" }" >$api/pods/m$i.json
	done >/tmp/classes
	must ip -batch /tmp/devices
	must tc -batch /tmp/classes
}

crowd_has() { [ "$(tc class show dev bps-node | grep -c 'prio 4')" = "$1" ]; }

crowd()
{
	local i before had rest change count=1000

	stop "$agent_pid"
	crowd_make $count
	agent_start
	later "the agent takes care of $count pods more" crowd_has $((count + 3))
	sleep 5
	before=$(cpu)
	sleep 70
	rest=$(($(cpu) - before))
	check_num "at rest 70 s take" $rest '<=' 700000 "us of CPU"
	had=$(tc class show dev bps-node | grep -c 'weight 3')
	before=$(cpu)
	for i in {1..20}; do
		pod_says media m$i '"egress-weight": "3"'
		must wait_until 20 grep -q "pod=media/m$i .*egress-weight 3" $said
	done
	sleep 1
	change=$((($(cpu) - before) / 20))
	echo "# $rest us of CPU for 70 s at rest, $change for the change of an annotation"
	check_num "the change of an annotation takes" $change '<=' 20000 "us of CPU"
	is "20 classes more have it" $((had + 20)) "$(tc class show dev bps-node | grep -c 'weight 3')"
	sed 's/add \(.*\) parent 1: \(.*\) bpshaper/del \1 \2/' /tmp/classes >/tmp/classes.del
	must tc -batch /tmp/classes.del
	must ip link del group 9
}

ends()
{
	local pod

	for pod in a b c; do
		cnitool del node /run/netns/$pod || not_ok "DEL of pod $pod"
	done
	stop "$agent_pid"
	stop "$api_pid"
	nothing_is_left "the node without pods"
}

shares
refusals
back
others
restarts
away
receives
[ ! "${CYCLES-}" ] || crowd
ends
finish
