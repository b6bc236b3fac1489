#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bpshaper-tap lists the taps that processes have open, and sets their send buffers;
# bpshaper-top says which cannot be held.

# shellcheck source=lib/common.sh
. "$(dirname "$0")/lib/common.sh"

holders=()
trap 'kill "${holders[@]}" 2>/dev/null; rm -f /dev/tap7 /dev/another; topology_remove' EXIT

tap() { on_tx python3 "$here/bpshaper-tap" "$@"; }
tap_rx() { on_rx python3 "$here/bpshaper-tap" "$@"; }

# shown DEV [tap_rx]: its send buffer, whether its process has vhost-net, and whether it can be held
shown() { "${2:-tap}" "$1" | awk -v dev="$1" '$1 == dev { print $4, $5, $6 }'; }

# must_set BYTES TAP: without bpshaper-tap
must_set() { must [ "$("$bpsndbuf" "$@" "$holder")" = 1 ]; }

# warned: what bpshaper-top says of taps
warned() { python3 "$here/bpshaper-top" --netns "$tx" --interval 0.1 --once | grep ^tap; }

# warned_json: the devices that it says in JSON
warned_json()
{
	python3 "$here/bpshaper-top" --netns "$tx" --interval 0.1 --once --json |
		python3 -c 'import json, sys
print(*(tap["device"] for tap in json.load(sys.stdin)["unheld_taps"]))'
}

# refused NAME STATUS LINE ARGUMENT...: one line
refused()
{
	local name=$1 status=$2 line=$3 said

	said=$(tap "${@:4}" 2>&1 >/dev/null)
	is "$name: exit status" "$status" $?
	is "$name" "$line" "$said"
}

# hold NETNS WHAT...: a process, $holder, that has these open, as QEMU does: vhost-net, queues of
# macvtaps (/dev/tapN), and of taps (NAME, NAME:NODE for another node than /dev/net/tun, or NAME!
# for a queue that is switched off)
hold()
{
	rm -f /tmp/held
	ip netns exec "$1" python3 - "${@:2}" <<-'END' &
		import fcntl, os, struct, sys, time
		TUNSETIFF, TAP, NO_PI, QUEUES = 0x400454CA, 2, 0x1000, 0x100
		TUNSETQUEUE, DETACH = 0x400454D9, 0x400
		words = sys.argv[1:]
		names = [word.rstrip("!") for word in words]
		for word, name in zip(words, names):
		    name, _, node = name.partition(":")
		    is_tap = not name.startswith("/")
		    fd = os.open(node or "/dev/net/tun" if is_tap else name, os.O_RDWR)
		    flags = TAP | NO_PI | (QUEUES if names.count(name) > 1 else 0)
		    if is_tap and name != "unused":
		        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
		    if word.endswith("!"):
		        fcntl.ioctl(fd, TUNSETQUEUE, struct.pack("16sH22x", b"", DETACH))
		open("/tmp/held", "w")
		time.sleep(3600)
	END
	holder=$!
	holders+=("$holder")
	must wait_until 60 [ -e /tmp/held ]
}

holder_end()
{
	kill "$1"
	wait "$1" 2>/dev/null
}

must modprobe tun
must modprobe vhost_net
must modprobe macvtap
topology_make
is "no tap" 1 "$(tap | wc -l)"
must touch /dev/tap7
unshare -m sh -c 'echo >/tmp/file && mount --bind /tmp/file /dev/net/tun &&
	mount --bind /dev/null /dev/tap7 && exec sleep 3600 </dev/net/tun 3</dev/tap7' &
holder=$!
holders+=("$holder")
check "a process has a file and a device of such names open" wait_until 60 bash -c \
	'[ "$(readlink /proc/'$holder'/fd/[03] | xargs)" = "/dev/net/tun /dev/tap7" ]'
is "they are no taps, and no error" "0 1" "$(out=$(tap 2>&1); echo "$? $(wc -l <<<"$out")")"
holder_end "$holder"

# Two taps, the second with two queues.
hold "$tx" tap0 tap1 tap1 unused
is "two taps are listed, of four descriptors" "tap0 tap1" \
	"$(tap | awk 'NR > 1 { print $1 }' | xargs)"
is "with their process" "$holder python3" "$(tap tap0 | awk 'NR > 1 { print $2, $3 }')"
is "by itself a tap has no send buffer" "none no yes" "$(shown tap0)"
refused "no process has it open" 1 "bpshaper-tap: tap7: no process has this tap open" \
	--sndbuf 2m tap7
for size in 127k 257m; do
	refused "size $size" 2 "bpshaper-tap: argument --sndbuf: $size is not a size from 128k$(
		) to 256m" "--sndbuf=$size" tap0
done
refused "the size of taps that are held" 2 \
	"bpshaper-tap: argument --sndbuf: 1048577 is a size of bpshaper's own" --sndbuf 1048577 tap0
refused "no tap is named" 2 "bpshaper-tap: --sndbuf needs the names of the taps" --sndbuf 1m
is "nothing has changed" "none no yes" "$(shown tap0)"
check "it sets one" tap --sndbuf 1m tap0
is "the tap has it" "1048576 no yes" "$(shown tap0)"
is "another has not" "none no yes" "$(shown tap1)"
check "it sets those of all queues" tap --sndbuf 256k tap1
is "that tap has it" "262144 no yes" "$(shown tap1)"
is "as one for all queues" 1 "$(tap tap1 | grep -c ^tap1)"
shape bpshaper rate 1mbit
is "bpshaper-top says nothing of taps that can be held" "" "$(warned)"
holder_end "$holder"

