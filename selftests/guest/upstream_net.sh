#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel's own tests that send through a device, tools/testing/selftests/net, with
# bpshaper on every device that a test brings up. What is not run is listed, with
# its reason, in upstream.list.
#
# The tests make their devices themselves, and most of those have no qdisc. So `ip` is a
# wrapper here: it puts $QDISC on what it brings up, and before a device or a network
# namespace goes it notes what all qdiscs have sent. A test of which nothing went through
# bpshaper has failed, and so has one of which bpshaper has dropped a packet.
#
# What fails runs again with fq in bpshaper's place, without a rate. If that sends packets
# and fails too, it is the kernel, and the test is skipped.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"
kernel=$here/kernel-net
copy=/tmp/kernel-net
wrappers=/tmp/wrappers
log=/tmp/upstream.log
# What the programs say without failing.
bad='missing notifications'
ran=()
export SENT=/tmp/sent REAL_IP
REAL_IP=$(type -P ip)

# In $SENT, a file for each network namespace: packets sent and dropped. One that has no
# such qdisc any more, as with one end of a veth the other one goes, keeps its file.
wrapper_write()
{
	mkdir -p "$wrappers"
	cat >"$wrappers/ip" <<-'WRAPPER'
		#!/bin/bash
		sent_note()
		{
			local net sent

			for net in $("$REAL_IP" netns list | cut -d " " -f 1); do
				sent=$(tc -n "$net" -s qdisc show 2>/dev/null |
					awk -v kind="${QDISC%% *}" '
					$1 == "qdisc" { is_it = $2 == kind }
					is_it && $1 == "Sent" { sent += $4; dropped += $7 }
					END { if (sent) print sent, dropped }')
				[ -z "$sent" ] || echo "$sent" >"$SENT/$net"
			done
		}

		words="$* " net=()
		[[ $words != @(netns|link)" del"* ]] || sent_note
		"$REAL_IP" "$@" || exit
		[[ $words == *"link set "*" up "* ]] || exit 0
		[[ $words != -n* ]] || net=(-n "$2")
		device=${words#*link set }
		device=${device#dev }
		tc "${net[@]}" qdisc replace dev "${device%% *}" root $QDISC
	WRAPPER
	chmod +x "$wrappers/ip"
}

# change SCRIPT SED: which must find something to change
change()
{
	cp "$1" /tmp/before
	sed -i "$2" "$1"
	! cmp -s "$1" /tmp/before || not_ok "$1 has what is changed in it"
}

# $QDISC where a script has a qdisc of its own: in fq's place, and below netem. A second of
# traffic where it has more; without what tests another qdisc, or needs iptables.
# shellcheck disable=SC2016 # the scripts expand it
scripts_change()
{
	local script

	change so_txtime.sh 's/qdisc add \(dev .*\) root fq$/qdisc replace \1 root $QDISC/'
	change so_txtime.sh '/ etf /,/^fi/d'
	# Each of its cases is a result here.
	change so_txtime.sh \
		's/^\trun_test \$@$/&; status=$?; echo "case $status $*"; (exit $status)/'
	change cmsg_time.sh 's/\(qdisc replace dev .*\) root fq$/\1 root $QDISC/'
	change txtimestamp.sh 's/qdisc add \(dev .*\) root netem/qdisc replace \1 root handle 1: netem/'
	change txtimestamp.sh \
		's/^\(.*\)qdisc replace \(dev .*\) root handle 1: .*/&\n\1qdisc add \2 parent 1: $QDISC/'
	change udpgso_bench.sh 's/core_args="-l 3"/core_args="-l 1"/'
	change io_uring_zerocopy_tx.sh 's/IPs=( "4" "6" )/IPs=( "6" )/; s/seq 1 3/seq 2 3/'
	change fin_ack_lat.sh 's/do_test "30"/do_test "1"/'
	change ip_defrag.sh '/ip6tables/,/-6op/d'
	# Sysctls are the namespace's on some kernels only, or are none.
	change ip_defrag.sh 's,sysctl .*>/dev/null 2>&1$,& || :,'
	for script in msg_zerocopy.sh io_uring_zerocopy_tx.sh; do
		change $script 's/^ip netns exec [^ ]* \(sysctl .*\)/& 2>&1 || \1/'
	done
}

# sent FIELD: its sum over all network namespaces: 1 packets, 2 drops
sent()
{
	cat "$SENT"/* 2>/dev/null | awk -v field="$1" '{ sum += $field } END { print sum + 0 }'
}

# script_run QDISC COMMAND: sets $status, and fills $SENT and $log
script_run()
{
	rm -rf "$SENT"
	mkdir "$SENT"
	# shellcheck disable=SC2086 # words
	QDISC=$1 PATH=$wrappers:$copy:$PATH timeout 200 $2 >$log 2>&1
	status=$?
}

has_passed() { [ $status = 0 ] && ! grep -q "$bad" $log; }

cases()
{
	local result name

	while read -r _ result name; do
		check_num "$1: $name" "$result" == 0
	done < <(grep '^case ' $log)
}

# run COMMAND OPTIONS...: of bpshaper
run()
{
	local script=${1##*/} failure name

	name="$script passes${2:+ at ${*:2}}"
	ran+=("$script")
	script_run "bpshaper ${*:2}" "$1"
	cases "$name"
	echo "# $name: $(sent 1) packets through bpshaper"
	if has_passed && [ "$(sent 1)" -gt 0 ] && [ "$(sent 2)" = 0 ]; then
		ok "$name"
		return
	fi
	failure="exit $status, $(sent 1) packets, $(sent 2) dropped"$'\n'$(tail -n 50 $log | sed 's,^,# ,')
	script_run fq "$1"
	if has_passed || [ "$(sent 1)" = 0 ]; then
		not_ok "$name" "$failure"
	else
		skip "$name" "it fails with fq as well: $(tail -n 1 $log)"
	fi
}

# left_out SCRIPT: by a pattern of the list
left_out()
{
	local pattern

	while IFS='|' read -r pattern _; do
		# shellcheck disable=SC2053 # a pattern
		[[ net/$1 != ${pattern% } ]] || return 0
	done <"$here/upstream.list"
	return 1
}

every_test_is_known()
{
	local script

	for script in *.sh run_*; do
		[[ " ${ran[*]} " == *" $script "* ]] || left_out "$script" || {
			echo "$script"
			return 1
		}
	done
}

if [ ! -d "$kernel" ]; then
	skip "the kernel's tests of net" "the kernel's source is not at hand"
	finish
fi
cp -r "$kernel" "$copy" && cd "$copy" || exit
wrapper_write
scripts_change

for script in so_txtime cmsg_time txtimestamp; do
	run ./$script.sh
	run ./$script.sh rate 100mbit
done
# A burst that no large packet fits in: all of them are segmented.
for script in udpgso psock_snd; do
	run ./$script.sh rate 20mbit burst 4kb
done
# It counts time stamps once all zero copies are done, which is at once where a packet is
# segmented. With a small share the packet before has left by then.
run ./udpgso_bench.sh rate 20mbit burst 4kb share_min 3028
for script in msg_zerocopy io_uring_zerocopy_tx ip_defrag ipv6_flowlabel rxtimestamp; do
	run ./$script.sh rate 20mbit
done
run ./run_afpackettests rate 20mbit
# These do not make themselves a network namespace.
run "in_netns.sh ./fin_ack_lat.sh" rate 100mbit
run "in_netns.sh ./test_ingress_egress_chaining.sh" rate 20mbit
check "every script is run, or listed with the reason why not" every_test_is_known
finish
