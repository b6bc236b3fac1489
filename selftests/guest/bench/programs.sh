# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154,SC2016 # what bench.sh and common.sh have set; DNS and rsyslog
#
# Part `programs` of bench.sh, which sources it: what real programs do when they are held, and
# what others get of them meanwhile. The link to the clients of the one kind has 1 Mbit/s, and
# they ask for four times that. The others are on a link of their own that is not shaped: clients,
# or of loggers the local file. Only with selftests/vm/programs-bundle.

other=bps-other seconds=5

# server COMMAND...: in the background, in a process group of its own
server()
{
	on_tx setsid "$@" >/tmp/server.log 2>&1 &
}

# used NAME: ms of CPU and KiB of memory of all its processes
used()
{
	local pid hz=100 ticks=0 rss=0

	for pid in $(pidof "$1"); do
		ticks=$((ticks + $(awk '{ print $14 + $15 }' "/proc/$pid/stat")))
		rss=$((rss + $(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")))
	done
	echo "$((ticks * 1000 / hz)) $rss"
}

refused() { on_tx nstat -asz UdpSndbufErrors | awk '$1 == "UdpSndbufErrors" { print $2 }'; }

# text LENGTH: of a DNS record, in strings of 250 bytes
text() { for ((i = 0; i < $1 / 250; i++)); do printf '"%s" ' "$(printf 'x%.0s' {1..230})"; done; }

dns_zone()
{
	printf '%s\n' '$TTL 60' '@ IN SOA ns.test. a.test. 1 60 60 60 60' '@ IN NS ns.test.' \
		'ns IN A 10.99.0.1' "big IN TXT $(text 1000)" >/tmp/test.zone
}

# Programs: NAME_run starts the server, on one socket for both addresses if it can.

unbound_run()
{
	{
		printf '%s\n' server: " interface: 0.0.0.0" " access-control: 0.0.0.0/0 allow" " chroot: ''" \
			" username: ''" " pidfile: ''" " do-daemonize: no" " use-syslog: no" \
			" directory: /tmp" " module-config: iterator" " local-zone: test. static"
		echo " local-data: 'big.test. 60 IN TXT $(text 1000)'"
	} >/tmp/unbound.conf
	server unbound -d -c /tmp/unbound.conf
}

nsd_run()
{
	printf '%s\n' server: " ip-address: 0.0.0.0" ' username: ""' " zonesdir: /tmp" \
		" pidfile: /tmp/nsd.pid" \
		" xfrdfile: /tmp/xfrd" " zonelistfile: /tmp/zones" " database: ''" " xfrdir: /tmp" \
		remote-control: " control-enable: no" zone: " name: test" " zonefile: /tmp/test.zone" \
		>/tmp/nsd.conf
	server nsd -d -c /tmp/nsd.conf
}

knotd_run()
{
	mkdir -p /tmp/knot
	printf '%s\n' server: " listen: 0.0.0.0@53" " rundir: /tmp/knot" database: " storage: /tmp/knot" \
		template: " - id: default" "   storage: /tmp" "   zonefile-load: whole" \
		"   journal-content: none" zone: " - domain: test" "   file: /tmp/test.zone" >/tmp/knot.conf
	server knotd -c /tmp/knot.conf
}

named_run()
{
	printf '%s\n' "options { directory \"/tmp\"; pid-file none; listen-on { any; };" \
		" listen-on-v6 { none; }; recursion no; session-keyfile none; };" \
		"controls { };" 'zone "test" { type primary; file "/tmp/test.zone"; };' >/tmp/named.conf
	server named -g -c /tmp/named.conf
}

pdns_server_run()
{
	echo 'zone "test" { type master; file "/tmp/test.zone"; };' >/tmp/pdns.zones
	server pdns_server --config-dir=/tmp/none --launch=bind --bind-config=/tmp/pdns.zones \
		--local-address=0.0.0.0 --daemon=no --guardian=no --socket-dir=/tmp --cache-ttl=60
}

dnsmasq_run()
{
	printf '%s\n' no-daemon no-resolv no-hosts user=root pid-file local=/test/ \
		"txt-record=big.test,$(text 1000 | tr -d '"' | xargs | tr ' ' ,)" edns-packet-max=4096 \
		>/tmp/dnsmasq.conf
	server dnsmasq -C /tmp/dnsmasq.conf
}

chronyd_run()
{
	printf '%s\n' "allow 10.0.0.0/8" "local stratum 8" "pidfile /tmp/chronyd.pid" \
		"bindcmdaddress /" "cmdport 0" >/tmp/chrony.conf
	server chronyd -d -x -u root -f /tmp/chrony.conf
}

rsyslogd_run()
{
	printf '%s\n' '$WorkDirectory /tmp' 'module(load="imudp")' \
		'input(type="imudp" address="127.0.0.1" port="5514" rcvbufsize="16m")' \
		'action(type="omfwd" target="10.99.0.2" port="514" protocol="udp")' \
		'action(type="omfile" file="/tmp/local.log")' >/tmp/rsyslog.conf
	server rsyslogd -n -f /tmp/rsyslog.conf -i /tmp/rsyslog.pid
}

syslog_ng_run()
{
	printf '%s\n' "@version: 3.38" "@define module-path /usr/lib/syslog-ng/3.38" \
		'source in { network(transport("udp") ip("127.0.0.1") port(5514) so-rcvbuf(16777216)); };' \
		'log { source(in); destination { network("10.99.0.2" transport("udp") port(514)); }; };' \
		'log { source(in); destination { file("/tmp/local.log"); }; };' >/tmp/syslog-ng.conf
	server env LD_LIBRARY_PATH=/usr/lib/syslog-ng syslog-ng -F -f /tmp/syslog-ng.conf -R /tmp/syslog-ng.persist -p /tmp/ng.pid -c /tmp/ng.ctl
}

# program_kind NAME
program_kind()
{
	case $1 in
	rsyslogd | syslog-ng) echo log ;;
	chronyd) echo ntp ;;
	*) echo dns ;;
	esac
}