hold "$tx" /dev/vhost-net tap2
is "without a send buffer vhost-net's cannot be held" "none yes no" "$(shown tap2)"
is "bpshaper-top says so" "tap tap2 of python3/$holder: vhost-net without a send buffer, so$(
	) it cannot be held: see bpshaper-tap(8)" "$(warned)"
is "also as JSON" tap2 "$(warned_json)"
must_set $((2 ** 20 + 1)) tap2
is "it has none either while bpshaper holds it" "none yes no" "$(shown tap2)"
is "bpshaper-top says so then, too" 1 "$(warned | wc -l)"
check "it gets one" tap --sndbuf 1m tap2
is "with one it can" "1048576 yes yes" "$(shown tap2)"
is "bpshaper-top says nothing any more" "" "$(warned)"
must_set $((2 ** 30)) tap2
is "one that is too large to be filled keeps it in the pool" "1073741824 yes pool" "$(shown tap2)"
is "bpshaper-top does not warn of that" ":" "$(warned):$(warned_json)"
holder_end "$holder"

# vhost-net serves one of two, and the kernel does not tell which.
hold "$tx" /dev/vhost-net tap3 tap4
is "each of two may be the one that vhost-net serves" "none perhaps perhaps none perhaps perhaps" \
	"$(shown tap3) $(shown tap4)"
is "bpshaper-top says so of them" "tap tap3 of python3/$holder +1: perhaps vhost-net without a$(
	) send buffer, so it cannot be held: see bpshaper-tap(8)" "$(warned)"
check "one of them gets a send buffer" tap --sndbuf 1m tap3
is "it is held in any case, the other may be" "1048576 perhaps yes none perhaps perhaps" \
	"$(shown tap3) $(shown tap4)"
is "bpshaper-top says nothing then" "" "$(warned)"
holder_end "$holder"
hold "$tx" /dev/vhost-net /dev/vhost-net tap3 tap3
is "vhost-net serves all queues of a tap" "none yes no" "$(shown tap3)"
holder_end "$holder"

hold "$tx" /dev/vhost-net /dev/vhost-net tap3 tap3!
is "a queue that is switched off is one of two" "none yes no" "$(shown tap3)"
check "the tap gets a send buffer" tap --sndbuf 1m tap3
is "the queue in use has it, and only that is listed" "1048576 yes yes" "$(shown tap3)"
is "bpshaper-top says nothing of the other" "" "$(warned)"
holder_end "$holder"

must mknod /dev/another c 10 200
hold "$tx" tap5:/dev/another
is "a device node of another name is a tap as well" "none no yes" "$(shown tap5)"
holder_end "$holder"

# Network namespaces
hold "$rx" /dev/vhost-net tap0
other=$holder
hold "$tx" tap0
is "two namespaces have a tap0 each: that of the caller is listed" "$holder" \
	"$(tap tap0 | awk 'NR > 1 { print $2 }')"
is "in the other one the other" $other "$(tap_rx tap0 | awk 'NR > 1 { print $2 }')"
check "it sets that of the caller" tap --sndbuf 1m tap0
is "which has it" "1048576 no yes" "$(shown tap0)"
is "the other has none" "none yes no" "$(shown tap0 tap_rx)"
is "bpshaper-top does not warn of another namespace" "" "$(warned)"
must tc qdisc add dev lo root bpshaper
is "but without --netns of all" "tap tap0 of python3/$other: vhost-net without a send buffer, so$(
	) it cannot be held: see bpshaper-tap(8)" \
	"$(python3 "$here/bpshaper-top" --interval 0.1 --once | grep ^tap)"
must tc qdisc del dev lo root
is "bpshaper-tap says who has it" "bpshaper-tap: tap0: that of python3 ($holder) is in another$(
	) network namespace" \
	"$(python3 "$here/bpshaper-tap" tap0 2>&1 >/dev/null | sed "s/($other)/($holder)/")"
must ip -n "$rx" link set tap0 name tap6 netns "$tx"
is "a tap that moves is listed where it is" "none yes no" "$(shown tap6)"
is "not where its process is" "" "$(shown tap6 tap_rx 2>/dev/null)"
is "bpshaper-top warns of it there" tap6 "$(warned_json)"
holder_end "$holder"
holder_end "$other"

must ip -n "$tx" link add link txdev name lower0 index 70 type macvtap mode bridge
must ip -n "$rx" link add link rxdev name lower0 index 71 type macvtap mode bridge
must wait_until 5 test -c /dev/tap70 -a -c /dev/tap71
hold "$rx" /dev/vhost-net /dev/tap71
other=$holder
hold "$tx" /dev/vhost-net /dev/tap70
is "two namespaces have a macvtap of a name: that of the caller is listed" "$holder" \
	"$(tap lower0 | awk 'NR > 1 { print $2 }')"
is "in the other one the other, whatever /sys shows" "$other" \
	"$(nsenter --net=/run/netns/"$rx" python3 "$here/bpshaper-tap" lower0 | awk 'NR > 1 { print $2 }')"
is "the kernel does not tell its send buffer" "? yes perhaps" "$(shown lower0)"
is "bpshaper-top does not warn of that" "" "$(warned)"
is "it sets that of the caller" "$holder 1048576 yes yes" \
	"$(tap --sndbuf 1m lower0 | awk 'NR > 1 { print $2, $4, $5, $6 }')"
holder_end "$holder"
holder_end "$other"

is "without root" "bpshaper-tap: only root may use the taps of other processes" \
	"$(python3 -c 'import os, sys
os.setuid(65534)
os.execv(sys.executable, ["python3"] + sys.argv[1:])' "$here/bpshaper-tap" tap0 2>&1)"
finish
