# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# Part of test_plugin.sh: options of a class: messages, refusals, text, JSON,
# help, round trips, and what becomes of the words of htb.

send_class_rates()
{
	local mbit=125000

	sends "floor 0bit" floor "$(least floor)"
	sends "floor 0" floor "$(least floor)"
	sends "floor 1mbit" floor $mbit
	sends "floor 64Tibit" floor "$(largest floor)"
	sends "ceil 8bit" ceil "$(least ceil)"
	sends "ceil 64Tibit" ceil "$(largest ceil)"
	sends "ceil unlimited" ceil -1
	sends "ceil 1mbit floor 1mbit" floor $mbit ceil $mbit
	sends "floor 64Tibit ceil unlimited" floor "$(largest floor)" ceil -1
}

send_class_numbers()
{
	sends ""
	sends "weight 1" weight "$(least weight)"
	sends "weight 1048576" weight "$(largest weight)"
	sends "weight 0x10" weight 16
	sends "prio 0" prio "$(least prio)"
	sends "prio 7" prio "$(largest prio)"
	sends "overcommit on" overcommit "$(largest overcommit)"
	sends "overcommit off" overcommit "$(least overcommit)"
	sends "backpressure off" backpressure "$(least backpressure)"
	sends "limit 1" limit "$(least limit)"
	sends "limit 4294967295b" limit "$(largest limit)"
	sends "latency 1ns" latency "$(least latency)"
	sends "latency 10" latency 10000
	sends "latency 60s" latency "$(largest latency)"
	sends "burst 1b" burst "$(least burst)"
	sends "buffer 25k" burst 25600
	sends "maxburst 4294967295b" burst "$(largest burst)"
	sends "cburst 6000/16" burst 6000
	sends "latency 5ms burst 4k prio 3 weight 9 ceil 20mbit floor 8mbit" \
		floor 1000000 ceil 2500000 weight 9 prio 3 latency 5000000 \
		burst 4096
}

# The flag that says that the command is one of htb
htb_nest() { nest_hex "$(attrs "$@")$(attr 10 "")"; }

# sends_htb WORDS [OPTION VALUE]...: and the flag
sends_htb()
{
	is "message of: $1" "$(htb_nest "${@:2}")" "$(words_to_hex "$1")"
	is "tc takes: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
}

# says_htb WORDS NOTE [OPTION VALUE]...: and tc says NOTE
says_htb()
{
	is "message of: $1, which says: $2" "bpshaper: note: $2
$(htb_nest "${@:3}")" "$(words_to_hex "$1")"
}

# A ceil that was not given is the rate. The kernel does the rest.
send_htb_words()
{
	local mbit=125000

	sends_htb "rate 1mbit" floor $mbit ceil $mbit overcommit 1
	sends_htb "rate 1mbit ceil 2mbit" floor $mbit ceil $((2 * mbit)) overcommit 1
	sends_htb "rate 2mbit ceil 1mbit" floor $((2 * mbit)) ceil $mbit overcommit 1
	sends_htb "ceil unlimited rate 1mbit" floor $mbit ceil -1 overcommit 1
	sends_htb "rate 1mbit weight 3" floor $mbit ceil $mbit weight 3 overcommit 1
	sends_htb "rate 1mbit quantum 1514" floor $mbit ceil $mbit weight 1514 overcommit 1
	# A packet at least
	sends_htb "rate 1mbit quantum 1000" floor $mbit ceil $mbit weight 1514 overcommit 1
	sends_htb "rate 0bit" floor 0 overcommit 1
	sends "floor 1mbit ceil 2mbit" floor $mbit ceil $((2 * mbit))
	sends_htb "rate 1mbit overcommit off" floor $mbit ceil $mbit overcommit 0
	sends "quantum 1" weight 1
	sends "quantum 2k" weight 2048
	sends "quantum 1514b" weight 1514
	sends "quantum 1.5kb" weight 1536
	sends "quantum 1mb" weight "$(largest weight)"
	sends "mtu 1500"
	sends "floor 1mbit mtu 1500" floor $mbit
	sends "mtu x prio 1" prio 1
	is "mpu has no effect, and that is said" \
		"bpshaper: note: \"mpu 64\" has no effect: it is an option of the qdisc, for all classes
$(nest prio 1)" \
		"$(words_to_hex "mpu 64 prio 1")"
}

