#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# selftest.sh - test the virtual machine harness itself
#
# usage: selftests/vm/selftest.sh [--kernel VERSION]
#
# All other tests rely on the verdict of run. This gives run guests that must
# pass, fail, die, hang and make the kernel complain. Prints TAP and takes three
# minutes. Most guests use --mode smp, which boots quicker.
#
#  1. A script that succeeds passes, with its arguments and environment.
#  2. Files in /out arrive byte for byte, and so does the kernel log.
#  3. A warning of a program on the console is no complaint of the kernel.
#  4. A script's exit status is passed on, and so is SKIP.
#  5. A panic is not a pass, nor is a power-off before the end. An emulator that
#     crashes is started again, unless the kernel had complained. So is one that
#     executes code that the kernel has changed.
#  6. A complaint in the kernel log fails a script that succeeds. Only what
#     --tolerate describes is no complaint, nor is a debug trap of the emulator's own.
#  7. A guest that prints nothing any more is stalled. What its tasks and CPUs do
#     is printed: its kernel is asked by keys, and if they have no effect by an
#     NMI. An emulator whose CPUs stand still, or take an int3 without an end,
#     is started again.
#  8. A guest that hangs is killed in time, and at $END_BY. Killing run kills its
#     guest. Neither leaves files behind.
#  9. Modules and files that are brought along are found.
# 10. The same run in virtual time repeats to the nanosecond.
# 11. Packages that cannot be installed are one failure, of all tiers and of one.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=../tap.sh
. "$vm_dir/../tap.sh"

options=()

# guest_run NAME [OPTION...]: runs the script on standard input; its output
# goes to $work/NAME.log, its exit status to $status.
guest_run()
{
	local name=$1

	shift
	cat >"$work/$name"
	status=0
	"$vm_dir/run" --out "$work/$name.out" "${options[@]}" "$@" \
		"$work/$name" one "two three" >"$work/$name.log" 2>&1 ||
		status=$?
}

# The end of the newest log.
log_tail()
{
	find "$work" -name '*.log' -printf '%T@ %p\n' | sort -n | tail -n 1 |
		cut -d ' ' -f 2- | xargs tail -n 20
}

# status_check EXPECTED SENTENCE: prints the log if the status is another
status_check()
{
	if ((status == $1)); then
		ok "$2"
	else
		not_ok "$2" "expected exit status $1, got $status" "$(log_tail)"
	fi
}

# said NAME PATTERN SENTENCE: of the log
said() { check "$3" grep -q "$2" "$work/$1.log"; }
not_said() { check "$3" test "$(grep -c "$2" "$work/$1.log")" = 0; }

