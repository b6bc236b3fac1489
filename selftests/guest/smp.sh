#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Two CPUs, truly concurrent: the same zero, at a rate that a slow machine
# sustains. Laws and counters only: nothing is said about time.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
rate=20mbit
! is_slow || rate=2mbit
params="rate $rate burst 20kb limit 50k"

lossless()
{
	check_num "$1: nothing is lost" "$(result udp_lost_packets)" == 0 packets
	check_num "$1: nothing is dropped" "$(stat drops)" == 0 packets
	check_num "$1: all senders ended by themselves" "$(result stuck_senders)" == 0
	check "$1: no socket is held afterwards" wait_until 10 no_socket_is_held
}

topology_make
# shellcheck disable=SC2086 # words
for options in "--udp 2" "--udp 16 --mode poll --sndbuf 4194304" \
	       "--udp 64 --mode epoll" "--udp 4 --gso 10" "--udp 4 --tcp 4"; do
	shape bpshaper $params
	send $options --seconds 2
	lossless "$options"
	check_num "$options: sockets were throttled" "$(stat throttles)" '>' 0
done

shape bpshaper
send --udp 8 --tcp 4 --seconds 2
lossless "no rate, device as fast as it is"

# A queue that comes and goes while senders of two CPUs fill it.
# shellcheck disable=SC2086 # words
shape bpshaper $params
traffic_try --udp 16 --tcp 4 --seconds 4 &
for i in 1 2 3 4 5 6; do
	sleep 0.3
	must on_tx tc qdisc replace dev txdev root pfifo
	# shellcheck disable=SC2086 # words
	must on_tx tc qdisc replace dev txdev root bpshaper $params
	sleep 0.1
	must on_tx tc qdisc change dev txdev root bpshaper rate "${i}mbit"
done
# shellcheck disable=SC2086 # words
must on_tx tc qdisc change dev txdev root bpshaper $params
wait $!
check_num "replaced under load: all senders ended by themselves" \
	"$(result stuck_senders)" == 0
check "replaced under load: no socket is held afterwards" \
	wait_until 10 no_socket_is_held
unshape
check "the module unloads" wait_until 10 rmmod sch_bpshaper
finish
