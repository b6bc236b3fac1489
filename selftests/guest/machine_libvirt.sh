#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# libvirtd runs the hook of Documentation/virtual-machines.rst and gives a tap the send buffer that
# the page says. The machines have a network card and no operating system. Only with
# selftests/vm/libvirt-bundle. machine_hook.sh has what the hook does.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/hook.sh
. "$(dirname "$0")/lib/hook.sh"

# libvirtd_start NAME: not in a subshell
libvirtd_start()
{
	on_tx libvirtd >/tmp/libvirtd 2>&1 &
	daemon=$!
	wait_until 90 virsh list
	is "$1" 0 $?
	virsh list >/dev/null 2>&1 || sed 's/^/# /' /tmp/libvirtd
}

libvirtd_end()
{
	kill "$daemon" 2>/dev/null
	wait "$daemon" 2>/dev/null
}

# Its messages have a line each, and lines without text.
virsh() { command virsh -q -c qemu:///system "$@"; }

# card [XML]: that of the page, with more in it
card()
{
	sed -n "/^    <interface type='bridge'>/,/^    <.interface>/p" "$page" |
		sed "s|</interface>|<rom enabled='no'/>${1-}&|"
}

# domain NAME [XML OF THE CARD]
domain()
{
	cat >"/tmp/$1.xml" <<-END
		<domain type='qemu'>
		  <name>$1</name>
		  <memory unit='MiB'>32</memory>
		  <os><type arch='x86_64' machine='pc'>hvm</type></os>
		  <features><acpi/></features>
		  <devices>
		    <emulator>/usr/bin/qemu-system-x86_64</emulator>
		    <controller type='usb' model='none'/>
		    <memballoon model='none'/>
		    $(card "${@:2}")
		  </devices>
		</domain>
	END
}

# tap_of MACHINE
tap_of() { virsh domiflist "$1" | awk '$3 == "br0" { print $1 }'; }

shown() { on_tx python3 "$here/bpshaper-tap" "$1" | awk -v dev="$1" '$1 == dev { print $4, $5, $6 }'; }

filters_of()
{
	local tap

	for tap in $(tap_of "$1"); do
		filters "$tap"
	done | xargs
}

# actions TAP: those of its filters that decide, in order
actions() { on_tx tc filter show dev "$1" ingress | grep -oE 'mirred|police' | xargs; }

# hook_again MACHINE: as the page says
hook_again() { virsh dumpxml "$1" | on_tx /etc/libvirt/hooks/qemu "$1" reconnect begin -; }

type -P libvirtd >/dev/null || skip_all "libvirtd is not here: selftests/vm/libvirt-bundle"
topology_make
must modprobe tun
must modprobe vhost_net
must ip -n "$tx" link add br0 type bridge
must ip -n "$tx" link set br0 up
hook_install /etc/libvirt/hooks/qemu
# The users that it has by default must exist.
echo "libvirt-qemu:x:64055:64055::/:/bin/sh" >>/etc/passwd
printf '%s\n' kvm:x:64054: libvirt-qemu:x:64055: >>/etc/group
rm -rf /var/run
ln -s /run /var/run
libvirtd_start "libvirtd starts"

domain web1
check "a machine starts" virsh create /tmp/web1.xml
tap=$(tap_of web1)
# libvirt uses vhost-net only with KVM.
is "its tap has the send buffer of the page, and can be held" "1048576 no yes" "$(shown "$tap")"
is "it has its class" 1 "$(on_tx tc class show dev ifb0 | grep -c '1:10 .*floor 100Mbit.* ceil 1Gbit')"
is "what it sends goes there" 1 "$(filters "$tap")"
libvirtd_end
libvirtd_start "libvirtd starts anew"
is "the machine goes on" web1 "$(virsh list --name | xargs)"
is "it has one class" 1 "$(classes)"
is "and one filter" 1 "$(filters "$tap")"
domain db1 "<bandwidth><inbound average='1000'/></bandwidth>"
check "a machine with a limit of what it receives starts" virsh create /tmp/db1.xml
is "there are two classes" 2 "$(classes)"
said=$(virsh domiftune web1 "$tap" --outbound 1000 --live 2>&1)
is "domiftune of what it sends is refused" 1 $?
echo "# domiftune: $said"
is "the machine keeps its class and filter" "2 1" "$(classes) $(filters "$tap")"
check "domiftune of what it receives" virsh domiftune web1 "$tap" --inbound 1000 --live
check "the machine ends" virsh destroy web1
is "its class is gone" 1 "$(classes)"
check "its tap is gone" bash -c "! ip -n $tx link show dev $tap"

card >/tmp/card.xml
check "a machine gets another card" virsh attach-device db1 /tmp/card.xml --live
is "which has no filter by itself" "1 0" "$(filters_of db1)"
check_silent "the hook by hand" hook_again db1
is "it has one then" "1 1" "$(filters_of db1)"
check "the other one ends" virsh destroy db1
is "there is no class" 0 "$(classes)"

domain web1 "<bandwidth><outbound average='1000'/></bandwidth>"
check "a machine with <outbound> starts" virsh create /tmp/web1.xml
tap=$(tap_of web1)
is "what it sends goes to its class before it is policed" "mirred police" "$(actions "$tap")"
check "domiftune sets another one" virsh domiftune web1 "$tap" --outbound 2000 --live
is "which takes it out of its class" police "$(actions "$tap")"
hook_again web1 >/dev/null 2>&1
is "the hook by hand puts it back" "mirred police" "$(actions "$tap")"
check "it ends" virsh destroy web1
libvirtd_end
finish
