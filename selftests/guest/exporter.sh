#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bpshaper-exporter on a kernel with the module, and Prometheus that reads it.
#
#  1. Without the module it says so, and answers.
#  2. What it says of a qdisc, its histograms and its classes is what `tc -s -j` says.
#  3. It counts sockets that are throttled now.
#  4. It reads the namespaces that it is told, and says which it cannot.
#  5. An alias of a device names a pod. --device leaves out others.
#  6. 1000 classes take ten times as long as by tc at most, which prints a twentieth, and
#     650 ms of virtual time.
#  7. Of a namespace with more classes than it takes, no more of them are read.
#  8. Prometheus reads it, and answers a query, also of native histograms.
#
# With SHORT=1 without the last two.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

exporter=$here/bpshaper-exporter
metrics=/tmp/metrics
port=9989
started=()
trap 'kill "${started[@]}" 2>/dev/null; topology_remove' EXIT

# stop: what was started, which is no function, so that it has that very process id
stop()
{
	kill "${started[@]}" 2>/dev/null
	wait "${started[@]}" 2>/dev/null
	started=()
}

once() { "$exporter" --histograms classic --once "$@" >$metrics; }

# metric NAME LABELS: its value. LABELS are as in the text, in their order.
metric()
{
	awk -v wanted="bpshaper_$1${2:+{$2\}}" '{
		value = $NF
		sub(/ [^ ]*$/, "")
		if ($0 == wanted)
			printf "%.0f\n", value
	}' $metrics
}