# program_rival NAME: with its defaults
program_rival()
{
	case $1 in
	bpshaper) shape bpshaper rate 1mbit ;;
	bpshaper-drop) shape bpshaper rate 1mbit backpressure off ;;
	tbf | tbf+fq) shape handle 1: tbf rate 1mbit burst 5kb latency 50ms ;;
	cake) shape cake bandwidth 1mbit ;;
	esac
	[ "$1" != tbf+fq ] || must on_tx tc qdisc add dev txdev parent 1:1 fq
}

# program_measure NAME KIND PORT RATE: its clients, and what they got
program_measure()
{
	if [ "$2" = log ]; then
		python3 "$here/lib/programs.py" feed "$3" 25 "$4" 430 /tmp/local.log
	else
		python3 "$here/lib/programs.py" ask "$3" "$2" $seconds \
			"$rx:10.99.0.1:$4" "$other:10.98.0.1:50"
	fi
}

# program_cell NAME SHAPER: a fresh server each time
program_cell()
{
	local kind port=53 rate=500 cpu rss before

	kind=$(program_kind "$1")
	[ "$kind" != ntp ] || port=123 rate=2500
	[ "$kind" != log ] || port=5514 rate=750
	program_rival "$2"
	: >/tmp/local.log
	"${1//-/_}_run"
	if wait_until 20 is_bound "$port"; then
		sleep 0.5
		before=$(refused)
		program_measure "$1" "$kind" $port $rate >"$report"
		read -r cpu rss <<<"$(used "$1")"
		save programs "$2" program "$1" refused $(($(refused) - before)) cpu_ms "$cpu" rss_kib "$rss"
		cat "$report"
	else
		echo "# $1 does not start"
		tail -n 5 /tmp/server.log
	fi
	# shellcheck disable=SC2046 # words
	kill $(pidof "$1") 2>/dev/null
	# shellcheck disable=SC2046 # words
	wait_until 20 is_gone "$1" || kill -9 $(pidof "$1")
	wait
}

is_bound() { on_tx ss -Hlun "sport = :$1" | grep -q .; }
is_gone() { ! pidof "$1" >/dev/null; }

part_programs()
{
	local program shaper

	export tx rx
	must ip netns add $other
	must ip link add other netns "$tx" type veth peer name here netns $other
	must ip -n "$tx" addr add 10.98.0.1/24 dev other
	must ip -n $other addr add 10.98.0.2/24 dev here
	must ip -n "$tx" link set other up
	must ip -n $other link set here up
	sysctl -qw net.core.rmem_max=16777216
	dns_zone
	mkdir -p /tmp/none /run
	for program in ${PROGRAMS:-unbound nsd knotd named pdns_server dnsmasq chronyd rsyslogd syslog-ng}; do
		for shaper in ${RIVALS:-bpshaper bpshaper-drop tbf tbf+fq cake}; do
			program_cell "$program" "$shaper"
		done
	done
}
