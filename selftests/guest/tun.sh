#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A tun with IFF_BACKPRESSURE, which stops its queue when its ring is full and wakes it when half
# of the ring has been read: without a rate the device decides who sends when.
#
# 1. Nothing is lost, neither by the shaper nor by the device, and sockets are throttled.
# 2. Weights and prios hold as with drr and prio, although the device takes half of the ring at once.
# 3. A queue that is read slowly does not hold up another one, as with mq.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
bptun=$here/bptun
up="sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set lo up
	ip addr add 10.99.0.1/24 dev tun0; ip link set tun0 up"

# tun "OPTIONS" SETUP: the report has the frames, and then what the qdisc and the device count
tun()
{
	# shellcheck disable=SC2086 # words
	"$bptun" $1 "$up; $2" "tc -s -j qdisc show dev tun0; cat /proc/net/dev" >"$report"
}

# root KIND [OPTIONS]: lines that set up a qdisc, with two classes by the source port
root() { echo "tc qdisc replace dev tun0 root handle 1: $*"; }
class() { echo "tc class add dev tun0 parent 1: classid $*"; }
ports() # CLASS OF EVEN PORTS, OF ODD ONES
{
	for port in 0 1; do
		echo "tc filter add dev tun0 parent 1: protocol ip u32" \
			"match ip sport $port 1 flowid 1:$1"
		shift
	done
}

# first: frames of sockets with an even port, of a thousand
first()
{
	awk -F '[ ,:]+' '{ for (i = 1; i < NF; i++) if ($i ~ /"from_/) {
			split($i, name, /[_"]/); all += $(i + 1)
			if (name[3] % 2 == 0) even += $(i + 1) } }
		END { printf "%d", 1000 * even / (all + !all) }' "$report"
}

# as NAME MEASURED EXPECTED
as()
{
	check_num "$1: at least what it does, less 1 %" "$2" '>=' $(($3 * 99 / 100))
	check_num "$1: at most what it does, and 1 % more" "$2" '<=' $(($3 * 101 / 100 + 1))
}

must modprobe tun
must modprobe sch_bpshaper
tun "-t 1" "ip link set tun0 txqueuelen 32; $(root bpshaper)"
[ $? != 4 ] || {
	skip "tun" "that of this kernel has no IFF_BACKPRESSURE"
	finish
}
check_num "nothing is dropped" "$(result drops)" == 0
check_num "nor by the device" "$(awk '/tun0:/ { print $13 }' "$report")" == 0
check_num "two sockets have equal parts: at least 49 %" "$(first)" '>=' 490
check_num "two sockets have equal parts: at most 51 %" "$(first)" '<=' 510

# Half of the ring is 51 kB of the limit of 150 kB, and 24 kB of that of 48 kB. The sockets of the
# last send more than fits into the limit, and are throttled.
for what in "100 -s 1000" "32 -s 1472" "32 -s 1472 -b 1000000 -n 8"; do
	len="ip link set tun0 txqueuelen ${what%% *}" options=${what#* }
	tun "$options" "$len; $(root drr)
		$(class 1:10 drr quantum 4500) ; $(class 1:11 drr quantum 1500); $(ports 10 11)"
	drr=$(first)
	tun "$options" "$len; $(root bpshaper default 11)
		$(class 1:10 bpshaper weight 3); $(class 1:11 bpshaper weight 1); $(ports 10 11)"
	as "txqueuelen $what: weights, as drr" "$(first)" "$drr"
	tun "$options" "$len; $(root prio); $(ports 1 2)"
	prio=$(first)
	tun "$options" "$len; $(root bpshaper default 11)
		$(class 1:10 bpshaper prio 0); $(class 1:11 bpshaper prio 1); $(ports 10 11)"
	as "txqueuelen $what: prios, as prio" "$(first)" "$prio"
done
check_num "some of them are throttled" "$(result throttles)" '>' 0

# Eight sockets on two queues
slow="-r 500,10000 -n 8 -t 1"
tun "$slow" "$(root mq)
	tc qdisc replace dev tun0 parent 1:1 bpshaper
	tc qdisc replace dev tun0 parent 1:2 bpshaper"
quick=$(result frames_1) late=$(result frames_0)
tun "$slow" "$(root bpshaper)"
as "two queues, the quick one: as below mq" "$(result frames_1)" "$quick"
as "two queues, the slow one: as below mq" "$(result frames_0)" "$late"
check_num "nothing is dropped there" "$(result drops)" == 0
finish