# equal NAME JSON LABELS KEY METRIC [KEY METRIC...]: tc and the exporter agree
equal()
{
	local name=$1 json=$2 labels=$3 wrong=

	shift 3
	while [ $# -gt 0 ]; do
		[ "$(json_value "$1" "$json")" = "$(metric "$2" "$labels")" ] ||
			wrong+="$1 is $(json_value "$1" "$json"), $2 is $(metric "$2" "$labels"); "
		shift 2
	done
	is "$name" "" "$wrong"
}

# drops LABELS WHAT: of all causes
drops()
{
	grep -F "bpshaper_$2_drops_total{" $metrics | grep -F "$1" |
		awk '{ sum += $NF } END { printf "%.0f\n", sum }'
}

# buckets NAME LABELS: the counts of a histogram, as tc has them
buckets()
{
	grep -F "bpshaper_$1_bucket{$2,le=" $metrics | awk '
		{ printf "%s%.0f", (NR > 1 ? "," : ""), $NF - before; before = $NF }'
}

json_array() { sed -n "s/.*\"$1\": *\[\([^]]*\)\].*/\1/p" <<<"$2" | tr -d ' \n'; }

on_root="device=\"txdev\",handle=\"1:\",netns=\"$tx\",parent=\"root\""
on_class="class=\"1:20\",device=\"txdev\",netns=\"$tx\""

# equal_class: a class has no JSON in the tc of Debian 12
equal_class()
{
	local text

	text=$(on_tx tc -s class show dev txdev classid 1:20)
	[[ $text =~ Sent\ ([0-9]+)\ bytes\ ([0-9]+)\ pkts?\ .dropped\ ([0-9]+),\ overlimits\ ([0-9]+) ]]
	is "a class has the bytes and packets of tc, and its drops and overlimits" \
		"${BASH_REMATCH[*]:1}" "$(metric class_bytes_total "$on_class") $(metric \
		class_packets_total "$on_class") $(drops "$on_class" class) $(metric \
		class_overlimits_total "$on_class")"
	check_num "the class has sent" "$(metric class_packets_total "$on_class")" '>' 100
	is "floor, weight and prio" "500000 3 2" "$(metric class_floor_bytes_per_second \
		"$on_class") $(metric class_weight "$on_class") $(metric class_prio "$on_class")"
	# The only class that sends: what it counts, the qdisc counts.
	for name in delay throttle; do
		is "histogram of a class: $name" "$(buckets qdisc_${name}_seconds "$on_root")" \
			"$(buckets class_${name}_seconds "$on_class")"
	done
	for name in throttles_total unthrottles_total; do
		is "sockets of a class: $name" "$(metric qdisc_$name "$on_root")" \
			"$(metric class_$name "$on_class")"
	done
}

counted()
{
	local json

	shape handle 1: bpshaper rate 20mbit limit 60k default 20
	must on_tx tc class add dev txdev parent 1: classid 1:10 bpshaper ceil 5mbit
	must on_tx tc class add dev txdev parent 1: classid 1:20 bpshaper floor 4mbit \
		weight 3 prio 2
	send --udp 8 --seconds 1
	must once --netns "$tx"
	json=$(on_tx tc -s -j qdisc show dev txdev root | tr -d '\n')
	equal "the qdisc is that of tc" "$json" "$on_root" bytes qdisc_bytes_total \
		packets qdisc_packets_total overlimits qdisc_overlimits_total \
		requeues qdisc_requeues_total backlog qdisc_backlog_bytes \
		qlen qdisc_backlog_packets throttles qdisc_throttles_total \
		unthrottles qdisc_unthrottles_total timer_wakeups qdisc_timer_wakeups_total \
		direct_packets qdisc_direct_packets_total max_backlog qdisc_max_backlog_bytes \
		limit qdisc_limit_bytes rate qdisc_rate_bytes_per_second
	is "the drops of all causes are those of tc" "$(json_value drops "$json")" \
		"$(drops "$on_root" qdisc)"
	check_num "there is something to compare" "$(metric qdisc_throttles_total "$on_root")" \
		'>' 100
	for name in delay throttle lateness outside; do
		is "histogram of the qdisc: $name" "$(json_array ${name}_hist "$json")" \
			"$(buckets qdisc_${name}_seconds "$on_root")"
	done
	equal_class
}

forwarded_is_dropped()
{
	shape handle 1: bpshaper rate 1mbit limit 5k backpressure off
	send --udp 2 --seconds 1
	must once --netns "$tx"
	check_num "what the pool drops is counted" "$(drops 'cause="pool"' qdisc)" '>' 10
	is "it is what tc counts" "$(stat drops)" "$(drops "$on_root" qdisc)"
}

# throttled: senders that wait, while a packet takes 12 s
throttled()
{
	local i

	shape handle 1: bpshaper rate 800bit limit 4k
	for i in 1 2 3; do
		ip netns exec "$tx" bash -c "exec 3>/dev/udp/$nobody/$((9000 + i))
			while head -c 1000 /dev/zero >&3; do :; done" 2>/dev/null &
		started+=($!)
	done
	wait_until 10 bash -c "[ \"\$(ip netns exec $tx tc -s -j qdisc show dev txdev root |
		grep -oE '\"throttled_sockets\": *3')\" ]"
	must once --netns "$tx"
	is "sockets throttled now" 3 "$(metric qdisc_throttled_sockets "$on_root")"
	stop
}

namespaces()
{
	must once
	is "its own namespace only" "" "$(grep "$tx" $metrics)"
	must once --netns all --netns "/run/netns/$tx" --netns nobody
	is "all namespaces: this one" 1 "$(metric netns_up "netns=\"$tx\"")"
	is "all namespaces: the other" 1 "$(metric netns_up "netns=\"$rx\"")"
	is "a namespace with two names is there once" 1 \
		"$(grep -c "^bpshaper_qdisc_bytes_total.*netns=\"$tx\"" $metrics)"
	is "one that is not there" 0 "$(metric netns_up 'netns="nobody"')"
	is "the others are there all the same" 1 "$(metric module_loaded)"
}

refuses()
{
	"$exporter" --once --device 'bps[' >$metrics 2>&1
	is "a pattern that is none ends with 2" 2 $?
	is "it says so in one line" 1/1 "$(grep -c '^bpshaper-exporter: .*device' $metrics)/$(
		)$(wc -l <$metrics)"
}