passing_test()
{
	guest_run passes --mode smp --env "NAME=a  value" <<-'END'
		[[ $# == 2 && $2 == "two three" ]] || exit 11
		[[ $NAME == "a  value" ]] || exit 12
		[[ $(id -u) == 0 && $(nproc) == 2 ]] || exit 13
		seq 100000 >/out/numbers
		echo "WARNING: did not receive ack" >&2
		echo -n "no newline at the end"
	END
	status_check 0 "a script that succeeds passes, whatever it prints"
	check "files in /out arrive" \
		cmp -s <(seq 100000) "$work/passes.out/numbers"
	check "the kernel log arrives" \
		grep -q 'Run /init' "$work/passes.out/vm-dmesg"
	said passes '^no newline at the end' "a last line without a newline arrives"
}

status_test()
{
	guest_run fails --mode smp <<<'exit 3'
	status_check 3 "a script that fails fails, with its status"
	guest_run skips --mode smp <<<'exit 4'
	status_check 4 "a script that skips is skipped"
}

death_test()
{
	guest_run panics --mode smp <<<'echo ok; echo c >/proc/sysrq-trigger'
	status_check 125 "a panic is not a pass"
	said panics 'Kernel panic' "a panic is shown"
	guest_run leaves --mode smp <<<'echo ok; poweroff -f'
	status_check 125 "a power-off before the end is not a pass"
}

# crash_run NAME SIGNAL [OPTION...]: like guest_run, but its QEMU gets the signal
# when the script has begun
crash_run()
{
	local qemu="^qemu.*$TMPDIR" nr_polls=0

	cat >"$work/$1"
	"$vm_dir/run" --mode smp "${options[@]}" "${@:3}" "$work/$1" \
		>"$work/$1.log" 2>&1 &
	until grep -qs '^begun' "$work/$1.log" || ((++nr_polls == 600)); do
		sleep 0.1
	done
	pkill "-$2" -f "$qemu" || true
	status=0
	wait "$!" || status=$?
}

# int3_run NAME BYTE: the kernel dies as of an int3, with that byte before the pointer
int3_run()
{
	guest_run "$1" --mode smp <<-END
		echo "<2>Oops: int3: 0000 [#1] PREEMPT SMP NOPTI" >/dev/kmsg
		echo "<2>Code: 4c 89 6c 24 38 $2 <1f> 44 00 00" >/dev/kmsg
		sleep 1
		echo c >/proc/sysrq-trigger
	END
	status_check 125 "a kernel that dies of an int3 ($1) is not a pass"
}

emulator_test()
{
	crash_run crashes SEGV <<<'echo begun; sleep 5'
	status_check 0 "an emulator that crashes is started again"
	said crashes 'emulator failed (qemu: 139)' "the restart is reported"
	crash_run complains SEGV <<<'echo "WARNING: fake" >/dev/kmsg; echo begun; sleep 5'
	status_check 125 "an emulator that crashes after a kernel warning is not started again"
	int3_run stale 0f
	said stale 'emulator failed (qemu: 0)' "a kernel that dies of an int3 that is not in its memory is started again"
	int3_run real cc
	not_said real 'emulator failed' "one that dies of an int3 that is there is not"
}

complaint_test()
{
	guest_run warns --mode smp <<<'echo "WARNING: fake" >/dev/kmsg; dmesg -c'
	status_check 126 "a kernel warning fails a script that succeeds"
	said warns '^\[.*WARNING: fake' "a kernel warning is shown"
}

# block NAME [LINE...]: a report, as a guest's script writes it
block()
{
	printf 'echo "%s" >/dev/kmsg;' "BUG: fake: race in $1" "Call Trace: $1" "${@:2}" \
		"=end="
}

tolerate_test()
{
	local options=(--mode smp --tolerate 'BUG: fake..=end=..ours')
	local interrupt=" asm_sysvec_apic_timer_interrupt+0x1b/0x20"

	guest_run tolerates "${options[@]}" <<<"$(block theirs) $(block theirs "$interrupt" ours)"
	status_check 0 "a tolerated report is no complaint, and what was interrupted is not named"
	said tolerates '^ *2 BUG: fake: race in theirs' "tolerated reports are counted"
	guest_run names "${options[@]}" <<<"$(block theirs) $(block ours)"
	status_check 126 "a report that matches NAME is a complaint"
	guest_run names_again "${options[@]}" <<<"$(block theirs "$interrupt" theirs " " ours)"
	status_check 126 "so is one whose next backtrace does"
	guest_run others "${options[@]}" \
		<<<"$(block theirs) echo 'WARNING: fake' >/dev/kmsg"
	status_check 126 "a complaint beside a tolerated report is a complaint"
	guest_run endless "${options[@]}" \
		<<<"echo 'BUG: fake: race' >/dev/kmsg; echo 'WARNING: fake' >/dev/kmsg"
	status_check 126 "a report without an end is a complaint"
}

# trap FLAGS [LINE]: a report of a debug trap, as a guest's script writes it
trap_report()
{
	printf 'echo "%s" >/dev/kmsg;' "WARNING: CPU: 0 PID: 9 at traps.c:1120 exc_debug_kernel+0xca" \
		"Call Trace:" "RSP: 0018:ffffc90001533840 EFLAGS: $1" \
		"RSP: 002b:00007fffffffe878 EFLAGS: 00000206" "${@:2}" "---[ end trace 0 ]---"
}

trap_test()
{
	guest_run impossible --mode smp <<<"$(trap_report 7fa00342)"
	status_check 0 "a debug trap with flags that no CPU has is the emulator's"
	said impossible '^ *1 WARNING: .* exc_debug_kernel' "it is counted"
	guest_run possible --mode smp <<<"$(trap_report 7fa00342) $(trap_report 00000346)"
	status_check 126 "one with others is a complaint"
	guest_run register --mode smp <<<"$(trap_report 7fa00342 "DR0: 0 DR6: 00000000ffff4ff0")"
	status_check 126 "so is one of a debug register"
}

stall_test()
{
	guest_run stalls --mode smp --stall 15 <<<'echo begun; sleep 200'
	status_check 123 "a guest that prints nothing any more is stalled"
	said stalls 'task:sleep .* state:S' "what its tasks do is shown"
	said stalls 'NMI backtrace for cpu' "what its CPUs do is shown"
	said stalls '^  CPU#1 RIP=' "where its CPUs are is shown"
	not_said stalls complained "what the kernel answers is no complaint"
	not_said stalls 'emulator failed' "a guest whose kernel answers keys is not started again"
	guest_run ignores --mode smp --stall 15 <<-'END'
		echo i8042 >/sys/bus/platform/drivers/i8042/unbind
		sleep 200
	END
	status_check 123 "a guest that ignores keys is stalled"
	said ignores 'NMI: Not continuing' "an NMI shows what its CPUs do"
	not_said ignores 'emulator failed' "a guest whose kernel answers an NMI is not started again"
	guest_run prints --mode smp --stall 15 \
		<<<'for i in 1 2 3 4; do sleep 5; echo $i; done'
	status_check 0 "a guest that prints now and then is not stalled"
	crash_run stops STOP --stall 15 <<<'echo begun; sleep 5'
	status_check 0 "an emulator whose CPUs stand still is started again"
	said stops 'emulator failed (.*get nowhere)' "this restart is reported"
}

# endless BYTE: a stalled guest takes an int3, with that byte before the pointer
endless()
(
	work=$work/int3
	# shellcheck source=machine.sh
	. "$vm_dir/machine.sh"
	# shellcheck source=watch.sh
	. "$vm_dir/watch.sh"
	mkdir -p "$work"
	printf 'Code: 0f <1f>\n' >"$work/console"
	stat -c %s "$work/console" >"$work/stalled"
	echo answers >>"$work/stalled"
	printf '%s\n' "RIP: 0010:get_kprobe+0x0/0x40" "Code: cc <0f> 1f" \
		" asm_exc_int3+0x35/0x40" "Code: 00 $1 <1f> 44" >>"$work/console"
	int3_is_endless
)

endless_test()
{
	check "a stalled guest takes an int3 that is not in its memory" endless 0f
	check "not one that is there" eval '! endless cc'
}

hang_test()
{
	local begin=$SECONDS

	guest_run hangs --mode icount --timeout 9 <<<'while :; do :; done'
	status_check 124 "a guest that hangs is killed"
	check "a guest that hangs is killed in time" \
		test $((SECONDS - begin)) -lt 30
	END_BY=$(($(date +%s) + 9)) guest_run late --mode icount <<<'while :; do :; done'
	status_check 124 "a guest is killed when the time of all is up"
}

guest_running()
{
	pgrep -f "$TMPDIR" >/dev/null
}

nothing_left()
{
	! guest_running && [[ ! $(ls "$TMPDIR") ]]
}

interrupt_test()
{
	local nr_polls=0

	check "nothing is left of a guest that was killed" nothing_left
	"$vm_dir/run" --mode smp "${options[@]}" "$work/hangs" \
		>"$work/interrupted.log" 2>&1 &
	until pgrep -f "^qemu.*$TMPDIR" >/dev/null || ((++nr_polls == 600)); do
		sleep 0.1
	done
	check "a guest to interrupt is running" guest_running
	kill "$!"
	wait "$!" || true
	check "nothing is left of an interrupted guest" nothing_left
}

# The image does not have the module eql.
bring_test()
{
	local MODULES=

	eval "$("$vm_dir/kernel" "${options[1]-6.1}" 2>/dev/null)"
	find "$MODULES/kernel/drivers/net" -name 'eql.ko*' \
		-exec cp {} "$work" \;
	[[ ! -e $work/eql.ko.xz ]] || xz -d "$work/eql.ko.xz"
	guest_run brings --mode smp --module "$work/eql.ko" \
		--file "$(type -P xz):/usr/bin/real-xz" <<-'END'
		modprobe eql && [[ -d /sys/module/eql ]] || exit 11
		tc qdisc add dev lo root tbf rate 1mbit burst 5k limit 5k ||
			exit 12
		echo word | real-xz | real-xz -d || exit 13
	END
	status_check 0 "modules and programs brought along are found"
}

repeat_test()
{
	local i

	for i in 1 2; do
		guest_run repeats --mode icount <<-'END'
			for ((i = 0; i < 20000; i++)); do :; done
			seq 1000 | sort | md5sum
			sleep 0.1
			date +%s.%N
		END
		mv "$work/repeats.log" "$work/repeats.$i"
	done
	check "virtual time repeats to the nanosecond" \
		cmp "$work/repeats.1" "$work/repeats.2"
}

# without_packages COMMAND...: nothing is installed, and apt-get fails
without_packages()
{
	mkdir -p "$work/bin"
	ln -sf "$(type -P true)" "$work/bin/dpkg-query"
	ln -sf "$(type -P false)" "$work/bin/apt-get"
	PATH=$work/bin:$PATH "$@" >"$work/packages.log" 2>&1 || true
}

# tier_alone TIER: as selftests/run would, if its own packages were there
tier_alone()
(
	set +eu
	# shellcheck source=../lib.sh
	. "$vm_dir/../lib.sh"
	# shellcheck source=../tiers/lib.sh
	. "$top/selftests/tiers/lib.sh"
	# shellcheck source=../tiers/stock.sh
	. "$top/selftests/tiers/stock.sh"
	"tier_$1"
)

packages_test()
{
	without_packages "$vm_dir/../run" unit plugin
	is "packages that cannot be installed are one failure" \
		"0 passed, 1 failed, 0 skipped" "$(tail -n 1 "$work/packages.log")"
	without_packages tier_alone top
	is "so they are of a tier" "not ok 1 top: what it needs can be installed" \
		"$(grep -E '^(not )?ok' "$work/packages.log")"
}

main()
{
	[[ ${1-} != --kernel ]] || options=(--kernel "$2")
	# Without a kernel there is nothing to test; kernel says why.
	"$vm_dir/kernel" "${options[1]-6.1}" >/dev/null || {
		skip_all "no kernel"
	}
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	export TMPDIR=$work/tmp
	mkdir "$TMPDIR"
	passing_test
	status_test
	death_test
	emulator_test
	complaint_test
	tolerate_test
	trap_test
	stall_test
	endless_test
	hang_test
	interrupt_test
	bring_test
	repeat_test
	packages_test
	finish
}

main "$@"
