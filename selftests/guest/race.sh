#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Senders of all kinds on two CPUs against a random sequence of everything that can
# happen to their queue: options (pacing among them), kinds, parents, the link, its MTU, its network
# namespace, its removal; sockets that change their send buffer, have many peers, are connected,
# closed and killed. What counts is the kernel log, and that in the end every sender has ended
# by itself, no socket is held, and the module unloads.
#
# $DURATION is the time in seconds. It goes on until at least $CLASSES_LEAST classes have come, and
# a quarter as many have changed and gone, for five minutes at most. $EVENTS are the events, all if
# not given. $SEED gives the same sequence of events again; how they meet the senders is another
# matter.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=lib/class_events.sh
. "$(dirname "$0")/lib/class_events.sh"
# shellcheck source=lib/pktgen.sh
. "$(dirname "$0")/lib/pktgen.sh"
seed=${SEED:-$((RANDOM * 32768 + RANDOM))} duration=${DURATION:-60}
patience=300
RANDOM=$seed
other=bps-other$$

pick() { echo "${*:RANDOM % $# + 1:1}"; }

random_qdisc()
{
	echo "rate $(pick 1mbit 5mbit 20mbit 100mbit unlimited)" \
		"$(pick "" "burst $(pick 3k 20k 100k)")" \
		"$(pick "" "limit $(pick 2k 20k 200k)")" \
		"$(pick "" "memory_limit $(pick 64k 1m)" "r2q $(pick 1 100)")" "$(random_pacing)"
}

random_pacing()
{
	pick "" "pacing $(pick on off)" "maxrate $(pick 100kbit 2mbit unlimited)" \
		"ce_threshold $(pick 1ns 1ms never)"
}

# The device again after it was moved or removed.
link_back()
{
	ip -n "$tx" link show txdev >/dev/null 2>&1 ||
		ip link add txdev netns "$tx" numtxqueues "$(pick 1 2 4)" \
			type veth peer name rxdev netns "$rx"
	links_up
}

# parents: a child of ours below another kind, for a moment
# shellcheck disable=SC2046 # words
parents()
{
	local parent=$1 child=$2

	case $parent in
	prio | ets | drr | mq) tc qdisc replace dev txdev root handle 1: \
		"$parent" $([ "$parent" != ets ] || echo bands 3) ;;
	htb) tc qdisc replace dev txdev root handle 1: htb default 1 ;;
	tbf) tc qdisc replace dev txdev root handle 1: \
		tbf rate 10mbit burst 20k limit 60k ;;
	esac
	case $parent in
	htb) tc class add dev txdev parent 1: classid 1:1 htb rate 5mbit ;;
	drr) tc class add dev txdev parent 1: classid 1:1 drr
	     tc filter add dev txdev parent 1: matchall flowid 1:1 ;;
	esac
	tc qdisc replace dev txdev parent "1:$child" handle 2: \
		bpshaper $(random_qdisc)
	sleep "0.$((RANDOM % 3))"
	tc qdisc change dev txdev parent "1:$child" handle 2: \
		bpshaper $(random_qdisc)
	tc qdisc $(pick del replace) dev txdev $(pick root "parent 1:$child") bfifo
}

# pktgen warns when a device goes that it is sending to: not while this runs.
without_pktgen()
{
	(
		flock 9
		echo stop >/proc/net/pktgen/pgctrl
		sleep 0.1
		"$@"
	) 9>/tmp/pktgen.lock
}

# The exit status of each command of an event is in /tmp/statuses.
tc_noted()
{
	local status

	command tc "$@"
	status=$?
	echo $status >>/tmp/statuses
	return $status
}

# Errors are part of the game: a device may be down, a parent may be gone.
# shellcheck disable=SC2046 # words
event()
{
	case $1 in
	change) tc qdisc change dev txdev root bpshaper $(random_qdisc) ;;
	pacing) tc qdisc change dev txdev root bpshaper $(random_pacing) ;;
	slow) tc qdisc change dev txdev root bpshaper rate 8bit
	      sleep "0.0$((RANDOM % 9))" ;;
	limit) tc qdisc change dev txdev root bpshaper \
		limit $(pick 1 3k 30k 300k) memory_limit $(pick 64k 32m) ;;
	replace) tc qdisc replace dev txdev root bpshaper $(random_qdisc) ;;
	swap) tc qdisc replace dev txdev root handle 3: pfifo
	      tc qdisc replace dev txdev root handle 4: \
		bpshaper $(random_qdisc) ;;
	del) tc qdisc del dev txdev root
	     sleep "0.0$((RANDOM % 9))"
	     tc qdisc add dev txdev root bpshaper $(random_qdisc) ;;
	classes) classes ;;
	parents) parents $(pick "prio 1" "prio 3" "ets 1" "drr 1" "htb 1" \
		"tbf 1" "mq 1") ;;
	down) ip link set txdev down
	      sleep "0.0$((RANDOM % 9))"
	      link_back ;;
	peer) ip -n "$rx" link set rxdev down
	      link_back ;;
	mtu) ip link set txdev mtu $(pick 1280 1500 9000) ;;
	queuelen) ip link set txdev txqueuelen $(pick 0 10 1000) ;;
	netns) without_pktgen ip link set txdev netns "$other"
	       ip -n "$other" link set txdev up
	       tc -n "$other" qdisc replace dev txdev root \
		       bpshaper $(random_qdisc)
	       ip -n "$other" link set txdev netns "$tx"
	       link_back ;;
	remove) without_pktgen ip link del txdev
		link_back ;;
	esac
	# A sequence that has lost the qdisc finds nothing more.
	tc qdisc show dev txdev | grep -q bpshaper ||
		tc qdisc replace dev txdev root bpshaper $(random_qdisc)
}

