# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # for those who source it; by common.sh
#
# Virtual machines with a kernel, by QEMU. Sourced by machine_real.sh and by
# selftests/vm/machines-bundle, never run.
#
# A machine reads lines from its serial line, runs each with its shell, and prints
# "machine: STATUS" after it. What it prints is in /tmp/machineN, and what QEMU's monitor prints in
# /tmp/monitorN.

# What the card does without: offloads, and what vhost-net of 6.1 has not.
machine_without=(csum guest_csum gso guest_tso4 guest_tso6 guest_ecn guest_ufo host_tso4 host_tso6
	host_ecn host_ufo guest_announce queue_reset)

# Those of a machine whose state is saved, and of those that go on from there.
machine_options=(-M pc -cpu qemu64 -accel tcg -m 160 -nodefaults -no-user-config -display none)
machine_card=virtio-net-pci,netdev=net0,romfile=$(printf ',%s=off' "${machine_without[@]}")
# By the state. A CPU for each queue; each has two vectors, and the card two more.
declare -A machine_cards=(
	[state]="-device $machine_card"
	[state-queues]="-smp 2 -device $machine_card,mq=on,vectors=6"
)

# machine_run N NETDEV STATE: on $tx, with the options of -netdev, and one of /opt/machine; not in
# a subshell
machine_run()
{
	mkfifo "/tmp/serial$1".{in,out} "/tmp/monitor$1".{in,out}
	cat "/tmp/serial$1.out" >"/tmp/machine$1" 2>/dev/null &
	cat "/tmp/monitor$1.out" >"/tmp/monitor$1" 2>/dev/null &
	ip netns exec "$tx" qemu-system-x86_64 "${machine_options[@]}" \
		-netdev "$2,id=net0" ${machine_cards[$3]} \
		-chardev "pipe,id=monitor,path=/tmp/monitor$1" -mon chardev=monitor \
		-chardev "pipe,id=serial,path=/tmp/serial$1" -serial chardev:serial \
		-incoming "exec:cat /opt/machine/$3" >"/tmp/qemu$1" 2>&1 &
	machine_pid[$1]=$!
	# What it gets before it goes on is lost.
	wait_until 60 machine_goes_on "$1" || return
	sleep 1
}

machine_goes_on()
{
	kill -0 "${machine_pid[$1]}" 2>/dev/null || return
	# Opened for reading, too, so that it does not wait for a reader without end.
	echo 1<>"/tmp/serial$1.in"
	sleep 0.2
	grep -q '^machine: 0' "/tmp/machine$1"
}

# machine_start N LINE: does not wait
machine_start()
{
	local answers

	answers=$(grep -c '^machine: [0-9]' "/tmp/machine$1")
	machine_answers[$1]=${answers:-0}
	machine_lines[$1]=$(wc -l <"/tmp/machine$1")
	tr -d '\n' <<<"$2" 1<>"/tmp/serial$1.in"
	echo 1<>"/tmp/serial$1.in"
}

machine_has_answered()
{
	[ "$(grep -c '^machine: [0-9]' "/tmp/machine$1")" -gt "${machine_answers[$1]}" ]
}

# machine_wait N [SECONDS]: until the line is done; its status
machine_wait()
{
	wait_until "${2:-60}" machine_has_answered "$1" &&
		[ "$(grep '^machine: [0-9]' "/tmp/machine$1" | tail -n 1 | tr -d '\r')" = "machine: 0" ]
}

# machine_do N LINE
machine_do()
{
	machine_start "$@"
	machine_wait "$1"
}

# machine_order N COMMAND: to QEMU's monitor
machine_order() { echo "$2" 1<>"/tmp/monitor$1.in"; }

machine_is_saved()
{
	machine_order "$1" "info migrate"
	grep -q "status: completed" "/tmp/monitor$1"
}

# machine_said N: what the line has printed
machine_said() { tail -n +$((machine_lines[$1] + 1)) "/tmp/machine$1" | tr -d '\r'; }

# machine_count N FILE: what a file of the machine has
machine_count()
{
	machine_do "$1" "echo value \$(cat $2)" || return
	machine_said "$1" | sed -n 's/^value //p'
}

# machine_end N
machine_end()
{
	kill -9 "${machine_pid[$1]}" 2>/dev/null
	wait "${machine_pid[$1]}" 2>/dev/null
	rm -f "/tmp/serial$1".{in,out} "/tmp/monitor$1".{in,out}
}
