# SPDX-License-Identifier: GPL-2.0-only
#
# When do classes get what the law says, after one has come or gone? With these variables:
#	names, shares	words: of each class that is greedy from from_ms to until_ms, the share in Mbit/s
#	window_ms, from_ms, until_ms
# Reads what bppeers writes to $ARRIVALS. A window is good if each class gets in it its share, to 10 %
# and a packet. They begin every quarter of a millisecond. Prints one JSON object:
#	settle_ms	from from_ms to the beginning of the first window after which all are good;
#			null if the last of them is not
#	others_ms	from from_ms to the last packet of a class that is not named, or 0
#	off_percent	what the class that is worst gets too little or too much, of the law, over
#			the last half of the time

BEGIN {
	count = split(names, name, " ")
	split(shares, share, " ")
	for (i = 1; i <= count; i++)
		number[name[i]] = i
	ticks = int((until_ms - from_ms) * 4)
	window = int(window_ms * 4)
}

{ ms = $2 / 1e6 - from_ms }
ms < 0 || ms * 4 >= ticks { next }
$1 in number { bytes[number[$1], int(ms * 4)] += $3; next }
{ others_ms = ms }

function total(i, from, end,    all)
{
	while (from < end)
		all += bytes[i, from++]
	return all
}

# Bytes that the law gives to a class in so many ticks
function due(i, n) { return share[i] * 1e6 / 8 * n / 4e3 }

function abs(x) { return x < 0 ? -x : x }

function is_good(from,    i)
{
	for (i = 1; i <= count; i++)
		if (abs(total(i, from, from + window) - due(i, window)) > 0.1 * due(i, window) + 1512)
			return 0
	return 1
}

END {
	for (first = ticks - window; first >= 0 && is_good(first); first--)
		;
	half = int(ticks / 2)
	for (i = 1; i <= count; i++) {
		off = abs(total(i, half, ticks) / due(i, ticks - half) - 1)
		worst = off > worst ? off : worst
	}
	first++
	settle_ms = first > ticks - window ? "null" : sprintf("%.2f", first / 4)
	printf "{ \"settle_ms\": %s, \"others_ms\": %.2f, \"off_percent\": %.2f }\n",
		settle_ms, others_ms, 100 * worst
}
