# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # by and for common.sh
#
# Attacks, and a sparse sender beside each: parts `sparse` and `peers` of adversaries.sh, which
# sources it, and adversaries_classes.sh.

# sum KEY: of all qdiscs of txdev, where a shaper and its child are two
sum()
{
	on_tx tc -s -j qdisc show dev txdev | tr ',{}' '\n' |
		sed -n "s/^\"$1\"://p" | sort -rn | head -n 1
}

# sparse_options INTERVAL_US SECONDS WARMUP_MS: after a round of those who send all the time, in which
# everybody is new
sparse_options()
{
	probe=(--probe --probe-interval-us "$1" --seconds "$2" --warmup-ms "$3" --drain-ms 500)
}

# beside NAME ATTACK...: which begins 50 ms after the sparse sender, so that this is known. A fresh
# flow waits for the fresh ones before it.
beside()
{
	local name=$1 attack

	(sleep 0.05; "${@:2}") &
	attack=$!
	send "${probe[@]}"
	echo "# ${shaper[0]}${child:+ and $child}: $name: a sparse sender lost $(result probe_lost_packets) of" \
		"$(result probe_sent_packets), waited $(result probe_delay_p50_ms)," \
		"p99 $(result probe_delay_p99_ms) ms; $(sum drops) drops, $(sum qlen) queued"
	wait $attack
	[ "${shaper[0]}" = bpshaper ] || return
	check_num "$name: a sparse sender loses nothing" "$(result probe_lost_packets)" == 0
	check_num "$name: and waits 1 ms at most (p99)" "$(result probe_delay_p99_ms)" '<=' 1 ms
	check "$name: nothing is left" wait_until 20 no_socket_is_held
}

attack_flood()
{
	flood txdev "$@"
	pktgen kpktgend_0 rem_device_all
}

attack_sockets() { (report=/dev/null; send --drain-ms 300 --port 7000 "$@"); }

# attack_many WORD SOCKETS
attack_many()
{
	many_start "$2" 1400
	must [ -n "$(many_say "$1")" ]
	sleep 1
	many_end
}

attack_listing()
{
	local end=$((SECONDS + 2))

	attack_sockets --seconds 1.5 --udp 100 --mode epoll &
	while [ $SECONDS -lt $end ]; do
		on_tx tc -s class show dev txdev >/dev/null
	done
	wait
}

# shaped OPTIONS...: by $shaper, with $child below it
shaped()
{
	shape handle 1: "${shaper[@]}" "$@"
	[ -z "$child" ] || on_tx tc qdisc add dev txdev parent 1: "$child"
}

# A small packet takes as much as a frame of 1500 bytes, or of 512, so that one CPU can send more of
# them than the line can take. A sender is sparse if it asks for less than its fair share, so
# beside many sockets it sends less often.
attacks()
{
	sparse_options 5000 1.5 200
	on_tx tc qdisc del dev txdev root 2>/dev/null
	peer_connect 20
	shaped mpu 512
	beside "provoked ACKs" peer flood 50000 30
	peer_end
	shaped
	beside "forwarded new hashes, full frames" attack_flood "count 13000" "pkt_size 1400" \
		"delay 110000"
	shaped mpu 1500
	beside "forwarded new hashes, tiny packets" attack_flood "count 13000" "pkt_size 60" \
		"delay 110000"
	shaped
	beside "a socket for each packet" attack_many fresh 2500
	shaped
	beside "2000 sockets, times up to a second ahead" attack_many spread 2000
	shaped
	beside "class show in a loop" attack_listing
	sparse_options 20000 2 900
	shaped mpu 512
	beside "200 sockets, tiny packets" attack_sockets --udp 200 --mode epoll --size 32 \
		--seconds 2.2
	sparse_options 30000 2 900
	shaped
	beside "2000 sockets, all due at one time" attack_many together 2000
	shaped
	beside "2000 sockets, full frames" attack_sockets --udp 2000 --mode epoll \
		--seconds 2.2
}

part_sparse()
{
	local probe shaper=(bpshaper rate 100mbit) child=''

	attacks
}

# The same with others: to look at, and not asserted. Not with cake, which pads to no more than 256
# bytes and is bound by the CPU here.
part_peers()
{
	local probe shaper child

	for child in fq fq_codel; do
		shaper=(tbf rate 100mbit burst 20kb latency 10ms)
		attacks
	done
}