# The alias is that of the CNI plugin.
pods()
{
	local alias="bpshaper 00112233445566778899aabbccddeeff eth0 of c0ffee in podnet"

	alias+=" pod prod/web-1"
	must ip link add bps0 type dummy
	must ip link set bps0 alias "$alias"
	must tc qdisc add dev bps0 root handle 1: bpshaper rate 1mbit
	must once
	is "the pod is a label" 125000 "$(metric qdisc_rate_bytes_per_second \
		'device="bps0",handle="1:",parent="root",pod_name="web-1",pod_namespace="prod"')"
	is "its container is in pod_info" 1 "$(grep -c '^bpshaper_pod_info{container_id="c0ffee"' \
		$metrics)"
	must once --device 'bps[0-9]|x'
	is "a device that matches is there" 1 "$(grep -c '^bpshaper_qdisc_bytes_total' $metrics)"
	must once --device 'bps'
	is "one that does not is not" 0 "$(grep -c '{.*device=' $metrics)"
	ip link del bps0
	must ip link add h0 type veth peer name eth9 netns "$rx"
	must ip -n "$rx" link set eth9 alias "${alias/web-1/liar}"
	must ip link set h0 alias "$alias"
	must on_rx tc qdisc add dev eth9 root handle 1: bpshaper rate 1mbit
	must once --netns "$rx"
	is "in another namespace the alias of the peer counts" 125000 "$(metric \
		qdisc_rate_bytes_per_second "device=\"eth9\",handle=\"1:\",netns=\"$rx\",$(
		)parent=\"root\",pod_name=\"web-1\",pod_namespace=\"prod\"")"
	ip link del h0
}

# get PATH [PORT]: HTTP, as a client that has only bash
get()
{
	exec 5<>"/dev/tcp/127.0.0.1/${2:-$port}" || return
	printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&5
	cat <&5
	exec 5<&-
}

# serve NETNS [FORM]: FORM of histograms
serve()
{
	ip link set lo up
	"$exporter" --netns "$1" --histograms "${2:-classic}" --listen 127.0.0.1:$port 2>/tmp/exporter.log &
	started+=($!)
	must wait_until 10 get /
}

# ns COMMAND...: how long it takes
ns()
{
	local start

	start=$(date +%s%N)
	"$@" >/tmp/ns
	echo $(($(date +%s%N) - start))
}

# Before it is timed each has run once. In virtual time a nanosecond is an
# instruction: seven times those of tc, as tc leaves empty histograms out.
thousand()
{
	local i tc_ns exporter_ns

	shape handle 1: bpshaper rate 20mbit
	for i in {1..1000}; do
		printf 'class add dev txdev parent 1: classid 1:%x bpshaper\n' "$i"
	done | on_tx tc -batch - || not_ok "1000 classes are added"
	serve "$tx"
	get /metrics >/dev/null
	exporter_ns=$(ns get /metrics)
	is "1000 classes are there" 1000 "$(grep -c '^bpshaper_class_bytes_total' /tmp/ns)"
	on_tx tc -s class show dev txdev >/dev/null
	tc_ns=$(ns on_tx tc -s class show dev txdev)
	echo "# 1000 classes: $((exporter_ns / 1000)) us, tc -s: $((tc_ns / 1000)) us"
	check_num "1000 classes take ten times as long as by tc -s at most" $exporter_ns '<=' \
		$((10 * tc_ns))
	check_num "and 650 ms" $exporter_ns '<=' 650000000 ns
	stop
}

# What a pod can make is not read as a whole: of 8000 classes half, and tc reads all of them.
crowded()
{
	local i tc_ns exporter_ns

	must on_rx tc qdisc add dev rxdev root handle 1: bpshaper rate 20mbit
	for i in {1..8000}; do
		printf 'class add dev rxdev parent 1: classid 1:%x bpshaper\n' "$i"
	done | on_rx tc -batch - || not_ok "8000 classes are added"
	serve "$rx"
	get /metrics >/dev/null
	exporter_ns=$(ns get /metrics)
	cp /tmp/ns $metrics
	is "a namespace with too many classes is not read" 0 "$(metric netns_up "netns=\"$rx\"")"
	on_rx tc class show dev rxdev >/dev/null
	tc_ns=$(ns on_rx tc class show dev rxdev)
	is "8000 classes are there" 8000 "$(grep -c bpshaper /tmp/ns)"
	echo "# 8000 classes: $((exporter_ns / 1000)) us, tc: $((tc_ns / 1000)) us," \
		"$(grep VmHWM "/proc/${started[0]}/status")"
	check_num "to see that takes 70 % of the time of tc at most" $exporter_ns '<=' \
		$((7 * tc_ns / 10)) ns
	stop
	must on_rx tc qdisc del dev rxdev root
}

