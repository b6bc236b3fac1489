#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bpshaper-top says the truth about shapers and sockets. Needs Python in the guest:
# selftests/in-vm --kernel 6.12 $(selftests/vm/python-bundle) --file tools/bpshaper-top \
#	--file tools/bpshaper_top --file selftests/top/screen.py --out DIR -- top
# DIR gets the picture that is in Documentation.
#
#  1. without a shaper it says why, in one line
#  2. it names each of N throttled sockets, with ports, process and the numbers that
#     tc has
#  3. also those of another network namespace whose packets come over a bridge
#  4. the rate is the configured one within 2 %, and the median delay that which the
#     traffic generator measured, within the factor of two that the kernel's buckets
#     leave open
#  5. an unconnected socket has a line for each of its peers, and one when its flows
#     are folded
#  6. classes have a line each, with what tc says of them, and sockets have their class
#  7. the live view shows the same, obeys its keys and ends on q, also with many classes on a
#     small terminal
#  8. what a TCP socket sends is the rate
#  9. --check tells of a program that it knows and of br_netfilter, by its status as well

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

sockets=5
top() { python3 "$here/bpshaper-top" --netns "$tx" --interval 0.2 "$@"; }

# top_json OPTIONS...: for `get`
top_json() { top --once --json "$@" >/tmp/top.json; }

