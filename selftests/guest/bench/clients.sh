# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh and common.sh have set
#
# Part `clients` of bench.sh, which sources it: programs as they are, through 20 Mbit/s.
# What do their users see: loss, goodput, CPU?
#
#	iperf2, iperf3	UDP, three clients that ask for three times the rate each
#	quic, quic-gso	ngtcp2's server sends four files of 1 MB to a client each; 0.12.1
#			without UDP GSO, and that of Debian 13 with it
#	wg-udp, wg-tcp	four unlimited senders through a WireGuard tunnel
#	dns		dnsperf asks dnsmasq, whose answers are shaped: 1 kB each
#
# and those of peers.sh, servers with many peers.
#
# A measurement has goodput_mbit_per_s, sent_packets and lost_packets as the program
# reports them, drops of the shaper, and busy_ms, the CPU time of the whole machine.
# What dns loses without a drop has not found room in the receive buffer of the
# server, which could not answer just then: server_rcvbuf_errors.

client_rate=20mbit client_seconds=2
all_clients="iperf2 iperf3 quic quic-gso wg-udp wg-tcp dns"
all_clients+=" http-peers http-gso-peers dns-peers wg-peers"

busy_ms() { awk '{ printf "%d", ($1 - $2) * 1000 }' /proc/uptime; }

# client_drops SHAPER: of edt, on whatever it runs, those of its classifier as well
client_drops()
{
	if [[ $1 = edt* ]]; then
		on_tx tc -s -j qdisc show dev txdev
	else
		on_tx tc -s -j qdisc show dev txdev root
	fi | grep -oE '"drops":[0-9]+' | awk -F: -v only="$1" '
		NR == 1 || only ~ /^edt/ { n += $2 } END { print n + 0 }'
}

# datagrams LOST ALL MBIT: those of iperf
datagrams()
{
	printf '"sent_packets": %d, "lost_packets": %d, "goodput_mbit_per_s": %.3f' \
		"$2" "$1" "$3"
}

# Goodput is that of the servers, who know how long the queue took to drain.
client_iperf2()
{
	local lost all

	read -r lost all < <(iperf2_udp 3 60M $client_seconds)
	datagrams "$lost" "$all" "$(awk -F, 'NF >= 13 { n += $9 }
		END { print n / 1e6 }' /tmp/iperf2.*)"
}

# iperf3_sum KEY FILE: of the sum over all streams and the whole time
iperf3_sum()
{
	json_value "$1" "$(awk '/"sum":/ { sum = "" } { sum = sum $0 }
		END { print sum }' "$2")"
}

client_iperf3()
{
	local lost all

	on_rx iperf3 -s -1 -J >/tmp/iperf3 2>&1 &
	sleep 0.5
	on_tx iperf3 -u -c 10.99.0.2 -b 60M -l 1470 -P 3 -t $client_seconds \
		>/dev/null 2>&1
	wait $!
	lost=$(iperf3_sum lost_packets /tmp/iperf3)
	all=$(iperf3_sum packets /tmp/iperf3)
	datagrams "$lost" "$all" "$(awk "BEGIN {
		print ($all - $lost) * 1470 * 8 / $(iperf3_sum seconds /tmp/iperf3) / 1e6 }")"
}

# quic_server RUN OPTIONS OF THE SERVER: in the background, of /tmp/htdocs
quic_server()
{
	ip netns exec "$tx" "$1" gtlsserver -q -d /tmp/htdocs "${@:2}" 10.99.0.1 4433 \
		"$here/quic.key" "$here/quic.crt" >/tmp/quic-server 2>&1 &
}

# quic RUN OPTIONS OF THE SERVER: RUN starts the programs; the time until all clients have
# their file
quic()
{
	local program=$1 server start end bytes=1000000 files=4 i got=0 clients=()

	mkdir -p /tmp/htdocs
	head -c $bytes /dev/zero >/tmp/htdocs/file
	quic_server "$@"
	server=$!
	sleep 0.5
	start=$(date +%s%N)
	for ((i = 0; i < files; i++)); do
		mkdir -p /tmp/quic$i
		on_rx "$program" gtlsclient -q --exit-on-all-streams-close \
			--download /tmp/quic$i 10.99.0.1 4433 \
			https://10.99.0.1/file >/tmp/quic-client$i 2>&1 &
		clients[i]=$!
	done
	wait "${clients[@]}"
	end=$(date +%s%N)
	kill "$server"
	wait "$server"
	for ((i = 0; i < files; i++)); do
		[ "$(stat_size /tmp/quic$i/file)" != $bytes ] || got=$((got + 1))
	done
	rm -rf /tmp/quic?
	awk -v b="$((got * bytes))" -v ns="$((end - start))" -v all=$files -v got=$got '
		BEGIN {
			printf "\"files\": %d, \"files_complete\": %d, ", all, got
			printf "\"goodput_mbit_per_s\": %.3f", b * 8e3 / ns }'
}