# What htb takes and clamps, or passes over, beside its word rate
send_htb_values()
{
	local mbit=125000 rate words
	local -a mbits=(floor "$mbit" ceil "$mbit")

	rate="rate 1mbit"
	for words in "burst 0" "cburst 0" "cbuffer 0.5" "quantum 0" "ceil 0" "ceil 7bit" \
		     "overhead 0" "linklayer ethernet" "linklayer eth" "mpu 0" "mtu 0" \
		     "mtu 1500 mtu 2000" "overhead 0 linklayer ethernet overhead 0"; do
		sends_htb "$rate $words" "${mbits[@]}" overcommit 1
		sends_htb "$words $rate" "${mbits[@]}" overcommit 1
	done
	for words in 8 20 256 08 4294967295; do
		says_htb "$rate prio $words" "\"prio $words\" counts as 7" \
			"${mbits[@]}" prio 7 overcommit 1
	done
	sends_htb "$rate prio 07" "${mbits[@]}" prio 7 overcommit 1
	for words in 1048577 1250000 12500000 4294967295; do
		says_htb "$rate quantum $words" "\"quantum $words\" counts as 1048576" \
			"${mbits[@]}" weight 1048576 overcommit 1
	done
	sends_htb "$rate quantum 020000" "${mbits[@]}" weight 20000 overcommit 1
	says_htb "rate 1mbit ceil 600tbit" '"ceil 600tbit" counts as 64Tibit' \
		floor $mbit ceil "$(largest ceil)" overcommit 1
	says_htb "rate 71tbit" '"rate 71tbit" counts as 64Tibit' \
		floor "$(largest floor)" ceil "$(largest ceil)" overcommit 1
	is "mpu has no effect beside rate, too, and that is said" \
		"bpshaper: note: \"mpu 64\" has no effect: it is an option of the qdisc, for all classes
$(htb_nest "${mbits[@]}" overcommit 1)" "$(words_to_hex "$rate mpu 64")"
}

send_htb_repeated()
{
	local mbit=125000 rate
	local -a mbits=(floor "$mbit" ceil "$mbit")

	rate="rate 1mbit"
	says_htb "$rate prio 1 prio 2" '"prio 1" has no effect: it is repeated' \
		"${mbits[@]}" prio 2 overcommit 1
	says_htb "quantum 9000 $rate quantum 6000" '"quantum 9000" has no effect: it is repeated' \
		"${mbits[@]}" weight 6000 overcommit 1
	says_htb "$rate cburst 9000 cmaxburst 6000" \
		'"cburst 9000" has no effect: it is repeated' "${mbits[@]}" burst 6000 overcommit 1
	says_htb "$rate cburst 9000 cburst 0" \
		'"cburst 9000" has no effect: it is repeated' "${mbits[@]}" overcommit 1
	says_htb "$rate burst 9000 buffer 6000" \
		'"burst 9000" has no effect: it is repeated' "${mbits[@]}" overcommit 1
	sends_htb "$rate ceil 0 ceil 2mbit" floor $mbit ceil $((2 * mbit)) overcommit 1
	refused "$rate rate 1mbit" '"rate 1mbit" repeats "rate 1mbit"'
	refused "$rate ceil 2mbit ceil 2mbit" '"ceil 2mbit" repeats "ceil 2mbit"'
	refused "quantum 6000 weight 3 $rate" '"weight 3" repeats "quantum 6000"'
}

# htb takes the beginning of a word for the first of its words that fits.
send_htb_beginnings()
{
	local mbit=125000

	sends_htb "p 3 q 6000 rate 1mbit cb 9000 b 3k m 1500 over 0 l ethernet" \
		floor $mbit ceil $mbit weight 6000 prio 3 burst 9000 overcommit 1
	refused "rate 1mbit cei 2mbit" '"cei": unknown option, try help'
	refused "ra 1mbit" '"ra": unknown option, try help'
}

# Beside rate, words that are not htb's are as strict as ever, and so is what htb refuses.
refuse_htb_values()
{
	local words

	for words in "prio -1" "prio 4294967296" "prio x" "quantum -1" "quantum 4294967296" \
		     "cburst -1" "ceil -1mbit" "weight 0" "weight 1048577" "latency 0" "limit 0"; do
		refused "rate 1mbit $words" "\"$words\": $(range "${words% *}")"
	done
	for words in "overhead 24" "linklayer atm" "linklayer adsl"; do
		refused "rate 1mbit $words" \
			"\"$words\": it is an option of the qdisc, for all classes"
	done
	for words in "overhead 0" "linklayer ethernet"; do
		refused "floor 1mbit $words" \
			"\"$words\": it is an option of the qdisc, for all classes"
	done
}

