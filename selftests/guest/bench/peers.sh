# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what bench.sh, common.sh and clients.sh have set
#
# Clients of part `clients`, which clients.sh runs: servers that answer many peers
# through one socket.
#
#	http-peers, http-gso-peers
#			ngtcp2's server sends to 16 clients of HTTP/3 through its one UDP socket
#			(0.12.1 without UDP GSO, and that of Debian 13 with it), and nginx to 16
#			clients (curl) of HTTP/2 through a socket each. What arrived in each
#			client's file in $peer_seconds, after all have begun.
#	dns-peers	64 clients (dnsperf, each with its own port) ask dnsmasq: 63 of them 20
#			times a second, and one 2000 times, with 100 questions open at most.
#			The answers (1 kB) are shaped, and are more than the rate.
#	wg-peers	A gateway of WireGuard forwards TCP to 8 peers, each with an address of
#			its own, through its one UDP socket: ten streams to the first peer, one
#			to each of the others.
#
# Those of HTTP have quic_mbit_per_s and tcp_mbit_per_s, the sums of either side, and
# jain_index of all 32. dns-peers has answers_per_s of the one and of the others together,
# the least of one of the others, and latency and losses of the others. wg-peers has
# first_mbit_per_s, others_mbit_per_s (together), the least of them, and jain_index of the
# eight peers.

peer_seconds=3 http_peers=16 dns_peers=64 wg_peers=8

# spread: of numbers, a line each: their sum, the least, the most and Jain's index
spread()
{
	awk 'NR == 1 { least = $1 }
		{ sum += $1; squares += $1 * $1 }
		$1 < least { least = $1 }
		$1 > most { most = $1 }
		END { print sum + 0, least + 0, most + 0,
			squares ? sum * sum / NR / squares : 0 }'
}

# sum_of KEY: how many of that kind $tx has counted since nstat -n
sum_of() { on_tx nstat -sz "$1" | awk '!/^#/ { n += $2 } END { print n + 0 }'; }

# kill_all PID...: and wait until they are gone
kill_all()
{
	kill "$@" 2>/dev/null
	wait "$@" 2>/dev/null
}

nginx_config()
{
	mkdir -p /tmp/nginx
	cat >/tmp/nginx/conf <<-END
		user root;
		daemon off;
		pid nginx.pid;
		error_log stderr error;
		events { }
		http {
			access_log off;
			client_body_temp_path body;
			proxy_temp_path proxy;
			fastcgi_temp_path fastcgi;
			uwsgi_temp_path uwsgi;
			scgi_temp_path scgi;
			server {
				listen 10.99.0.1:8443 ssl http2;
				ssl_certificate $here/quic.crt;
				ssl_certificate_key $here/quic.key;
				root /tmp/htdocs;
			}
		}
	END
}

# sizes KIND: of the clients' files, a line each
sizes()
{
	local i

	for ((i = 0; i < http_peers; i++)); do
		stat_size /tmp/peers/"$1"$i/big
	done
}

have_begun() { ! { sizes quic; sizes tcp; } | grep -qx 0; }