# get EXPRESSION: of Python, over the JSON as `top`
get()
{
	python3 -c 'import json; top = json.load(open("/tmp/top.json"));
shapers, sockets, flows = top["shapers"], top["sockets"], top["flows"]; print(eval('"'''$1'''"'))'
}

# check_get NAME EXPRESSION VALUE
check_get()
{
	local value

	value=$(get "$2" 2>&1)
	if [ "$value" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "$2 is $value, expected $3"
	fi
}

# refused NAME LINE OPTIONS...: fails with that line and nothing else
refused()
{
	local name=$1 line=$2 said status

	shift 2
	said=$(top --once "$@" 2>&1)
	status=$?
	if [ "$status" = 1 ] && [ "$said" = "bpshaper-top: $line" ]; then
		ok "$name"
	else
		not_ok "$name" "exit $status: $said"
	fi
}

# talker SOCKETS [PEERS]: a process of that name. Each of its sockets sends until it is
# throttled, in turn to each of its peers; with one, it is connected. Then it sleeps, so
# that nothing changes while we look.
talker()
{
	local senders=$1 peers=${2:-1}

	cat >/tmp/talker.py <<-EOF
	import socket, time
	senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
	           for _ in range($senders)]
	for number, sender in enumerate(senders):
	    sender.bind(("10.99.0.1", 7000 + number))
	    sender.setblocking(False)
	    peers = [("$nobody", 9000 + number + i) for i in range($peers)]
	    if $peers == 1:
	        sender.connect(peers[0])
	        peers = [None]
	    try:
	        while True:
	            for peer in peers:
	                sender.sendto(bytes(1200), peer) if peer else sender.send(bytes(1200))
	    except BlockingIOError:
	        pass
	print("all throttled", flush=True)
	time.sleep(1000)
	EOF
	ln -sf "$(command -v python3)" /tmp/talker
	ip netns exec "$tx" /tmp/talker /tmp/talker.py >/tmp/talker.out &
	talker=$!
	must wait_until 30 grep -q all /tmp/talker.out
}

talker_end()
{
	kill "$talker"
	wait "$talker" 2>/dev/null
	rm -f /tmp/talker.out
}

# The cookies of the throttled classes that tc lists.
tc_cookies()
{
	local cookie

	on_tx tc -s class show dev txdev | grep '^ *throttled ' |
		grep -oE 'sk:[0-9a-f]+' | while read -r cookie; do
			echo $((16#${cookie#sk:}))
		done | sort -n | tr '\n' ' '
}

# lines_of_talker FILE [REST]: how many lines of it a table has, with that behind the
# address of the socket
lines_of_talker()
{
	grep -cE "talker/$talker +[a-z0-9]+ +udp +10.99.0.1:70[0-9]+ +${2-} .* throttled$" \
		"$1"
}

# The kernel's own packets of IPv6 would come at any time.
topology_make
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
rmmod sch_bpshaper 2>/dev/null
refused "no module: it says so" \
	"no shaper found, and the module sch_bpshaper is not loaded"
must modprobe sch_bpshaper
refused "no shaper: it says where" \
	"no qdisc of kind bpshaper on any device of network namespace $tx"
refused "no device: it says so" "there is no device nodev" --device nodev
refused "no network namespace: it says so" \
	"network namespace nons: No such file or directory" --netns nons

# A packet takes 12 s: nothing moves.
shape bpshaper rate 800bit limit 4k
talker $sockets
check "JSON" top_json
check_get "one shaper" 'len(shapers)' 1
check_get "its device and rate" \
	'shapers[0]["device"], shapers[0]["rate"]' "('txdev', 100)"
check_get "all throttled sockets and no others are listed" \
	'[s["state"] for s in sockets] == ["throttled"] * '$sockets True
check_get "as many as the qdisc counts" 'shapers[0]["throttled_sockets"]' \
	"$(stat throttled_sockets)"
check_get "they have the cookies that tc lists" \
	'"".join("%d " % c for c in sorted(s["cookie"] for s in sockets))' \
	"$(tc_cookies)"
check_get "their local ports are right" \
	'sorted(s["local_port"] for s in sockets) == list(range(7000, 7000 + '$sockets'))' \
	True
check_get "each has the peer of its own port" \
	'all(s["peer_port"] == s["local_port"] + 2000 for s in sockets)' True
check_get "their addresses are right" \
	'{(s["netid"], s["local"], s["peer"]) for s in sockets}' \
	"{('udp', '10.99.0.1', '$nobody')}"
check_get "their process is named" \
	'{(p["name"], p["pid"]) for s in sockets for p in s["processes"]}' \
	"{('talker', $talker)}"
check_get "each has a file descriptor of its own" \
	'len({p["fd"] for s in sockets for p in s["processes"]})' $sockets
for key in backlog qlen drops throttles unthrottles flows limit share memory; do
	check_get "$key is that of tc" "shapers[0][\"$key\"]" "$(stat $key)"
done
check_get "no packet left, so there is no delay" 'shapers[0]["delay"]["p50_ns"]' None
check_get "a connected socket is one flow" \
	'[(f["cookie"], f["backlog"], f["peer_port"]) for f in flows]' \
	"$(get '[(s["cookie"], s["backlog"], s["peer_port"]) for s in sockets]')"
check_get "the sockets' backlog is the qdisc's, but for a packet in its direct slot" \
	'0 <= shapers[0]["backlog"] - sum(s["backlog"] for s in sockets) <= 1242' True
check "another device has no shaper" bash -c "! python3 '$here/bpshaper-top' \
	--netns $tx --once --device lo"

top --once >/tmp/top.text
check "text: one line for each throttled socket, with its process" \
	[ "$(lines_of_talker /tmp/top.text "$nobody:900[0-9]")" = $sockets ]
top --once --fold >/tmp/top.text
check "text: folded as well, with its peer" \
	[ "$(lines_of_talker /tmp/top.text "$nobody:900[0-9] +1")" = $sockets ]

# The live view, on a terminal of 110 columns and 16 rows, then on a tiny one.
on_screen()
{
	python3 "$here/screen.py" "$@" -- python3 "$here/bpshaper-top" \
		--netns "$tx" --interval 0.5
}
check "live: it runs and ends on q" on_screen --size 110x16
on_screen --size 110x16 --keys :2 p:1 >/tmp/top.screen
check "live: all sockets are on the screen" \
	[ "$(lines_of_talker /tmp/top.screen)" = $sockets ]
check "live: p pauses" grep -q '^bpshaper-top  PAUSED' /tmp/top.screen
on_screen --size 110x16 --keys :2 ta:1 >/tmp/top.screen
check "live: keys choose sort and sockets" \
	grep -q 'flows: all with a backlog, by throttles$' /tmp/top.screen
on_screen --size 110x16 --keys :2 f:1 >/tmp/top.screen
check "live: f folds flows by socket" \
	grep -q 'sockets: throttled, by backlog$' /tmp/top.screen
check "live: a tiny terminal is no error" on_screen --size 12x3
talker_end

# One socket, four peers.
unshape
shape bpshaper rate 800bit limit 4k
talker 1 4
top_json
check_get "unconnected: each of its peers has a flow" \
	'sorted((f["peer"], f["peer_port"]) for f in flows)' \
	"$(get "[('$nobody', 9000 + i) for i in range(4)]")"
check_get "unconnected: flows have one cookie" 'len({f["cookie"] for f in flows})' 1
check_get "unconnected: flows have a hash each" \
	'len({f["hash"] for f in flows} - {0})' 4
check_get "unconnected: flows are as many as the kernel says of the socket" \
	'{f["socket_flows"] for f in flows}' '{4}'
check_get "unconnected: they hold the bytes that it says" \
	'{f["socket_backlog"] for f in flows} == {sum(f["backlog"] for f in flows)}' True
check_get "unconnected: it is one socket, without a peer" \
	'[(s["flows"], s["local_port"], s["peer"]) for s in sockets]' "[(4, 7000, None)]"
check_get "unconnected: its backlog and packets are the sums of its flows" \
	'[(s["backlog"], s["qlen"]) for s in sockets]' \
	"$(get '[(sum(f["backlog"] for f in flows), sum(f["qlen"] for f in flows))]')"
check_get "unconnected: the qdisc counts one socket and four flows" \
	'shapers[0]["sockets"], shapers[0]["socket_flows"]' "(1, 4)"
top --once >/tmp/top.text
check "unconnected: text has four lines" \
	[ "$(lines_of_talker /tmp/top.text "$nobody:900[0-3]")" = 4 ]
top --once --fold >/tmp/top.text
check "unconnected: folded, it has one line without a peer" \
	[ "$(lines_of_talker /tmp/top.text '- +4'):$(lines_of_talker /tmp/top.text)" = 1:1 ]
check "unconnected: of one socket it is throttled" \
	grep -qE '^txdev .* 1 of 1 ' /tmp/top.text
on_screen --size 110x16 --keys :2 >/tmp/top.screen
check "unconnected: live, it has four lines" \
	[ "$(lines_of_talker /tmp/top.screen "$nobody:900[0-3]")" = 4 ]
on_screen --size 110x16 --keys :2 f:1 >/tmp/top.screen
check "unconnected: live, folded on f, it has one" \
	[ "$(lines_of_talker /tmp/top.screen '- +4'):$(lines_of_talker /tmp/top.screen)" = 1:1 ]
on_screen --size 110x16 --keys :2 f:1 f:1 >/tmp/top.screen
check "unconnected: live, unfolded on f again, it has four" \
	[ "$(lines_of_talker /tmp/top.screen)" = 4 ]
check "unconnected: tc names the peers" [ "$(on_tx tc -s class show dev txdev |
	grep -cE " hash [0-9a-f]{8} peer $nobody:900[0-3] socket_flows 4 ")" = 4 ]
talker_end

# Of another network namespace: the shaper is on a port of a bridge in $rx.
unshape
must ip -n "$rx" link add br0 type bridge
must ip -n "$rx" link add port0 type dummy
for dev in br0 port0; do ip -n "$rx" link set $dev up; done
for dev in port0 rxdev; do ip -n "$rx" link set $dev master br0; done
must on_rx tc qdisc add dev port0 root bpshaper rate 800bit limit 4k
must ip -n "$tx" neigh replace $nobody lladdr 02:00:00:00:00:99 dev txdev nud permanent
talker 2
top_json --netns "$rx"
check_get "bridged: sockets of another network namespace are named" \
	'sorted((s["local_port"], s["processes"][0]["name"]) for s in sockets)' \
	"[(7000, 'talker'), (7001, 'talker')]"
talker_end
# checks NAME STATUS WORDS: of --check in $rx
checks()
{
	on_rx python3 "$here/bpshaper-top" --check >/tmp/top.check
	check_num "check: $1: status" $? == "$2"
	check "check: $1" grep -q "$3" /tmp/top.check
}
checks "nothing" 0 "^nothing was found$"
if modprobe br_netfilter 2>/dev/null; then
	checks "br_netfilter on the bridge of a shaped port" 3 "^port0: br_netfilter is on"
	must rmmod br_netfilter
else
	skip "check: br_netfilter" "there is none"
fi
# shellcheck disable=SC2016 # of that shell
on_rx bash -c 'exec 3<>/dev/udp/10.99.0.2/9; printf dnsmasq >/proc/$$/comm; echo $$; read -r' \
	< <(sleep 100) >/tmp/named &
must wait_until 5 test -s /tmp/named
checks "a program that is known by its name" 3 "^dnsmasq ($(cat /tmp/named)) tries again"
kill "$(cat /tmp/named)"
ip -n "$rx" link del br0
ip -n "$rx" link del port0

# Classes: a parent, its child, and one beside them that gets the packets.
shape handle 1: bpshaper rate 800bit limit 4k default 20
must on_tx tc class add dev txdev parent 1: classid 1:20 bpshaper floor 400bit
must on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper ceil 240bit prio 1
must on_tx tc class add dev txdev parent 1:10 classid 1:11 bpshaper weight 3
talker 2
top_json
check_get "classes: all are listed, children behind their parent" \
	'[(c["classid"], c["parent"]) for c in top["classes"]]' \
	"[('1:10', 'root'), ('1:11', '1:10'), ('1:20', 'root')]"
check_get "classes: their options are right" \
	'[(c["floor"], c["ceil"], c["weight"], c["prio"]) for c in top["classes"]]' \
	"[(0, 30, 1, 1), (0, 'unlimited', 3, 0), (50, 'unlimited', 1, 0)]"
check_get "classes: packets and throttled sockets are where they belong" \
	'[(c["qlen"] > 0, c["throttled_sockets"], c["children"]) for c in top["classes"]]' \
	"[(False, 0, 1), (False, 0, 0), (True, 2, 0)]"
check_get "classes: their backlog is the qdisc's" \
	'sum(c["backlog"] for c in top["classes"]) == shapers[0]["backlog"]' True
check_get "classes: sockets and flows are listed beside them" \
	'[s["parent"] for s in sockets], [f["parent"] for f in flows]' \
	"(['1:20', '1:20'], ['1:20', '1:20'])"
top --once >/tmp/top.text
check "classes: text has a line for each" \
	[ "$(grep -cE '^txdev +1:(10|11|20) +(root|1:10) ' /tmp/top.text)" = 3 ]
on_screen --size 110x16 --keys :2 >/tmp/top.screen
check "classes: live, too" \
	[ "$(grep -cE '^txdev +1:(10|11|20) +(root|1:10) ' /tmp/top.screen)" = 3 ]
in_class="^talker/$talker +txdev +1:20 .* throttled$"
check "classes: the class of each socket is shown" \
	[ "$(grep -cE "$in_class" /tmp/top.text):$(grep -cE "$in_class" /tmp/top.screen)" = 2:2 ]
for number in {300..357}; do
	echo "class add dev txdev parent 1: classid 1:$number bpshaper"
done >/tmp/batch
must on_tx tc -batch /tmp/batch
on_screen --size 80x24 --keys :2 '\x1b[4~:1' >/tmp/top.screen
check "61 classes, 80 columns: End shows the sockets, and the head of the classes stays" \
	[ "$(sed -n '3s/ .*//p' /tmp/top.screen):$(grep -cE "$in_class" /tmp/top.screen)" = DEVICE:2 ]
on_screen --size 80x24 --keys :2 '/1:20\r:1' >/tmp/top.screen
check "61 classes, 80 columns: a filter shows a class and its sockets" \
	[ "$(grep -c '^txdev ' /tmp/top.screen):$(grep -cE "$in_class" /tmp/top.screen)" = 1:2 ]
talker_end

# In motion: 8 senders without a limit.
shape bpshaper rate 50mbit
send --udp 8 --seconds 6 &
sleep 2
top_json --interval 2
wait $!
check_num "the rate is that configured, at least" \
	"$(get 'shapers[0]["sent_rate"] * 8')" '>=' 49000000 bit/s
check_num "the rate is that configured, at most" \
	"$(get 'shapers[0]["sent_rate"] * 8')" '<=' 51000000 bit/s
age=$(result udp_age_p50_ms)
delay=$(get 'shapers[0]["delay"]["p50_ns"] / 1e6')
echo "# median delay $delay ms, the generator's $age ms"
check_num "the median delay is at least half the measured one" "$delay" '>=' \
	"$(awk "BEGIN { print $age / 2 }")" ms
check_num "the median delay is at most twice the measured one" "$delay" '<=' \
	"$(awk "BEGIN { print $age * 2 }")" ms
check_get "delays were counted of as many packets as the rate says" \
	'0.98 < shapers[0]["delay"]["count"] * 1512 / (shapers[0]["sent_rate"] * top["interval_s"]) < 1.02' True
check_num "throttles ended" "$(get 'shapers[0]["throttle"]["count"]')" '>' 0
check_get "of UDP the kernel counts nothing" '{s["sent_rate"] for s in sockets}' '{None}'

# TCP: what it sends is the rate, but for headers and what is queued.
iperf3_server
on_tx timeout 60 iperf3 -c 10.99.0.2 -P 2 -t 8 >/dev/null 2>&1 &
sleep 2
top_json --all --interval 3
wait $!
echo "# $(get '[s["sent_rate"] for s in sockets]') bytes/s"
check_num "TCP: two sockets have the rate, at least" \
	"$(get 'sum(s["sent_rate"] for s in sockets if s["netid"] == "tcp") * 8')" '>=' 45000000 bit/s
check_num "TCP: and at most" \
	"$(get 'sum(s["sent_rate"] for s in sockets if s["netid"] == "tcp") * 8')" '<=' 50000000 bit/s

# Something to look at: sockets in one shaper, classes in another, and marks.
must ip -n "$tx" link add dummy0 type dummy
must ip -n "$tx" addr add 10.98.0.1/24 dev dummy0
must ip -n "$tx" link set dummy0 up
must ip -n "$tx" neigh replace 10.98.0.9 lladdr 02:00:00:00:00:99 dev dummy0
must on_tx tc qdisc add dev dummy0 root handle 1: bpshaper rate 20mbit default 20
must on_tx tc class add dev dummy0 parent 1: classid 1:10 bpshaper floor 15mbit
must on_tx tc class add dev dummy0 parent 1: classid 1:20 bpshaper ceil 10mbit
must on_tx tc filter add dev dummy0 parent 1: protocol ip flower ip_proto udp dst_port 5001 \
	classid 1:10
must on_tx tc qdisc change dev txdev root bpshaper rate 200mbit
on_tx iperf -u -c 10.98.0.9 -b 1g -P 2 -t 8 >/dev/null 2>&1 &
on_tx iperf -u -c 10.98.0.9 -p 5002 -b 1g -P 2 -t 8 -S 2 >/dev/null 2>&1 &
iperf3_server
on_tx timeout 60 iperf3 -c 10.99.0.2 -P 2 -t 8 >/dev/null 2>&1 &
send --udp 6 --mode epoll --seconds 8 &
sleep 2
check "a picture is taken" on_screen --size 136x27 --keys :4 --svg /out/bpshaper-top.svg
for name in txdev dummy0 bptraffic/ iperf3/ 200Mbit 1:10 MARKS/s; do
	check "the picture shows $name" grep -q "$name" /out/bpshaper-top.svg
done
finish