events=(classes classes classes classes classes change change change pacing pacing slow limit limit replace swap del parents parents
	down peer mtu queuelen netns remove)
# shellcheck disable=SC2206 # words
[ -z "${EVENTS-}" ] || events=($EVENTS)

# Sockets that come and go while they are throttled, change their send buffer, and
# are killed. What they see is not looked at: their queue may be gone.
sockets()
{
	RANDOM=$1
	while [ -e /tmp/race ]; do
		timeout -s "$(pick INT KILL)" "0.$((RANDOM % 9 + 1))" "$bpsocket" \
			"$(pick udp udplite ping raw hdrincl packet)" \
			"$(pick $nobody $nobody6)" \
			"$(pick closes grows drains poll nonblocking sleeps)" txdev
	done
}

# waits_of OPTIONS...: what each process of that traffic waits for, and its TCP
waits_of()
{
	local pid

	for pid in $(pgrep -f -- "--json .* $*\$"); do
		echo "# $pid $(<"/proc/$pid/wchan") $(<"/proc/$pid/syscall")"
	done
	ip netns exec "$tx" ss -tinmoe | sed 's/^/# /'
} 2>/dev/null

# traffic OPTIONS...: again and again. What is stuck is killed, and counted. TCP
# whose SYNs are all lost while the link is away gives up after two minutes.
traffic()
{
	local report watcher

	report=$(mktemp)
	while [ -e /tmp/race ]; do
		{ sleep 175; waits_of "$@" >>/tmp/waits; } &
		watcher=$!
		timeout -s KILL 180 "$traffic" --tx-netns "$tx" --rx-netns "$rx" \
			--json "$report" "$@" || [ $? != 137 ] ||
			echo killed >>/tmp/stuck
		kill "$watcher"
		grep -o '"stuck_senders": [1-9].*' "$report" >>/tmp/stuck
		grep -q '"stuck_senders"' "$report" && echo run >>/tmp/runs
		: >"$report"
	done
}

# Packets with times, of all that can be wrong with them.
times()
{
	RANDOM=$1
	while [ -e /tmp/race ]; do
		timeout -s KILL "0.$((RANDOM % 9 + 1))" "$bppace" "$tx" "$rx" 10.99.0.2 \
			"$(pick 0 20000 5000000)" "$(pick 0 200)" "$(pick 1 100 500)" \
			"$(pick monotonic monotonic realtime received)"
		sleep 0.3
	done
}

# Sockets with many peers, that are connected in between, with times and without. Each socket ends
# with the first error.
peers()
{
	local route

	RANDOM=$1
	while [ -e /tmp/race ]; do
		for route in "10.100.0.0/14 via $nobody" "fd9a::/16 via $nobody6"; do
			# shellcheck disable=SC2086 # words
			on_tx ip route replace $route dev txdev
		done
		timeout -s KILL "$(pick 0.3 1 3)" "$bppeers" "$tx" txdev "$rx" rxdev 1 0 \
			"turns:$(pick udp udp6 udplite),peers=$(pick 3 300),reconnect=$(pick 0 30)" \
			"many:$(pick udp udp6 packet),peers=5000,size=$(pick 10 1400)" \
			"list:udp,list=0@$(pick 3 300)/0@1/0@20/0/0@2/0" \
			"far:udp,peers=2,every=1000,due=$(pick 30 3000)" \
			"one:udp,sockets=4,class=$(pick 1 4)-$(pick 1 2)" \
			"two:udp,peers=3,class=$(pick 1 4)-$(pick 3 4)"
		sleep 0.1
	done
}

# Packets without a socket.
packets()
{
	while [ -e /tmp/race ]; do
		pktgen_setup "count 500" "delay 200000" "pkt_size 200" \
			"flag UDPSRC_RND" "udp_src_min 1000" "udp_src_max 9000"
		flock /tmp/pktgen.lock timeout 5 ip netns exec "$tx" bash -c \
			'echo start >/proc/net/pktgen/pgctrl'
		sleep 0.2
	done
}

