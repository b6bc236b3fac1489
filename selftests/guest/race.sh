#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Senders of all kinds on two CPUs against a random sequence of everything that can
# happen to their queue. What counts is the kernel log, and that in the end every
# sender has ended by itself, no socket is held, and the module unloads.
#
# $SEED chooses another sequence, $ROUNDS a longer one.

# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
seed=${SEED:-1} rounds=${ROUNDS:-20}
RANDOM=$seed

pick() { echo "${*:RANDOM % $# + 1:1}"; }

random_qdisc()
{
	echo "rate $(pick 1 5 20 100)mbit" \
		"$(pick "" "burst $(pick 3k 20k 100k)")" \
		"$(pick "limit $(pick 2k 20k 200k)" "latency $(pick 1 10 100)ms")" \
		"$(pick "" "quantum $(pick 300 1514 60000)")" \
		"$(pick "" "memory_limit $(pick 64k 1m)")"
}

# Errors are part of the game: a device may be down, a parent may be gone.
# shellcheck disable=SC2046 # words
event()
{
	case $((RANDOM % 12)) in
	0 | 1 | 2) tc qdisc change dev txdev root bpshaper $(random_qdisc) ;;
	3) tc qdisc replace dev txdev root bpshaper $(random_qdisc) ;;
	4) tc qdisc replace dev txdev root pfifo
	   tc qdisc replace dev txdev root bpshaper $(random_qdisc) ;;
	5) tc qdisc del dev txdev root
	   sleep 0.0$((RANDOM % 9))
	   tc qdisc add dev txdev root bpshaper $(random_qdisc) ;;
	6) ip link set txdev down; ip link set txdev up; links_up ;;
	7) tc qdisc replace dev txdev root handle 1: prio
	   tc qdisc add dev txdev parent 1:$(pick 1 2 3) bpshaper $(random_qdisc)
	   sleep 0.$((RANDOM % 3))
	   tc qdisc del dev txdev root ;;
	8) tc qdisc replace dev txdev root handle 2: htb default 1
	   tc class add dev txdev parent 2: classid 2:1 htb rate 5mbit
	   tc qdisc add dev txdev parent 2:1 bpshaper $(pick "" "rate 2mbit")
	   sleep 0.$((RANDOM % 3))
	   tc qdisc del dev txdev root ;;
	9) ip link set txdev mtu $(pick 1280 1500 9000) ;;
	10) tc qdisc change dev txdev root bpshaper rate 8bit
	    sleep 0.0$((RANDOM % 9)) ;;
	11) ip link set txdev txqueuelen $(pick 0 10 1000) ;;
	esac
}

# Sockets that come and go while they are throttled.
closers()
{
	while [ -e /tmp/race ]; do
		timeout 1 "$bpsocket" "$(pick udp raw ping)" \
			"$(pick $nobody $nobody6)" closes
		timeout 0.2 "$bpsocket" udp $nobody sleeps
	done
}

topology_make
modprobe sch_bpshaper
on_tx sysctl -qw net.ipv4.ping_group_range="0 1000"
export -f closers event random_qdisc pick links_up on_tx on_rx
export bpsocket nobody nobody6 tx rx
echo "# SEED=$seed ROUNDS=$rounds"
shape bpshaper rate 20mbit
touch /tmp/race
on_tx bash -c closers >/dev/null 2>&1 &
send --udp 8 --tcp 4 --seconds $((rounds / 2)) >/dev/null 2>&1 &
sender=$!
(report=$(mktemp) dst=fd99::2; send --udp 16 --mode epoll --tcp 2 --port 7000 \
	--gso 4 --seconds $((rounds / 2))) >/dev/null 2>&1 &
other=$!
# Statistics are read all the time: on a debug kernel that asserts the laws.
(while [ -e /tmp/race ]; do on_tx tc -s qdisc show dev txdev; done) >/dev/null 2>&1 &
for ((i = 0; i < rounds; i++)); do
	on_tx bash -c "RANDOM=$RANDOM; event" >/dev/null 2>&1
	sleep 0.$((RANDOM % 4))
done
rm -f /tmp/race
ip -n "$tx" link set txdev mtu 1500 up
links_up
shape bpshaper rate 1gbit
wait $sender $other
check_num "senders ended by themselves" "$(result stuck_senders)" == 0
sleep 2
check "no socket is held afterwards" wait_until 20 no_socket_is_held
# The namespaces may live on for a minute in TCP sockets that nobody owns any more;
# the device, and with it the qdisc, must not.
ip -n "$tx" link del txdev
check "the module unloads" wait_until 20 rmmod sch_bpshaper
finish