# The burst of bpshaper is that of the ceil: htb's cburst.
send_bursts()
{
	local word

	sends "burst 15k cburst 3k" burst 3072
	sends "cburst 3k burst 15k" burst 3072
	# With rate, a burst alone is the other one of htb.
	sends_htb "rate 1mbit burst 15k" floor 125000 ceil 125000 overcommit 1
	for word in buffer maxburst; do
		sends "$word 15k cburst 3k" burst 3072
		sends "cburst 3k $word 15k" burst 3072
	done
	refused "burst 15k burst 16k" '"burst 16k" repeats "burst 15k"'
	refused "buffer 15k maxburst 16k" '"maxburst 16k" repeats "buffer 15k"'
	refused "cburst 3k cburst 4k" '"cburst 4k" repeats "cburst 3k"'
	refused "burst 1k cburst 2k cburst 3k" '"cburst 3k" repeats "cburst 2k"'
	refused "burst 0 cburst 2k" "\"burst 0\": $(range burst)"
	refused "cburst 0" "\"cburst 0\": $(range burst)"
}

refuse_class_values()
{
	out_of_range "floor rate" \
		unlimited -8bit +1mbit -0 nan inf 1e999mbit x 10foo \
		101% 50%% 0x
	out_of_range floor 64.001Tibit 18446744073709551615Bps
	out_of_range ceil 0bit 7bit 0 -1mbit nan inf x 64.001Tibit Unlimited
	out_of_range "weight quantum" 0 0.5 "$(above weight)" 1025kb 4gb -1 \
		1.5 1e3 18446744073709551616 nan x 0x 1x unlimited
	out_of_range prio "$(above prio)" -1 +1 1.0 0x 08 x 1b \
		18446744073709551616
	out_of_range "burst buffer maxburst cburst" \
		0 0.5 -1 "$(above burst)" 4gb nan x 1kB/ 1kB/3 /8
	out_of_range limit 0 0.5 -1 "$(above limit)" 4gb nan x 1kB/8
	out_of_range "overcommit backpressure" 1 0 yes On
	out_of_range latency 0 0.5ns -1ms "$(above latency)ns" 61s 60000001 \
		1e30s inf never
}

refuse_class_words()
{
	local word

	for word in floor:RATE rate:RATE ceil:RATE weight:NUMBER quantum:NUMBER \
		    prio:NUMBER burst:SIZE[/CELL] cburst:SIZE[/CELL] limit:SIZE \
		    latency:TIME "overcommit:on|off" "backpressure:on|off"; do
		refused "${word%:*}" \
			"\"${word%:*}\": must be followed by ${word#*:}"
	done
	for word in mtu mpu overhead linklayer; do
		refused "$word" "\"$word\": must be followed by a value"
	done
	for word in "overhead 24" "linklayer atm"; do
		refused "$word" \
			"\"$word\": it is an option of the qdisc, for all classes"
	done
	# Those of the qdisc, and no abbreviations: they came with tbf.
	for word in peakrate default pacing queues share_min r2q direct_qlen \
		    foo flo cei lat lim bur pri; do
		refused "$word 1" "\"$word\": unknown option, try help"
	done
	is "an empty word is unknown" '"": unknown option, try help' \
		"$(stock_tc class add dev "$NODEV" classid 1:1 bpshaper "" 5 2>&1 |
		   sed 's/^bpshaper: //')"
}

refuse_class_contradictions()
{
	local both="exclude each other" pair

	for pair in floor:1mbit rate:1mbit ceil:1mbit weight:2 quantum:2 prio:1 \
		    burst:2k cburst:2k limit:1k latency:1ms overcommit:on \
		    backpressure:on; do
		pair=${pair/:/ }
		refused "$pair $pair" "\"$pair\" repeats \"$pair\""
	done
	refused "floor 1mbit rate 2mbit" '"rate 2mbit" repeats "floor 1mbit"'
	refused "rate 1mbit floor 2mbit" '"floor 2mbit" repeats "rate 1mbit"'
	refused "weight 1 quantum 1k" '"quantum 1k" repeats "weight 1"'
	refused "limit 1k latency 1ms" "\"limit 1k\" and \"latency 1ms\" $both"
	refused "latency 1ms limit 1k" "\"limit 1k\" and \"latency 1ms\" $both"
	refused "floor 2mbit ceil 1mbit" '"floor 2mbit" is above "ceil 1mbit"'
	refused "ceil 8bit floor 16bit" '"floor 16bit" is above "ceil 8bit"'
	refused "prio 8 floor 2mbit ceil 1mbit limit 1k overhead 4 latency 1ms mpu 4 foo" \
		"$(paste -sd' ' <<-END
		"prio 8": $(range prio);
		"overhead 4": it is an option of the qdisc, for all classes;
		"foo": unknown option, try help;
		"limit 1k" and "latency 1ms" $both;
		"floor 2mbit" is above "ceil 1mbit"
		END
		)"
}

