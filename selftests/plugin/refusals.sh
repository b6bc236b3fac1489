# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # $work is set by test_plugin.sh
#
# Part of test_plugin.sh: words that the plugin refuses. Each is refused
# twice, by tc and by the harness, with all that is wrong in one line, and no
# message is made.

# refused WORDS TEXT
refused()
{
	is "tc refuses: $1" "bpshaper: $2" "$(tc_verdict "$1")"
	is "no message is made of: $1" "bpshaper: $2
refused" "$(words_to_hex "$1")"
}

# range WORD: what a value must be
range() { echo "must be ${option_range[$1]}"; }

# out_of_range OPTIONS VALUE...: each of the options with each value
out_of_range()
{
	local word value

	for word in $1; do
		for value in "${@:2}"; do
			refused "$word $value" "\"$word $value\": $(range "$word")"
		done
	done
}

# above WORD, below WORD: the numbers next to the range
above() { echo $((option_largest[$1] + 1)); }
below() { echo $((option_least[$1] - 1)); }

refuse_rates_and_sizes()
{
	out_of_range "rate peakrate maxrate" \
		0bit 7bit 0 -8bit -1mbit +1mbit -0 nan inf 1e999mbit x 10foo \
		64.001Tibit 18446744073709551615Bps 101% 50%% 50%x 0x \
		Unlimited unlim
	out_of_range "burst buffer maxburst" \
		0 0.5 -1 "$(above burst)" 4gb 1e30 nan inf x 1kB/ 1kB/3 1kB/0 \
		1kB/8b 1kB/8/8 /8 0/8
	out_of_range "limit share_min" \
		0 0.5 -1 "$(above limit)" 4gb 1e30 nan inf x 1kB/8
	out_of_range "overhead mpu" "$(above mpu)" 64kb -1 nan x 20/8
	out_of_range memory_limit 0 "$(below memory_limit)" 4gb -1 x
}

refuse_times()
{
	out_of_range latency \
		0 0.5ns -1ms "$(above latency)ns" 61s 1e30s inf 1parsec \
		60000001 60000000001 never
	# A number without a unit is in us; it must not be read as ns.
	out_of_range ce_threshold \
		0ns -1ns "$(above ce_threshold)ns" 61s 60000001 1e30 Never nev \
		unlimited 18446744073709551615ns
}

refuse_names_and_numbers()
{
	out_of_range linklayer 1 ethernets token unspec
	out_of_range "backpressure pacing" 1 0 true o onn ON
	# An overflow must not be read as 0.
	out_of_range queues "$(above queues)" 4294967296 18446744073709551616 \
		1e30 -1 -0 +1 1x 0x 08 1.0 x none on
	out_of_range r2q -1 4294967296 x 1x 1.0
	out_of_range default 100000000 18446744073709551616 -1 +1 1: 1:1 1x 0x x none
}

refuse_words()
{
	refused "foo" '"foo": unknown option, try help'
	refused "rate 1mbit foo 3" '"foo": unknown option, try help'
	refused "rat 1mbit" '"rat": unknown option, try help'
	refused "mem 1m" '"mem": unknown option, try help'
	refused "back on" '"back": unknown option, try help'
	refused "rate" '"rate": must be followed by RATE'
	refused "rate 1mbit latency" '"latency": must be followed by TIME'
	refused "buffer" '"buffer": must be followed by SIZE[/CELL]'
	refused "linklayer" '"linklayer": must be followed by TYPE'
	refused "backpressure" '"backpressure": must be followed by on|off'
	refused "pacing" '"pacing": must be followed by on|off'
	refused "queues" '"queues": must be followed by NUMBER'
	refused "queue 1" '"queue": unknown option, try help'
	refused "group 1" '"group": unknown option, try help'
	refused "default" '"default": must be followed by MINOR'
	refused "defa" '"default": must be followed by MINOR'
	refused "r2q" '"r2q": must be followed by NUMBER'
	refused "debug" '"debug": must be followed by a value'
	refused "direct_qlen" '"direct_qlen": must be followed by a value'
	refused "weight 2" '"weight": unknown option, try help'
	refused "horizon_drop" '"horizon_drop": unknown option, try help'
	refused "mtu" '"mtu": must be followed by a value'
	refused "quantum 1514" '"quantum 1514": it is one packet of the MTU'
	refused "share_max 64k" \
		'"share_max 64k": it is 64Kb, or share_min if that is more'
	refused "low_rate_threshold 1mbit" \
		'"low_rate_threshold 1mbit": it is 550Kbit'
	refused "horizon 2s" \
		'"horizon 2s": it is 10s, and packets beyond it leave then'
	refused "timer_slack 1us" '"timer_slack 1us": it is 10us'
	is "tc refuses a percentage of an unknown speed" \
		'bpshaper: "rate 10%": the speed of the device is unknown' \
		"$(tc_verdict "rate 10%")"
	is "an empty word is unknown" \
		'bpshaper: "": unknown option, try help' \
		"$(stock_tc qdisc add dev "$NODEV" root bpshaper "" 5 2>&1)"
}

