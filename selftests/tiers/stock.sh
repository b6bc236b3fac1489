# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of lib.sh
#
# Tiers on stock Debian kernels. Sourced by selftests/run.
#
#   icount-6.1	stock Debian 6.1, one CPU in virtual time: the shaper's laws, loss,
#		fairness, delays, sockets, every way for a backlog to end. Half of the
#		guest tests; all: icount-long, most: make matrix
#   icount-6.12	the other half, on stock 6.12
#   upstream	the kernel's own tests, on stock 6.12: tc-testing with our cases and
#		those of tbf, and those of net/ that send through a device, so_txtime.sh
#		and others
#   top		bpshaper-top, bpshaper-tap and the module for pyroute2, on stock 6.12; the last
#		on 6.1 as well
#   containers	the recipes for Podman, Docker, systemd-nspawn and LXC on stock 6.12,
#		with Debian's packages
#   senders	programs that keep nothing at EAGAIN, on stock 6.12: chronyd, tinc, rtpengine,
#		aiocoap and Tcl lose nothing of their bursts
#   recipes-long	containers on stock 6.1
#   vm-long	a virtual machine with a kernel, QEMU in QEMU, and libvirtd, on stock 6.12
#   smp		stock 6.1 on two CPUs, truly concurrent: races, load, random
#		netlink messages
#   icount-more	more in virtual time, on stock 6.12: what a packet costs, tests on links
#		with several queues, the kernel's forwarding tests of tbf's rate
#   smp-more	more on two CPUs, on stock 6.1 and 6.12: longer races, queues, pacing; on
#		four and eight, what several queues send; that a queue drains by itself
#   icount-long	all guest tests in virtual time, on both kernels
#   many-long	50,000 sockets on stock 6.1

# cost comes first: earlier tests change what the allocators cost. Each long
# test is on one of the kernels, so that both take equally long.
# Both tiers of make test run these.
guest_each="recipes koordinator tenants machines"
guest_61="cost tap turns machines_ends interface pieces peers sockets ends pool leaf devices
	queues many filters tenants_order bursts"
guest_612="options owners paths segments law sends tcp marks pacing queues_paced queues_sparse runs
	call mtu stamps drain clients overload memory tenants_memory adversaries
	adversaries_classes classes overcommit htb machine_hook"
# Links with four queues
guest_queues="classes@4 ends@4 ends_classes@4"

# upstream NAME TESTS: with what the kernel's own tests need
upstream()
{
	local kernel bundle net

	kernel=$("$top/selftests/tdc/kernel-selftests") &&
		bundle=$("$vm/python-bundle") || {
		skip "$1" "no kernel source, or no python, can be had"
		return
	}
	net=$(kernel_net "$builds/kernel-net") || {
		not_ok "$1: the kernel's tests of net build"
		return
	}
	# shellcheck disable=SC2086 # words
	in_vm "$1" 6.12 "$2" --mode icount --timeout 900 \
		$bundle $net --file "$kernel:/opt/bpshaper/kernel-selftests" \
		--file "$top/selftests/tdc/bpshaper.json" \
		--file "$top/selftests/tdc/upstream.py" --file "$(type -P jq)" \
		--file "$(type -P mausezahn)" --file "$(type -P ping):/usr/bin/ping"
}

tier_upstream() { upstream upstream "tdc upstream_net"; }

tier_top()
{
	local bundle

	bundle_make top "$vm/python-bundle" || return
	bundle+=" --file $top/tools/pyroute2/sched_bpshaper.py"
	# shellcheck disable=SC2086 # words
	in_vm top 6.12 "top tap_tool pyroute2" --mode icount --timeout 1500 $bundle \
		--file "$top/tools/bpshaper-top" --file "$top/tools/bpshaper_top" \
		--file "$top/tools/bpshaper-tap" --file "$top/selftests/top/screen.py"
	# shellcheck disable=SC2086 # words
	in_vm top-6.1 6.1 "pyroute2" --mode icount --timeout 900 $bundle
}

# containers NAME KERNEL
containers()
{
	local bundle

	bundle=$("$vm/containers-bundle" "$builds/$1") || {
		skip "$1" "no Go, or not all packages for containers, can be had"
		return
	}
	# shellcheck disable=SC2086 # words
	in_vm "$1" "$2" containers --mode icount --timeout 900 $bundle
}

tier_containers() { containers containers 6.12; }

tier_senders()
{
	local bundle

	bundle=$("$vm/senders-bundle") || {
		skip senders "the packages of the programs cannot be had"
		return
	}
	# shellcheck disable=SC2086 # words
	in_vm senders 6.12 senders --mode icount --timeout 900 $bundle
}

tier_recipes-long() { containers containers-long 6.1; }

tier_vm-long()
{
	local bundle

	bundle=$("$vm/machines-bundle" "$builds/vm-long") || {
		not_ok vm-long "no machine could be started"
		return
	}
	# shellcheck disable=SC2086 # words
	in_vm vm-long 6.12 machine_real --mode icount --timeout 1800 --memory 3G $bundle
	bundle=$("$vm/libvirt-bundle") || {
		skip vm-long "libvirt's packages cannot be had"
		return
	}
	# shellcheck disable=SC2086 # words
	in_vm vm-long 6.12 machine_libvirt --mode icount --timeout 900 --memory 2G $bundle
}

tier_many-long()
{
	in_vm many-long 6.1 many --mode icount --timeout 1800 --memory 6G \
		--env SOCKETS=50000
}

# icount NAME KERNEL TESTS OPTIONS...
icount() { in_vm "$1" "$2" "$3" --mode icount --timeout 4500 "${@:4}"; }

tier_icount-6.1() { icount icount-6.1 6.1 "$guest_61 $guest_each"; }

# adversaries counts instructions, of which clearing a page takes one for each byte.
tier_icount-6.12()
{
	icount icount-6.12 6.12 "$guest_each $guest_612" --append init_on_alloc=0
}

tier_icount-more()
{
	icount icount-more 6.12 "cost $guest_queues"
	upstream icount-more forwarding
}

tier_icount-long()
{
	local kernel

	for kernel in 6.1 6.12; do
		icount "icount-long, $kernel" $kernel \
			"$guest_61 $guest_each $guest_612 $guest_queues tenants_order@4 members loss"
	done
}

# smp KERNEL TESTS OPTIONS...
smp()
{
	local bundle

	# shellcheck disable=SC2086 # words
	bundle_make "smp, $1" fuzz_files &&
		in_vm "smp, $1" "$1" "$2" --mode smp --timeout 900 $bundle "${@:3}"
}

tier_smp() { smp 6.1 "race smp fuzz" --env DURATION=10 --env ITERATIONS=1000; }

# The tests that the debug kernel also runs are on 6.1: the debug kernel is a
# 6.12.
tier_smp-more()
{
	smp 6.1 "clients race machines_race members queues_law drain fuzz" --env DURATION=20 \
		--env ITERATIONS=1000
	smp 6.12 "race pacing stamps" --env DURATION=20
	smp 6.12 "drain queues_law" --cpus 4
	smp 6.12 "queues_law@8" --cpus 8
}
