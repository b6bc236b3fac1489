#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The hook for libvirt in Documentation/virtual-machines.rst gives a machine its class. Its lines
# are taken from the page, and it is run as libvirt would. In the place of the machine's
# tap is a veth.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/classes.sh
. "$(dirname "$0")/lib/classes.sh"
# shellcheck source=lib/pod.sh
. "$(dirname "$0")/lib/pod.sh"
# shellcheck source=lib/hook.sh
. "$(dirname "$0")/lib/hook.sh"
device=ifb0

# hook MACHINE WHAT [TAP]: with a disk and a network card
hook()
{
	on_tx /tmp/hook "$1" "$2" begin - <<-END
		<domain type='kvm'>
		  <name>$1</name>
		  <devices>
		    <disk type='file'>
		      <target dev='vda' bus='virtio'/>
		    </disk>
		    <interface type='bridge'>
		      <source bridge='br0'/>
		      <target dev='${3-podhost}'/>
		    </interface>
		  </devices>
		</domain>
	END
}

# goes NAME CLASSID PACKETS: what the machine sends
goes()
{
	local before

	before=$(class_packets "$2")
	must ip netns exec $pod bash -c 'for i in {1..10}; do echo >/dev/udp/10.99.0.2/9; done'
	check_num "$1" $(($(class_packets "$2") - before)) == "$3" packets
}

[ -e "$page" ] || skip_all "the page is not here"
topology_make
pod_make
hook_install /tmp/hook
must on_tx tc qdisc del dev podhost clsact

check_silent "a machine is about to start" hook web1 start
is "it has no class yet" 0 "$(classes)"
check_silent "it has started" hook web1 started
is "it has a class" 1 "$(on_tx tc class show dev ifb0 | grep -c '1:10 .*floor 100Mbit.* ceil 1Gbit')"
goes "what it sends is in its class" 1:10 10
check_silent "libvirtd has started anew" hook web1 reconnect
is "the machine has one class" 1 "$(classes)"
is "and one filter" 1 "$(filters podhost)"
goes "what it sends is in its class once" 1:10 10
check_silent "another one starts" hook db1 started podhost
is "there are two classes" 2 "$(classes)"
goes "the tap is that of the other one" 1:20 10
check_silent "a machine that the file does not know" hook other started
is "it has no class" 2 "$(classes)"
check_silent "the machine has ended" hook web1 release
check_silent "the other one, too" hook db1 release
is "there is no class" 0 "$(classes)"

# What `virsh domiftune --outbound` does first
check "no ingress qdisc beside clsact" on_tx bash -c '! tc qdisc add dev podhost ingress'
must on_tx tc qdisc del dev podhost clsact
must on_tx tc qdisc add dev podhost ingress
check "and the hook says that it fails" bash -c '[ "$1" ]' bash "$(hook web1 started 2>&1)"
pod_remove
finish
