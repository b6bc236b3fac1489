# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Is each parent's qlen and backlog the sum of its children's, at every moment? Sourced after
# common.sh, never run.

# The first line of each pair that `tc -b` prints is a sample if the second is the
# same, so that nothing has happened while the first was taken. Prints how many
# samples had a backlog, and each that does not add up. The packet that a parent
# has let its own parent peek at is no longer its children's. What multiq counts of bytes
# is wrong, and whatever taprio counts, if a child of theirs drops or segments.
# shellcheck disable=SC2016 # awk
samples_judge='
function number(record, key)
{
	if (!match(record, "\"" key "\":[0-9]+"))
		return 0
	return substr(record, RSTART + length(key) + 3,
		      RLENGTH - length(key) - 3) + 0
}
function word(record, key)
{
	if (!match(record, "\"" key "\":\"[^\"]*"))
		return ""
	return substr(record, RSTART + length(key) + 4,
		      RLENGTH - length(key) - 4)
}
NR % 2 { sample = $0; next }
$0 != sample { next }
{
	n = split(sample, record, "[[{]\"kind\"")
	split("", handle)
	for (i = 2; i <= n; i++)
		handle[word(record[i], "handle")] = i
	split("", qlen); split("", backlog); split("", children); split("", wrong)
	for (i = 2; i <= n; i++) {
		parent = word(record[i], "parent")
		sub(/:.*/, ":", parent)
		if (record[i] ~ /^:"(multiq|taprio)"/)
			wrong[parent] = wrong[word(record[i], "handle")] = 1
		if (!(parent in handle))
			continue
		children[parent]++
		qlen[parent] += number(record[i], "qlen")
		backlog[parent] += number(record[i], "backlog")
	}
	for (parent in children) {
		up = record[handle[parent]]
		packets = number(up, "qlen") - qlen[parent]
		bytes = number(up, "backlog") - backlog[parent]
		if (parent in wrong)
			bytes = 0
		if (up ~ /^:"taprio"/)
			packets = 0
		peeked = word(up, "parent") != "" && packets == 1 && bytes > 0
		if ((packets || bytes) && !peeked)
			print "parent " packets "p " bytes "b more: " sample
		else if (qlen[parent])
			good++
	}
}
END { print good + 0 }'

# Four pairs: under load it is chance whether a packet leaves between the two of one.
sample()
{
	printf 'qdisc show dev txdev\n%.0s' {1..8} | on_tx tc -s -j -b -
}

# check_samples NAME LEAST FILE
check_samples()
{
	local verdict

	verdict=$(awk "$samples_judge" "$3")
	check_num "$1: parent and children agree" \
		"$(grep -c parent <<<"$verdict")" == 0
	check_num "$1: so do they in enough samples with a backlog" \
		"${verdict##*$'\n'}" '>=' "$2"
	grep -m 3 parent <<<"$verdict" | cut -c 1-1000 | sed 's/^/# /'
}
