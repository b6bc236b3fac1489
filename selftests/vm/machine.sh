# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # shared with run
#
# The emulator: its command, and running it. Sourced by run.

# Give the guest the frequency of its clock. If the host takes its CPU away
# while it measures the frequency itself, its clock runs up to ten times too
# fast. Emulated, it has the clock of the host. Where the host is virtual
# itself, the frequency in /proc/cpuinfo is right.
tsc_parameter()
{
	awk '
	/^flags/ { is_virtual = / hypervisor / && / constant_tsc / }
	/^cpu MHz/ { khz = $NF * 1000 }
	/^$/ { exit }
	END { if (is_virtual && khz) printf " tsc_early_khz=%d", khz }
	' /proc/cpuinfo
}

# Its second serial line is descriptor 3, which guest_run opens.
uml_command()
{
	qemu=("$VMLINUZ" "mem=$memory" "initrd=$work/initrd" con=null
		"con0=null,fd:1" ssl=null "ssl1=null,fd:3" panic=-1 quiet
		"${append[@]}")
	! [[ $shell ]] || die 2 "no shell in user-mode Linux"
}

# Sets qemu to the command. Nothing in it may depend on the time or the host,
# or icount runs would not repeat.
qemu_command()
{
	local parameters="console=ttyS0 panic=-1 quiet nokaslr norandmaps"

	parameters+=" log_buf_len=4M tsc=reliable ${append[*]}"
	qemu=(qemu-system-x86_64 -nodefaults -no-user-config -no-reboot
		-display none -M q35 -m "$memory")
	case $mode in
	icount)	qemu+=(-accel "tcg,thread=single" -smp 1
			-cpu "max,-rdrand,-rdseed" -icount "shift=0,sleep=off"
			-rtc "base=2026-01-01,clock=vm" -seed 1) ;;
	# no_timer_check: on a busy host the kernel's test of the timer fails,
	# and it panics. -cx16: cmpxchg16b of QEMU 7.2 rarely leaves flags that
	# no CPU has, and the guest dies of a double fault.
	# For watch.sh: all keys of SysRq work, an NMI is a panic, and a panic
	# prints the backtraces of all CPUs.
	smp)	qemu+=(-accel "tcg,thread=multi" -smp "$cpus" -cpu "max,-cx16")
		parameters+=" no_timer_check$(tsc_parameter)"
		parameters+=" sysrq_always_enabled unknown_nmi_panic"
		parameters+=" panic_print=0x40" ;;
	esac
	qemu+=(-kernel "${VMLINUX:-$VMLINUZ}" -initrd "$work/initrd"
		-append "$parameters")
	# The console is a file, which never makes the guest wait: runs must
	# repeat.
	if [[ $shell ]]; then
		qemu+=(-chardev "stdio,id=con,mux=on,logfile=$work/console"
			-serial chardev:con -mon chardev=con)
	else
		qemu+=(-serial "file:$work/console")
		! is_watched || qemu+=(-chardev "stdio,id=monitor,signal=off"
			-mon "chardev=monitor,mode=control")
	fi
	qemu+=(-serial "file:$work/results")
}

# Remove what is not for users: the token, all after it, and the warning that
# every out-of-tree module causes.
console_filter()
{
	sed -u -e 's/\r//g' -e '/ loading out-of-tree module taints kernel/d' \
		-e '/^vm: booted$/d' -e "/^$nonce /Q" -e "/$nonce /{s/$nonce .*//; q}"
}

# seconds_allowed: --timeout, or less if $END_BY (seconds since 1970) is earlier
seconds_allowed()
{
	local left=$timeout

	((${END_BY:-0} == 0)) || left=$((END_BY - $(date +%s)))
	((left > 0)) || left=1
	echo $((left < timeout ? left : timeout))
}

# A guest in virtual time must not depend on a monitor.
is_watched() { [[ $mode == smp && ! $shell && $stall != 0 ]]; }

# Sets guest_pid, guest_status and allowed, the seconds it had. A fifo that is
# open for reading and writing is never at its end.
guest_run()
{
	: >"$work/console"
	allowed=$(seconds_allowed)
	rm -f "$work/stalled" "$work/monitor.in"
	if [[ $mode == uml ]]; then
		timeout -k 5 "$allowed" "${qemu[@]}" </dev/null \
			>"$work/console" 2>&1 3>"$work/results" &
	elif is_watched; then
		mkfifo "$work/monitor.in"
		timeout -k 5 "$allowed" "${qemu[@]}" 0<>"$work/monitor.in" \
			>"$work/monitor" &
	else
		timeout -k 5 "$allowed" "${qemu[@]}" </dev/null &
	fi
	guest_pid=$!
	tail -s 0.1 --pid="$guest_pid" -c +1 -f "$work/console" |
		console_filter &
	! is_watched || guest_watch &
	guest_status=0
	wait "$guest_pid" || guest_status=$?
	guest_pid=
	wait
}

# code_byte: the byte before the instruction pointer, of the first dump of code
code_byte() { sed -n 's/.*Code: .* \(..\) <..>.*/\1/p' | head -n 1; }

# Did the kernel die of an int3 where that byte is another one? Then a CPU
# executed code from before the kernel had changed it.
int3_is_stale()
{
	local byte first

	grep -qa 'int3: 0000' "$work/console" || return
	results_collect
	first=$(complaints_print | head -n 1)
	rm -f "$work/tolerated"		# it is judged again
	[[ $first == *"int3: 0000"* ]] || return
	byte=$(code_byte <"$work/console")
	[[ $byte && $byte != cc ]]
}

# Does a CPU of a stalled guest take such an int3 again and again?
int3_is_endless()
{
	local byte

	byte=$(stall_console | sed -n '/asm_exc_int3/,/Code:/p' | code_byte)
	[[ $byte && $byte != cc ]]
}

# Did the emulator fail, and not what is tested? QEMU 7.2 is wrong when a CPU
# changes code that another one executes, as kernels do at boot: once in some
# hundred boots they die of an int3 or an invalid opcode, before the module is
# loaded. Later it is an int3 that is not in the kernel's memory any more, of
# which the kernel dies, or which it takes without an end. QEMU also dies itself
# of SIGABRT or SIGSEGV. Or its CPUs stand still, and neither keys nor an NMI
# reach the kernel. That counts only if the kernel had not complained.
emulator_failed()
{
	if [[ -e $work/stalled ]]; then
		results_collect
		{ [[ $(stall_answer) == stuck ]] || int3_is_endless; } &&
			[[ ! $(complaints_print) ]]
		return
	fi
	case $guest_status in
	0) ! grep -qa '^vm: booted' "$work/console" || int3_is_stale ;;
	134 | 139)
		results_collect
		[[ ! $(complaints_print) ]]
		;;
	*) false ;;
	esac
}

guest_boot()
{
	local tries=3

	guest_run
	while [[ $mode == smp ]] && ((--tries)) && emulator_failed; do
		say "the emulator failed (qemu: $guest_status$(stall_text)); again"
		rm -f "$work/tolerated"
		guest_run
	done
}

guest_run_shell()
{
	guest_status=0
	"${qemu[@]}" || guest_status=$?
}
