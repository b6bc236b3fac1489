# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # shared with run
#
# A guest that prints nothing any more: what its CPUs and its kernel do is asked
# of the emulator and printed before the guest is killed. Sourced by run.
#
# Files in $work: monitor, what the emulator answered; stalled, how long the
# console was when the guest was declared stalled, and then "answers", "moves" or
# "stuck".

# A quiet kernel prints nothing while it boots: so many seconds it may.
readonly boot_stall=240

# monitor COMMAND [ARGUMENTS]: in QMP, to the emulator's standard input. A fifo
# that is opened for reading, too, does not block if the emulator is gone.
monitor()
{
	printf '{"execute": "%s"%s}\n' "$1" "${2:+, \"arguments\": $2}" \
		1<>"$work/monitor.in"
}

# monitor_hmp COMMAND: in the words of the monitor for people
monitor_hmp()
{
	monitor human-monitor-command "{\"command-line\": \"$1\"}"
}

guest_lives() { kill -0 "$guest_pid" 2>/dev/null; }

console_size() { stat -c %s "$work/console"; }

# registers_sample: the registers of all CPUs, a second later than the last ones
registers_sample()
{
	guest_lives || return 0
	monitor_hmp "info registers -a"
	sleep 1
}

# registers: a line for each sample
registers() { sed -n 's/^{"return": "\(.*CPU#0.*\)"}.*/\1/p' "$work/monitor"; }

# sysrq KEY...: press them, and wait until the kernel has printed what it has to say
sysrq()
{
	local key size=-1 i

	for key; do
		guest_lives || return 0
		monitor_hmp "sendkey alt-sysrq-$key"
		for ((i = 0; i < 20; i++)); do
			sleep 1
			[[ $(console_size) != "$size" ]] || break
			size=$(console_size)
		done
	done
}

# stall_console: what the guest has printed since it was declared stalled
stall_console()
{
	tail -c "+$(($(head -n 1 "$work/stalled") + 1))" "$work/console"
}

# kernel_answers: since it was asked. Its messages have a time stamp.
kernel_answers()
{
	stall_console |
		grep -qaE '\[ *[0-9]+\.[0-9]{6}\].*(sysrq: |NMI)'
}

# The keys: print all levels; all tasks; blocked ones; what the CPUs do, twice.
# The last is by NMI, except for the CPU that has got the key. If no key is
# answered, an NMI makes the kernel panic and print that.
guest_ask()
{
	local i answer=stuck

	monitor qmp_capabilities
	for i in 1 2 3; do registers_sample; done
	sysrq 9 t w l l
	for i in 1 2; do registers_sample; done
	if ! kernel_answers; then
		monitor inject-nmi
		sleep 5
		registers_sample
	fi
	(($(registers | sort -u | wc -l) < 2)) || answer=moves
	! kernel_answers || answer=answers
	echo $answer >>"$work/stalled"
}

# Where each CPU was in each sample. HLT=1: it had nothing to do.
registers_print()
{
	registers | sed 's/\\r\\n/\n/g' | awk '
		/^CPU#/ { cpu = $1 }
		/^[RE]IP=/ {
			match($0, /CPL=[0-9]*/); level = substr($0, RSTART, RLENGTH)
			match($0, /HLT=[0-9]*/)
			print "  " cpu, $1, level, substr($0, RSTART, RLENGTH)
		}'
}

# guest_watch: while the guest runs. Polls are counted, not seconds: a machine that
# was stopped for a while has no stalled guest.
guest_watch()
{
	local size=0 silent=0 most=0

	while guest_lives; do
		if [[ $(console_size) != "$size" ]]; then
			size=$(console_size) silent=0
		elif ((++silent >= (size ? stall : boot_stall))); then
			say "nothing was printed for $silent s; asking what the CPUs do"
			echo "$size" >"$work/stalled"
			guest_ask
			say "the CPUs in samples:"$'\n'"$(registers_print)"
			kill "$guest_pid" 2>/dev/null || true
			return
		fi
		((silent <= most)) || most=$silent
		sleep 1
	done
	say "the longest time without output was $most s"
}

# stall_text: for the report of a failure of the emulator
stall_text() { [[ ! -e $work/stalled ]] || echo ", its CPUs get nowhere"; }

stall_answer() { sed -n 2p "$work/stalled"; }
