# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# When packets left, as the kernel's trace has it, and what law they kept. Sourced after
# common.sh, never run.

# departures_start [EVENT]: from now on the kernel notes what txdev sends, and when. Packets
# of TCP bring a time of their own along: a tap (bplaw) stamps them only when it is read.
# The event bpshaper/hub_send has the time of the decision, which is what counts where a CPU
# may lose its core before the packet is at the device.
tracing=/sys/kernel/tracing
departures_start()
{
	departures=${1:-net/net_dev_start_xmit}
	[ -e $tracing/trace ] || must mount -t tracefs none $tracing
	echo mono >$tracing/trace_clock
	echo 32768 >$tracing/buffer_size_kb
	[ "$departures" = bpshaper/hub_send ] ||
		echo 'name == "txdev"' >"$tracing/events/$departures/filter"
	echo >$tracing/trace
	echo 1 >"$tracing/events/$departures/enable"
}

# departures_end: prints when (s), how many bytes and, of hub_send, which class, in the order
# of time
departures_end()
{
	echo 0 >"$tracing/events/$departures/enable"
	awk -v event="${departures#*/}" '
		function field(name,    at) {
			at = index($0, " " name "=")
			return substr($0, at + length(name) + 2) + 0
		}
		!(at = index($0, ": " event ": ")) { next }
		event == "hub_send" {
			match($0, / classid=[0-9a-f]*/)
			printf "%.9f %d %s\n", field("now") / 1e9, field("bytes"),
				substr($0, RSTART + 9, RLENGTH - 9)
			next
		}
		{ n = split(substr($0, 1, at - 1), before, " "); print before[n], field("len") }
	' $tracing/trace | sort -s -n -k 1,1
}

# departures_of CLASSID...: those of these classes, of all
departures_of()
{
	awk -v classes="$*" '
		BEGIN {
			n = split(classes, ids)
			for (i = 1; i <= n; i++) {
				split(ids[i], id, ":")
				seen[id[1] substr("000" id[2], length(id[2]))] = 1
			}
		}
		$3 in seen'
}

# level RATE: the most bytes above RATE (bytes/s) times T, in all windows T of departures
level()
{
	awk -v rate="$1" '
		{ level -= ($1 - last) * rate; last = $1 }
		level < 0 { level = 0 }
		{ level += $2 }
		level > most { most = level }
		END { print int(most) }'
}

departures_level() { departures_end | level "$1"; }
