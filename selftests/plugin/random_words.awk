# SPDX-License-Identifier: GPL-2.0-only
#
# random_words.awk - sets of options without contradictions, one a line
#
# usage: awk -v count=NUMBER -v seed=NUMBER -v object=[class_] \
#	-f random_words.awk <OPTIONS
#
# OPTIONS has a line for each option:
#	word|aliases|unit|least|largest|special value|usage
# An option without a rule of its own, below, gets a value by its unit.

BEGIN {
	FS = "|"
	srand(seed)
	if (object == "")
		short_words_set()
}

# As tbf takes them; a class has no such words.
function short_words_set() {
	short["burst"] = "b"
	short["limit"] = "li"
	short["latency"] = "lat"
	short["overhead"] = "over"
	short["linklayer"] = "link"
}

{
	word[NR] = $1
	names[$1] = $1 " " $2 " " short[$1]
	unit[$1] = $3
	least[$1] = $4
	largest[$1] = $5
	special[$1] = $6
	has_cell[$1] = $7 ~ /CELL/
}

END {
	while (count--)
		set_print()
}

function integer(below) { return int(rand() * below) }
function pick(list,    a) { return a[integer(split(list, a, " ")) + 1] }
function coin() { return rand() < 0.5 }

# bits(N): the largest number of bits of which all numbers are at most N
function bits(n,    b) {
	while (2 ^ (b + 1) - 1 <= n)
		b++
	return b
}

# magnitude(BITS): 1 to 2^BITS - 1, of any order of magnitude
function magnitude(b) {
	return sprintf("%.0f", int(exp(rand() * log(2) * b)))
}

# between(LEAST, LARGEST): of any order of magnitude above the least
function between(a, b,    n) {
	n = rand() < 0.1 ? 0 : magnitude(bits(b - a))
	return sprintf("%.0f", a + n)
}

function rate() {
	return coin() ? magnitude(43) "Bps" : \
		integer(30000) + 1 pick("kbit mbit mibit MBps gbit")
}

# bps(RATE): bytes per second
function bps(text,    value) {
	value = text + 0
	if (text ~ /Bps/)
		return text ~ /M/ ? value * 1e6 : value
	return value / 8 * (text ~ /k/ ? 1e3 : text ~ /mi/ ? 1048576 : \
			    text ~ /m/ ? 1e6 : 1e9)
}

function size(w) {
	if (least[w] <= 1 && coin())
		return magnitude(bits(int(largest[w] / 1024))) "k"
	return between(least[w], largest[w])
}

# A number without a unit is in us.
function time(w) {
	return coin() ? between(least[w], largest[w]) "ns" : \
		magnitude(bits(int(largest[w] / 1000)))
}

# minor(W): in hexadecimal, as it is typed
function minor(w) {
	return sprintf(coin() ? "%x" : "0x%x", between(least[w], largest[w]))
}

function value(w) {
	if (special[w] != "" && rand() < 0.3)
		return special[w]
	if (unit[w] == "bytes per second")
		return least[w] == 0 && rand() < 0.3 ? 0 : rate()
	if (unit[w] == "bytes")
		return size(w) \
			(has_cell[w] && coin() ? "/" pick("1 8 16 2048") : "")
	if (unit[w] == "ns")
		return time(w)
	if (unit[w] == "switch")
		return pick("on off")
	if (unit[w] == "minor")
		return minor(w)
	return between(least[w], largest[w])
}

function add(w, text) {
	line[++len] = pick(names[w]) " " text
}

# rate and peakrate: the latter needs a lower rate.
function rates_add(    peak) {
	main = coin() ? rate() : coin() ? "unlimited" : ""
	if (main != "")
		add("rate", main)
	if (coin())
		return
	peak = coin() ? rate() : "unlimited"
	if (peak == "unlimited" || main == "" ||
	    main != "unlimited" && int(bps(peak)) > int(bps(main)))
		add("peakrate", peak)
}

# floor and ceil of a class
function floors_add(    low, high) {
	low = coin() ? rate() : 0
	high = coin() ? rate() : "unlimited"
	if (coin())
		add("floor", low)
	if (high == "unlimited" || int(bps(high)) > int(bps(low)))
		add("ceil", high)
}

# limit and latency exclude each other; latency needs a rate.
function limit_add() {
	if (coin())
		add("limit", value("limit"))
	else if (main != "unlimited" && coin())
		add("latency", value("latency"))
}

# others_add(): the options that contradict no other one
function others_add(    i, w) {
	for (i = 1; i <= NR; i++) {
		w = word[i]
		if (w ~ /^(rate|peakrate|floor|ceil|limit|latency)$/ || coin())
			continue
		if (w == "linklayer")
			add(w, pick("ethernet atm adsl eth"))
		else
			add(w, value(w))
	}
}

# set_print(): a set of options, in any order
function set_print(    i, j, text) {
	if ("floor" in unit)
		floors_add()
	else
		rates_add()
	limit_add()
	others_add()
	for (i = len; i > 0; i--) {
		j = integer(i) + 1
		text = text (text == "" ? "" : " ") line[j]
		line[j] = line[i]
	}
	print text
	len = 0
}
