# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # shared with run
#
# The results of a guest: its files, its kernel log, and complaints in it.
# Sourced by run.

# Kernel messages that fail a test: extended regular expressions for the text
# after the time stamp. They must not match harmless lines of stock kernels,
# such as "kasan: KernelAddressSanitizer initialized".
complaints=(
	'BUG[: ]' 'WARNING:' 'Oops' 'Kernel panic' 'Call Trace'
	'general protection fault' '[Uu]nable to handle'
	'KASAN:' 'KCSAN:' 'UBSAN:' 'KMSAN:' 'ODEBUG:'
	'refcount_t' 'list_(add|del) corruption' 'Bad page'
	'possible (circular|recursive|irq|deadlock|unsafe)'
	'INFO: (possible|inconsistent|trying|HARDIRQ|SOFTIRQ|task|rcu)'
	'suspicious RCU' 'rcu: INFO' 'detected .*stall'
	'soft lockup' 'hard LOCKUP' 'hung_task' 'blocked for more than'
	'scheduling while atomic' 'sleeping function called' 'workqueue lockup'
	'kmemleak: [0-9]+ new' 'unreferenced object'
	'unregister_netdevice: waiting' 'protocol [0-9a-f]* is buggy'
)

# No complaint either. QEMU 7.2 has once left flags behind that no CPU has, after cmpxchg16b, and
# among them that of single steps. The kernel warns, clears it and goes on. It is a complaint if a
# debug register is set, or if the kernel's flags have no such bits.
impossible_trap='WARNING: .* exc_debug_kernel..end trace'
impossible_trap+='..DR[0-7]: |RSP: 00(00|10|18):[0-9a-f]+ EFLAGS: 00[0-3]'

# Turn the records of /dev/kmsg into the lines of dmesg.
kmsg_format()
{
	awk -F '[,;]' '/^[0-9]+,[0-9]+,[0-9]+,/ {
		text = substr($0, index($0, ";") + 1)
		gsub(/\\x0a/, "\n", text)
		gsub(/\\x09/, "\t", text)
		printf "[%5d.%06d] %s\n", $3 / 1000000, $3 % 1000000, text
	}'
}

# Unpack the archive that the guest has sent, and copy it to --out. A guest that
# died has sent none; of one that was cut short, the readable part is used.
results_collect()
{
	mkdir -p "$work/guest/out" "$work/guest/etc/vm"
	: >"$work/guest/etc/vm/kmsg"
	tar -xzf "$work/results" -C "$work/guest" 2>/dev/null || true
	kmsg_format <"$work/guest/etc/vm/kmsg" >"$work/dmesg"
	tr -d '\r' <"$work/console" >"$work/console.txt"
	# What a kernel answers to keys is no complaint.
	[[ ! -e $work/stalled ]] || head -c "$(head -n 1 "$work/stalled")" \
		"$work/console" | tr -d '\r' >"$work/console.txt"
	! grep -qaE "${impossible_trap%%..*}" "$work/dmesg" "$work/console.txt" ||
		tolerated+=("$impossible_trap")
	[[ $out ]] || return 0
	mkdir -p "$out"
	cp -r "$work/guest/out/." "$out"
	tr -d '\r' <"$work/console" | sed "s/$nonce /token /" >"$out/vm-console"
	[[ ! -s $work/monitor ]] || cp "$work/monitor" "$out/vm-monitor"
	cp "$work/dmesg" "$out/vm-dmesg"
}

# Print the kernel log without tolerated blocks. The first line of each
# tolerated block goes to $work/tolerated. A block without an end is not
# tolerated. What comes below the entry of an interrupt in a backtrace was
# interrupted, and is not named; the next one begins after a blank line.
log_judged()
{
	awk -v tolerated="$(printf '%s\n' "${tolerated[@]}")" \
	    -v to="$work/tolerated" '
	BEGIN {
		nr = split(tolerated, items, "\n")
		for (i = 1; i <= nr; i++) {
			nr_parts = split(items[i], part, /\.\./)
			from[i] = part[1]; until[i] = part[2]
			name[i] = nr_parts > 2 ? part[3] : ""
		}
	}
	function block_judge() { printf "%s", block; block = ""; inside = 0 }
	!inside {
		for (i = 1; i <= nr && !inside; i++)
			if (from[i] != "" && $0 ~ from[i]) {
				inside = i; first = $0; is_named = interrupted = 0
			}
		if (!inside) { print; next }
	}
	{
		block = block $0 "\n"
		if ($0 ~ /^\[[^]]*\] *$/)
			interrupted = 0
		if ($0 ~ / asm_(sysvec|common_interrupt)/)
			interrupted = 1
		if (name[inside] != "" && !interrupted && $0 ~ name[inside])
			is_named = 1
		if ($0 ~ until[inside]) {
			if (is_named) { block_judge(); next }
			print first >>to
			block = ""; inside = 0
		}
	}
	END { if (inside) block_judge() }'
}

# Print the complaints in the kernel log and on the console: a guest that died
# leaves only the console. Kernel messages have a time stamp, those of the
# script, such as warnings of iperf, have none. With --tolerate the console
# counts only if there is no log: it cuts blocks into pieces.
complaints_print()
{
	local pattern logs=("$work/dmesg" "$work/console.txt")

	pattern="\[ *[0-9]+\.[0-9]{6}\].*($(IFS='|'; echo "${complaints[*]}")).*"
	if ((${#tolerated[@]})); then
		[[ -s $work/dmesg ]] || logs=("$work/console.txt")
		log_judged <"${logs[0]}" >"$work/judged"
		logs=("$work/judged")
	fi
	cat "${logs[@]}" | grep -aoE "$pattern" | awk '!seen[$0]++' || true
	# Backtraces have the level of warnings, which the console may leave
	# out.
	if grep -qaE "$pattern" "${logs[0]}"; then
		echo "the log from the first of them:"
		grep -aE -m 1 -A 40 "$pattern" "${logs[0]}"
	fi
}

# Say what was tolerated and how often, without time stamps.
tolerated_print()
{
	[[ -s $work/tolerated ]] || return 0
	say "tolerated $(wc -l <"$work/tolerated") reports of the kernel:"
	sed 's/^\[[^]]*\] *//' "$work/tolerated" | sort | uniq -c | sort -rn >&2
}

# Print the script's exit status, or nothing if the guest did not finish.
token_status()
{
	sed -n "s/.*$nonce \([0-9]*\)\$/\1/p" "$work/console.txt"
}
