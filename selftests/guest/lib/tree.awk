# SPDX-License-Identifier: GPL-2.0-only
#
# A random tree of classes below a qdisc of 100 Mbit/s. The variable seed decides about it: up to 14
# classes on three levels below 1:, with floors, ceils, weights from 1 to 100 and prios, demands and
# sizes of packets. The variable what is
#	tc	the lines for tc -batch that make the classes
#	classes	the lines for bpshares, in bit/s
#	senders	the arguments of bppeers, one sender for each leaf
#	check	reads what bpshares says, and then the report of bppeers in one line, prints a
#		line for each leaf, and exits with 1 if one has got something else: 2 % and four
#		packets are allowed

# The 64 bits of state, in four digits, times those of factor, and plus those of more
function times_plus(factor, more,    f, m, i, j, sum, carry)
{
	split(factor, f, " ")
	split(more, m, " ")
	for (i = 4; i > 0; i--) {
		sum[i] = m[i] + carry
		for (j = 0; i + j <= 4; j++)
			sum[i] += state[i + j] * f[4 - j]
		carry = int(sum[i] / 65536)
	}
	for (i = 4; i > 0; i--)
		state[i] = sum[i] % 65536
}

function rnd(below)
{
	times_plus("22609 62509 19605 32557", "5125 31614 63335 33103")
	return int((state[1] * 65536 + state[2]) / 2) % below
}

function rnd_real(from, to) { return from + (to - from) * rnd(1048576) / 1048576 }

# spare[level]: what is left for floors of children there
function add(of, level,    i)
{
	if (count == 14)
		return
	i = count
	parent[i] = of
	prio[i] = !rnd(4)
	weight[i] = 1 + rnd(rnd(2) ? 100 : 5)
	floor[i] = rnd(2) ? int(rnd_real(0.05 * spare[level], 0.7 * spare[level])) : 0
	overcommit[i] = floor[i] && !rnd(2)
	if (overcommit[i])
		floor[i] *= 4
	else
		spare[level] -= floor[i]
	if (!rnd(3)) {
		ceil[i] = int(rnd_real(0.05 * link, link))
		if (ceil[i] < floor[i])
			ceil[i] = floor[i]
	}
	# With the headers of UDP, IPv4 and Ethernet
	bits[i] = (300 + rnd(1171) + 42) * 8
	if (!rnd(3)) {
		# A whole number of microseconds between two packets
		every_us[i] = int(bits[i] * 1e6 / rnd_real(0.02 * link, 0.6 * link))
		demand[i] = bits[i] * 1e6 / every_us[i]
	}
	if (of >= 0)
		children[of]++
	count++
}

function tree_make(    top, i, n)
{
	spare[0] = link
	for (top = 2 + rnd(4); top; top--)
		add(-1, 0)
	for (i = 0; i < count; i++) {
		n = rnd(3) || (parent[i] >= 0 && parent[parent[i]] >= 0) ? 0 : 1 + rnd(4)
		for (spare[1] = floor[i]; n; n--)
			add(i, 1)
	}
}

function tc_print(i)
{
	printf "class add dev txdev parent 1:%s classid 1:%x bpshaper floor %.0fbit overcommit %s weight %d prio %d%s\n",
		parent[i] < 0 ? "" : sprintf("%x", 16 + parent[i]), 16 + i, floor[i],
		overcommit[i] ? "on" : "off", weight[i], prio[i],
		ceil[i] ? sprintf(" ceil %.0fbit", ceil[i]) : ""
}

function class_print(i)
{
	printf "%d %d %d %.9f %d %.9f %.9f\n", parent[i], prio[i], weight[i], floor[i], overcommit[i],
		ceil[i], demand[i]
}

function sender_print(i)
{
	printf "c%x:udp,class=1-%x,size=%d,%s ", 16 + i, 16 + i, bits[i] / 8 - 42,
		every_us[i] ? "every=" every_us[i] : "sockets=2"
}

function leaf_check(i,    key, got, off)
{
	key = sprintf("\"c%x_mbit\": ", 16 + i)
	got = match(report, key) ? substr(report, RSTART + RLENGTH, 20) * 1e6 : -1
	off = got - share[i]
	off = (off < 0 ? -off : off) > 0.02 * share[i] + 4 * bits[i] / 3
	printf "# 1:%x: %.3f Mbit/s, the law says %.3f (floor %.3f%s ceil %.3f weight %d prio %d demand %.3f parent 1:%x)%s\n",
		16 + i, got / 1e6, share[i] / 1e6, floor[i] / 1e6, overcommit[i] ? " overcommit" : "",
		ceil[i] / 1e6, weight[i], prio[i], demand[i] / 1e6, parent[i] < 0 ? 0 : 16 + parent[i],
		off ? ": WRONG" : ""
	wrong += off
}

BEGIN {
	count = 0
	link = 100e6
	state[4] = seed
	times_plus("40503 31161 32586 31765", "0 0 0 1")
	tree_make()
	if (what == "check") {
		for (i = 0; i < count; i++)
			getline share[i]
		getline report
	}
	for (i = 0; i < count; i++)
		if (what == "tc")
			tc_print(i)
		else if (what == "classes")
			class_print(i)
		else if (!children[i] && what == "senders")
			sender_print(i)
		else if (!children[i])
			leaf_check(i)
	exit wrong > 0
}