# http RUN OPTIONS OF THE SERVER: RUN starts the programs of QUIC
http()
{
	local program=$1 servers=() clients=() i kind elapsed from

	mkdir -p /tmp/htdocs
	truncate -s 64M /tmp/htdocs/big
	nginx_config
	ip netns exec "$tx" "$here/nginx" -p /tmp/nginx -c conf >/tmp/nginx.log 2>&1 &
	servers+=($!)
	quic_server "$@"
	servers+=($!)
	sleep 0.5
	on_tx nstat -n
	for ((i = 0; i < http_peers; i++)); do
		mkdir -p /tmp/peers/{quic,tcp}$i
		on_rx "$program" gtlsclient -q --download /tmp/peers/quic$i \
			10.99.0.1 4433 https://10.99.0.1/big >/tmp/quic-client$i 2>&1 &
		clients+=($!)
		on_rx curl -sSkN --http2 -o /tmp/peers/tcp$i/big \
			https://10.99.0.1:8443/big >/tmp/curl$i 2>&1 &
		clients+=($!)
	done
	wait_until 5 have_begun || echo "# a client has nothing after 5 s" >&2
	sleep 0.5
	from=$(date +%s%N)
	for kind in quic tcp; do sizes $kind >/tmp/$kind-before; done
	sleep $peer_seconds
	elapsed=$(($(date +%s%N) - from))
	for kind in quic tcp; do
		sizes $kind | paste - /tmp/$kind-before | awk -v ns=$elapsed \
			'{ print ($1 - $2) * 8e3 / ns }' >/tmp/$kind
	done
	kill_all "${clients[@]}"
	kill_all "${servers[@]}"
	rm -rf /tmp/peers
	{ spread </tmp/quic; spread </tmp/tcp; cat /tmp/quic /tmp/tcp | spread; } | xargs |
		awk -v retransmits="$(sum_of TcpRetransSegs)" '{
			printf "\"quic_mbit_per_s\": %.3f, \"quic_least_mbit_per_s\": %.4f, ", $1, $2
			printf "\"tcp_mbit_per_s\": %.3f, \"tcp_least_mbit_per_s\": %.4f, ", $5, $6
			printf "\"goodput_mbit_per_s\": %.3f, \"jain_index\": %.4f, ", $9, $12
			printf "\"retransmitted_segments\": %d", retransmits }'
}

client_http-peers() { http env --max-gso-dgrams=1; }
client_http-gso-peers() { http "$here/quic/run"; }

# dns_client NAME QUERIES_PER_SECOND: in the background
dns_client()
{
	on_rx dnsperf -s 10.99.0.1 -d /tmp/queries -e -c 1 -T 1 -q 100 -t 1 -v \
		-Q "$2" -l $peer_seconds >"/tmp/dns/$1" 2>/dev/null &
}

# dns_sum FILES...: questions, answers and losses
dns_sum()
{
	awk '/Queries sent:/ { sent += $3 } /Queries completed:/ { got += $3 }
		/Queries lost:/ { lost += $3 } END { print sent + 0, got + 0, lost + 0 }' "$@"
}

# dns_quantile PART FILES...: of the latencies, in ms
dns_quantile()
{
	awk '/^> [A-Z]+ .* [0-9.]+$/ { print $NF * 1000 }' "${@:2}" | sort -n |
		awk -v part="$1" '{ ms[NR] = $1 }
			END { print NR ? ms[int((NR - 1) * part) + 1] : "null" }'
}

client_dns-peers()
{
	local server i clients=() one others least

	dns_server_start
	rm -rf /tmp/dns
	mkdir /tmp/dns
	for ((i = 1; i < dns_peers; i++)); do
		dns_client other$i 20
		clients+=($!)
	done
	dns_client one 2000
	wait "${clients[@]}" $!
	kill_all "$server"
	read -ra one < <(dns_sum /tmp/dns/one)
	read -ra others < <(dns_sum /tmp/dns/other*)
	least=$(for ((i = 1; i < dns_peers; i++)); do dns_sum /tmp/dns/other$i; done |
		awk 'NR == 1 || $2 < least { least = $2 } END { print least }')
	printf '"server_rcvbuf_errors": %d, ' "$(sum_of UdpRcvbufErrors)"
	printf '"sent_packets": %d, "lost_packets": %d, ' "${others[0]}" "${others[2]}"
	printf '"one_lost_packets": %d, "latency_p50_ms": %s, "latency_p99_ms": %s, ' \
		"${one[2]}" "$(dns_quantile 0.5 /tmp/dns/other*)" \
		"$(dns_quantile 0.99 /tmp/dns/other*)"
	awk -v s=$peer_seconds -v one="${one[1]}" -v others="${others[1]}" -v least="$least" '
		BEGIN {
			printf "\"one_answers_per_s\": %.1f, ", one / s
			printf "\"others_answers_per_s\": %.1f, ", others / s
			printf "\"least_answers_per_s\": %.2f", least / s }'
}