# Statistics are read all the time: on a debug kernel that asserts the laws.
reader()
{
	while [ -e /tmp/race ]; do
		tc -s -d qdisc show dev txdev
		tc -s class show dev txdev
	done
}

event_run()
{
	echo "race: $1" >/dev/kmsg
	echo "$1" >>/tmp/events
	on_tx bash -c "RANDOM=$RANDOM; tc() { tc_noted \"\$@\"; }; event $1" >/dev/null 2>&1
	sleep "0.$((RANDOM % 3))"
}

# A slow machine has had few events when the time is over: then classes come and go until they are
# enough.
events_run()
{
	local end=$((SECONDS + duration))

	while [ $SECONDS -lt $end ]; do
		event_run "${events[RANDOM % ${#events[@]}]}"
	done
	end=$((SECONDS + patience))
	while [ $SECONDS -lt $end ] && ! classes_have_come; do
		event_run classes
	done
}

# Several transmit queues below one qdisc: the core takes out packets for one queue at a time and
# puts the first for another aside, where it counts as queued. A debug kernel asserts that
# when statistics are read. With a weight of one the core ends each turn there, and others run.
topology_make numtxqueues 4 numrxqueues 4
rate=20mbit
! is_slow || rate=2mbit
sysctl -qw net.core.dev_weight=1 net.core.dev_weight_rx_bias=64
shape bpshaper rate $rate
send --udp 16 --seconds 6 &
yes "qdisc show dev txdev" | on_tx timeout 6 tc -s -j -b - >/tmp/reads
wait
sysctl -qw net.core.dev_weight=64 net.core.dev_weight_rx_bias=1
check_num "several transmit queues: statistics are read while there is a backlog" \
	"$(grep -o '"qlen":[1-9]' /tmp/reads | wc -l)" '>' 10
check_num "several transmit queues: nothing is lost" "$(result udp_lost_packets)" == 0
check "several transmit queues: no socket is held" wait_until 10 no_socket_is_held
ip netns add "$other"
must modprobe sch_bpshaper
modprobe pktgen 2>/dev/null
on_tx sysctl -qw net.ipv4.ping_group_range="0 1000"
export -f event tc_noted choose class_option class_command classes random_class parents without_pktgen random_qdisc random_pacing pick link_back links_up link_up mac_of on_tx on_rx sockets reader
export bpsocket nobody nobody6 tx rx other
echo "# SEED=$seed DURATION=$duration"
: >/tmp/stuck
: >/tmp/waits
: >/tmp/runs
: >/tmp/statuses
: >/tmp/class_commands
shape handle 1: bpshaper rate 20mbit
touch /tmp/race
seeds=($RANDOM $RANDOM $RANDOM $RANDOM)	# a subshell would have its own
# The events come first: a slow machine is busy with the senders alone.
{
	renice -n 19 -p $BASHPID
	on_tx bash -c "sockets ${seeds[0]}" &
	on_tx bash -c "sockets ${seeds[1]}" &
	on_tx bash -c reader &
	packets &
	times "${seeds[2]}" &
	peers "${seeds[3]}" &
	traffic --dst 10.99.0.2 --udp 8 --tcp 4 --seconds 10 &
	traffic --dst fd99::2 --udp 16 --mode epoll --tcp 2 --port 7000 \
		--gso 4 --seconds 7 &
	traffic --dst 10.99.0.2 --udp 4 --tcp 2 --port 8000 --pacing-rate 2000000 \
		--seconds 5 &
	wait
} >/dev/null 2>&1 &
events_run
ip -n "$tx" link set txdev mtu 1500
link_back >/dev/null 2>&1
shape bpshaper rate 1gbit
rm -f /tmp/race
wait
echo "# $(sort /tmp/events | uniq -c | tr -s '\n ' ' ')"
check "senders ended by themselves" bash -c '! sort /tmp/stuck | uniq -c | grep .'
[ ! -s /tmp/stuck ] || cat /tmp/waits
check_num "most commands of the events work" "$(grep -c '^0' /tmp/statuses)" '>' \
	"$(($(wc -l </tmp/statuses) / 2))"
echo "# commands that have worked: $(sort /tmp/class_commands | uniq -c | tr -s '\n ' ' ')"
check "classes have come, changed and gone" classes_have_come
check_num "there were senders" "$(grep -c run /tmp/runs)" '>=' 2
check "no socket is held afterwards" wait_until 30 no_socket_is_held
ip netns del "$other"
# The namespaces may live on for a minute in TCP sockets that nobody owns any more;
# the device, and with it the qdisc, must not.
without_pktgen ip -n "$tx" link del txdev
check "the module unloads" wait_until 20 rmmod sch_bpshaper
finish