stat_size() { wc -c 2>/dev/null <"$1" || echo 0; }

client_quic() { quic env --max-gso-dgrams=1; }
client_quic-gso() { quic "$here/quic/run"; }

wg_up()
{
	local end other key

	modprobe wireguard
	for end in tx rx; do
		(umask 077 && wg genkey >"/tmp/key-$end")
		ip -n "${!end}" link add wg0 type wireguard
	done
	for end in tx:1:rx:2 rx:2:tx:1; do
		IFS=: read -r end here_nr other other_nr <<<"$end"
		key=$(wg pubkey </tmp/key-"$other")
		ip netns exec "${!end}" wg set wg0 private-key "/tmp/key-$end" \
			listen-port 51820 peer "$key" \
			endpoint "10.99.0.$other_nr:51820" \
			allowed-ips "10.97.0.$other_nr/32"
		ip -n "${!end}" addr add "10.97.0.$here_nr/24" dev wg0
		ip -n "${!end}" link set wg0 up
	done
}

# tunnel OPTIONS OF THE TRAFFIC
tunnel()
{
	local there=/tmp/tunnel-report

	"$traffic" --tx-netns "$tx" --rx-netns "$rx" --dst 10.97.0.2 \
		--json $there --seconds $client_seconds "$@" 2>/dev/null
	if [ "$1" = --tcp ]; then
		printf '"goodput_mbit_per_s": %s, "retransmitted_segments": %s' \
			"$(json_value tcp_goodput_mbit_per_s "$(<$there)")" \
			"$(json_value tcp_retransmitted_segments "$(<$there)")"
	else
		printf '"sent_packets": %s, "lost_packets": %s, "goodput_mbit_per_s": %s' \
			"$(json_value udp_sent_packets "$(<$there)")" \
			"$(json_value udp_lost_packets "$(<$there)")" \
			"$(json_value udp_payload_goodput_mbit_per_s "$(<$there)")"
	fi
}

client_wg-udp() { tunnel --udp 4 --size 1300; }
client_wg-tcp() { tunnel --tcp 4; }

dns_server_start()
{
	local text

	text=$(head -c 240 /dev/zero | tr '\0' x)
	ip netns exec "$tx" dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root \
		--group=root --no-resolv --no-hosts --pid-file= \
		--listen-address=10.99.0.1 --bind-interfaces --edns-packet-max=1232 \
		--txt-record="big.test,$text,$text,$text,$text" >/tmp/dnsmasq 2>&1 &
	server=$!
	sleep 0.5
	echo "big.test TXT" >/tmp/queries
	on_tx nstat -n
}

client_dns()
{
	local server

	dns_server_start
	on_rx dnsperf -s 10.99.0.1 -d /tmp/queries -e -c 4 -q 200 -t 1 \
		-l $client_seconds >/tmp/dnsperf 2>&1
	kill "$server"
	wait "$server"
	printf '"server_rcvbuf_errors": %d, ' \
		"$(on_tx nstat -sz UdpRcvbufErrors | awk '/Udp/ { print $2 }')"
	awk '/Queries sent:/ { sent = $3 } /Queries completed:/ { done = $3 }
		/Queries lost:/ { lost = $3 } /Queries per second:/ { qps = $4 }
		/Average Latency/ { s = $4 } END {
		printf "\"sent_packets\": %d, \"lost_packets\": %d, ", sent, lost
		printf "\"queries_per_s\": %.1f, \"latency_mean_ms\": %.3f, ", qps, s * 1000
		printf "\"goodput_mbit_per_s\": %.3f", qps * 964 * 8 / 1e6 }' /tmp/dnsperf
}

part_clients()
{
	local client shaper busy result

	wg_up
	wg_peers_up
	tar -C "$here" -xzf "$here/quic.tgz"
	for client in ${CLIENTS:-$all_clients}; do
		# The first time in a machine a program starts slowly.
		rival tbf $client_rate
		"client_$client" >/dev/null
		for shaper in $rivals; do
			rival "$shaper" $client_rate
			busy=$(busy_ms)
			result=$("client_$client")
			busy=$(($(busy_ms) - busy))
			echo "{ $result, \"busy_ms\": $busy }" >"$report"
			save clients "$shaper" client "$client" rate $client_rate \
				drops "$(client_drops "$shaper")"
			echo "# $result"
		done
	done
	wg_peers_down
	ip -n "$tx" link del wg0
	ip -n "$rx" link del wg0
}