# A host behind the gateway, and peers of the gateway, all of them in $rx: what they send
# goes through the tunnel of the address that it has.
wg_peers_up()
{
	local i address key

	src=bps-src$$
	ip netns add "$src"
	ip link add wgsrc netns "$src" type veth peer name wglan netns "$tx"
	ip -n "$src" addr add 10.96.0.2/24 dev wgsrc
	ip -n "$tx" addr add 10.96.0.1/24 dev wglan
	ip -n "$src" link set wgsrc up
	ip -n "$tx" link set wglan up
	ip -n "$src" route add default via 10.96.0.1
	on_tx sysctl -qw net.ipv4.ip_forward=1
	ip -n "$tx" link add wghub type wireguard
	(umask 077 && wg genkey >/tmp/key-hub)
	on_tx wg set wghub private-key /tmp/key-hub listen-port 51830
	for ((i = 1; i <= wg_peers; i++)); do
		address=10.97.1.$i
		(umask 077 && wg genkey >/tmp/key-peer)
		ip -n "$rx" addr add 10.99.0.$((100 + i))/24 dev rxdev
		ip -n "$tx" neigh replace 10.99.0.$((100 + i)) dev txdev nud permanent \
			lladdr "$(mac_of "$rx" rxdev)"
		ip -n "$rx" link add wgpeer$i type wireguard
		on_rx wg set wgpeer$i private-key /tmp/key-peer \
			listen-port $((51830 + i)) peer "$(wg pubkey </tmp/key-hub)" \
			allowed-ips 10.96.0.0/24
		key=$(wg pubkey </tmp/key-peer)
		on_tx wg set wghub peer "$key" allowed-ips $address/32 \
			endpoint 10.99.0.$((100 + i)):$((51830 + i))
		ip -n "$rx" addr add $address/32 dev wgpeer$i
		ip -n "$rx" link set wgpeer$i up
		ip -n "$rx" rule add from $address table $((100 + i))
		ip -n "$rx" route add 10.96.0.0/24 dev wgpeer$i table $((100 + i))
	done
	ip -n "$tx" link set wghub up
	ip -n "$tx" route add 10.97.1.0/24 dev wghub
}

wg_peers_down()
{
	ip -n "$tx" link del wghub
	for ((i = 1; i <= wg_peers; i++)); do
		ip -n "$rx" link del wgpeer$i
		ip -n "$rx" rule del from 10.97.1.$i
		ip -n "$rx" addr del 10.99.0.$((100 + i))/24 dev rxdev
	done
	ip netns del "$src"
}

client_wg-peers()
{
	local i clients=() got

	for ((i = 1; i <= wg_peers; i++)); do
		"$traffic" --tx-netns "$src" --rx-netns "$rx" --dst 10.97.1.$i \
			--port $((5600 + 10 * i)) --json /tmp/wg-peer$i \
			--tcp $((i == 1 ? 10 : 1)) --seconds $peer_seconds 2>/dev/null &
		clients+=($!)
	done
	wait "${clients[@]}"
	for ((i = 1; i <= wg_peers; i++)); do
		json_get tcp_goodput_mbit_per_s </tmp/wg-peer$i
	done >/tmp/wg-peers
	got=$(for ((i = 1; i <= wg_peers; i++)); do
		json_get tcp_retransmitted_segments </tmp/wg-peer$i
	done | spread)
	{ head -n 1 /tmp/wg-peers; tail -n +2 /tmp/wg-peers | spread; spread </tmp/wg-peers; } |
		xargs | awk -v retransmits="${got%% *}" '{
			printf "\"first_mbit_per_s\": %.3f, \"others_mbit_per_s\": %.3f, ", $1, $2
			printf "\"least_mbit_per_s\": %.3f, \"most_mbit_per_s\": %.3f, ", $3, $4
			printf "\"goodput_mbit_per_s\": %.3f, \"jain_index\": %.4f, ", $6, $9
			printf "\"retransmitted_segments\": %d", retransmits }'
}
