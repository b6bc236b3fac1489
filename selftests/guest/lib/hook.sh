# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# The hook for libvirt in Documentation/virtual-machines.rst: its lines are taken from the page.
# Sourced after common.sh, never run.

page=$here/virtual-machines.rst

# recipe FROM TO: print the lines of the page from the one that begins so to one that begins so
recipe() { sed -n "\|^    $1|,\|^    $2|s/^    //p" "$page"; }

# hook_install FILE: with the ifb and the file of machines
hook_install()
{
	must modprobe ifb numifbs=0
	mkdir -p /etc/bpshaper "$(dirname "$1")"
	recipe "ip link add ifb0" "tc qdisc replace" >/tmp/ifb
	recipe "web1 1:10" "db1" >/etc/bpshaper/machines
	recipe "#!/bin/sh" "esac" >"$1"
	chmod +x "$1"
	must on_tx bash -e /tmp/ifb
}

classes() { on_tx tc class show dev ifb0 | wc -l; }
filters() { on_tx tc filter show dev "$1" ingress | grep -c 'not_in_hw'; }