test_class_print()
{
	local hex

	prints "floor 8mbit ceil 20mbit weight 3 prio 1 burst 4k limit 10k" \
		"floor 8Mbit ceil 20Mbit weight 3 prio 1 limit 10Kb burst 4Kb " \
		'{"floor":1000000,"ceil":2500000,"weight":3,"prio":1,"limit":10240,"burst":4096}'
	prints "latency 1500us weight 1048576" "weight 1048576 latency 1500us " \
		'{"weight":1048576,"latency":1500000}'
	prints "floor 8mbit overcommit on" "floor 8Mbit overcommit on " \
		'{"floor":1000000,"overcommit":"on"}'
	prints "backpressure off" "backpressure off " '{"backpressure":"off"}'
	prints "floor 1000001Bps prio 0" "floor 8000008bit prio 0 " \
		'{"floor":1000001,"prio":0}'
	hex=$(nest floor 0 ceil -1 weight 1 prio 0 burst 3028 overcommit 0 backpressure 1)
	is "text does without what is as without an option" \
		"weight 1 prio 0 burst 3028b " "$(hex_to "$hex")"
	is "details have them" \
		"floor 0bit ceil unlimited weight 1 prio 0 burst 3028b overcommit off backpressure on " \
		"$(hex_to -d "$hex")"
	is "JSON has them" \
		'{"floor":0,"ceil":"unlimited","weight":1,"prio":0,"burst":3028,"overcommit":"off","backpressure":"on"}' \
		"$(hex_to -j "$hex")"
	is "attributes of a class that are too short or unknown are passed over" \
		'{"burst":7}' \
		"$(hex_to -j "$(nest_hex "$(short floor)$(short latency)$(
			attrs burst 7)$(attr 99 "$(int 4 1)")")")"
	is "no attributes of a class print nothing" "" "$(hex_to "$(nest)")"
}

# as_htb OPTIONS JSON: htb takes them, we take them, and they mean JSON
as_htb()
{
	is "htb takes: $1" "Cannot find device \"$NODEV\"" \
		"$(tc_verdict "$1" htb)"
	is "so do we: $1" "Cannot find device \"$NODEV\"" "$(tc_verdict "$1")"
	is "and with the same meaning: $1" "$2" \
		"$(hex_to -j "$(words_to_hex "$1")")"
}

# From tc-htb(8), its usage text, and what people write.
test_htb()
{
	as_htb "rate 100kbps ceil 100kbps" \
		'{"floor":100000,"ceil":100000,"overcommit":"on"}'
	as_htb "rate 30kbps ceil 100kbps burst 2k" \
		'{"floor":30000,"ceil":100000,"overcommit":"on"}'
	as_htb "rate 5mbit burst 15k" \
		'{"floor":625000,"ceil":625000,"overcommit":"on"}'
	as_htb "prio 1 rate 80mbit ceil 200mbit burst 15k cburst 3k quantum 1514" \
		'{"floor":10000000,"ceil":25000000,"weight":1514,"prio":1,"burst":3072,"overcommit":"on"}'
	as_htb "rate 6mbit ceil 10mbit mtu 1500 quantum 60000 prio 0" \
		'{"floor":750000,"ceil":1250000,"weight":60000,"prio":0,"overcommit":"on"}'
}

test_class_options()
{
	local object=class_

	options_read
	option_range[rate]=${option_range[floor]}
	option_range[cburst]=${option_range[burst]}
	send_class_rates
	send_class_numbers
	send_htb_words
	send_htb_values
	send_htb_repeated
	send_htb_beginnings
	send_bursts
	refuse_class_values
	refuse_class_words
	refuse_class_contradictions
	refuse_htb_values
	test_class_print
	help_is "[ floor RATE ] [ ceil RATE ] [ weight NUMBER ]"
	test_htb
	test_round_trip
}