refuse_contradictions()
{
	local both="exclude each other" pair

	for pair in rate:1mbit burst:2k buffer:2k maxburst:2k limit:1k \
		    latency:1ms peakrate:1mbit overhead:4 \
		    mpu:64 linklayer:atm memory_limit:1m \
		    share_min:1k backpressure:off pacing:off \
		    maxrate:1mbit ce_threshold:never queues:1; do
		pair=${pair/:/ }
		refused "$pair $pair" "\"$pair\" repeats \"$pair\""
	done
	refused "rate unlimited rate 1bit" '"rate 1bit" repeats "rate unlimited"'
	refused "burst 1k buffer 2k" '"buffer 2k" repeats "burst 1k"'
	refused "maxburst 1k burst 2k" '"burst 2k" repeats "maxburst 1k"'
	refused "limit 1k lim 2k" '"lim 2k" repeats "limit 1k"'
	refused "overhead 0 overhead 0" '"overhead 0" repeats "overhead 0"'

	refused "limit 1k latency 1ms" "\"limit 1k\" and \"latency 1ms\" $both"
	refused "lat 1ms rate 1mbit limit 1k" \
		"\"limit 1k\" and \"lat 1ms\" $both"
	refused "rate unlimited latency 1ms" \
		'"latency 1ms" needs a rate, not "rate unlimited"'
	refused "peakrate 1mbit rate 1mbit" \
		'"peakrate 1mbit" needs a rate below it, not "rate 1mbit"'
	refused "rate 1000001 peakrate 1mbit" \
		'"peakrate 1mbit" needs a rate below it, not "rate 1000001"'
	refused "rate unlimited peakrate 64Tibit" \
		'"peakrate 64Tibit" needs a rate below it, not "rate unlimited"'
}

# All that is wrong is in one line.
refuse_all_at_once()
{
	refused "limit 1k latency 9ms burst 1k maxburst 2k rate 2mbit peakrate 1mbit
		share_min 2k share_min 6" \
		"$(paste -sd' ' <<-'END'
		"maxburst 2k" repeats "burst 1k"; "share_min 6" repeats "share_min 2k";
		"limit 1k" and "latency 9ms" exclude each other;
		"peakrate 1mbit" needs a rate below it, not "rate 2mbit"
		END
		)"
	refused "rate unlimited peakrate 1mbit latency 1ms" \
		'"latency 1ms" needs a rate, not "rate unlimited"; "peakrate 1mbit" needs a rate below it, not "rate unlimited"'
	refused "rate 0 burst 0 memory_limit 1 linklayer x mpu" \
		"$(paste -sd' ' <<-END
		"rate 0": $(range rate); "burst 0": $(range burst);
		"memory_limit 1": $(range memory_limit);
		"linklayer x": $(range linklayer);
		"mpu": must be followed by SIZE
		END
		)"
	refused "limit 0 latency 1ms peakrate 0 rate 1mbit" \
		"$(paste -sd' ' <<-END
		"limit 0": $(range limit); "peakrate 0": $(range peakrate);
		"limit 0" and "latency 1ms" exclude each other
		END
		)"
	refused "burst 0 foo 3 bar 4" \
		"\"burst 0\": $(range burst); \"foo\": unknown option, try help"
	is "help ends the line of what is wrong" \
		"bpshaper: \"burst 0\": $(range burst)
Usage: ..." "$(tc_verdict "burst 0 help" | head -n 2 | sed 's/\.\.\. .*/.../')"
}

test_refusals()
{
	refuse_rates_and_sizes
	refuse_times
	refuse_names_and_numbers
	refuse_words
	refuse_contradictions
	refuse_all_at_once
}