# prometheus_answers QUERY: the value of the only series is in /tmp/answer
prometheus_answers()
{
	get "/api/v1/query?query=$(printf %s "$1" | od -An -v -tx1 | tr -d '\n' | tr ' ' %)" 9090 |
		sed -n 's/.*"result":\[{.*"value":\[[^,]*,"\([^"]*\)"\]}\].*/\1/p' >/tmp/answer &&
		[ -s /tmp/answer ]
}

# quantile Q: of the delay, in classic buckets or in native histograms
quantile()
{
	echo "histogram_quantile($1,{__name__=~\"bpshaper_qdisc_delay_seconds(_bucket)?\"})"
}

# prometheus_start FORM OPTIONS...: it reads the exporter each second, after some traffic
prometheus_start()
{
	shape handle 1: bpshaper rate 20mbit limit 60k
	send --udp 4 --seconds 1
	serve "$tx" "$1"
	cat >/tmp/prometheus.yml <<-END
	global: { scrape_interval: 1s }
	scrape_configs:
	  - job_name: bpshaper
	    static_configs: [ { targets: [ "127.0.0.1:$port" ] } ]
	END
	rm -rf /tmp/tsdb
	"$here/prometheus" --config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/tsdb \
		--web.listen-address=127.0.0.1:9090 "${@:2}" >/tmp/prometheus.log 2>&1 &
	started+=($!)
}

prometheus_stop()
{
	[ "$tap_failed" = 0 ] || sed 's/^/# /' /tmp/prometheus.log /tmp/exporter.log
	stop
}

prometheus_reads()
{
	prometheus_start classic
	check "Prometheus reads the exporter" \
		wait_until 120 prometheus_answers bpshaper_qdisc_bytes_total
	is "it has the bytes that tc has" "$(stat bytes)" "$(cat /tmp/answer)"
	check "it has quantiles of the delay" prometheus_answers "$(quantile 0.5)"
	check_num "the median delay is positive" "$(cat /tmp/answer)" '>' 0 s
	prometheus_stop
}

# median_bucket: where the bucket of tc with the median delay starts and ends, in nanoseconds
median_bucket()
{
	json_array delay_hist "$(on_tx tc -s -j qdisc show dev txdev root | tr -d '\n')" |
		tr ',' '\n' | awk '
		{ count[NR] = $1; sum += $1 }
		END {
			i = 1
			for (below = count[1]; below < sum / 2; below += count[++i]) { }
			print int(1024 * 2 ^ (i - 2) * (i > 1)), 1024 * 2 ^ (i - 1)
		}'
}

# Of native histograms there are no series of buckets. Their bounds are 954/1024 of the
# kernel's.
prometheus_reads_natively()
{
	local start end ns

	prometheus_start native --enable-feature=native-histograms
	check "Prometheus reads native histograms" wait_until 120 prometheus_answers \
		"histogram_count(bpshaper_qdisc_delay_seconds)"
	is "they have as many times as the qdisc has sent packets" "$(stat packets)" \
		"$(cat /tmp/answer)"
	is "and are the only ones" "" \
		"$(prometheus_answers bpshaper_qdisc_delay_seconds_count && cat /tmp/answer)"
	prometheus_answers "$(quantile 0.5)*1e9"
	ns=$(cat /tmp/answer)
	read -r start end < <(median_bucket)
	echo "# median delay: $ns ns, in tc's bucket from $start to $end"
	check_num "the median delay is in tc's bucket" "$ns" '>=' $((start * 954 / 1024)) ns
	check_num "and not behind it" "$ns" '<=' $((end * 954 / 1024 + 1)) ns
	prometheus_stop
}

rmmod sch_bpshaper 2>/dev/null
must once
is "without the module it says so" 0 "$(metric module_loaded)"
topology_make
# Nothing but the test sends: a multicast report between two readings made them differ.
on_tx sysctl -qw net.ipv6.conf.txdev.disable_ipv6=1
counted
forwarded_is_dropped
throttled
namespaces
refuses
pods
thousand
if [ ! "${SHORT-}" ]; then
	crowded
	prometheus_reads
	prometheus_reads_natively
fi
finish
