# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # $harness, $work: set by test_plugin.sh
#
# Part of test_plugin.sh: statistics of flows, which are listed as classes, as
# text and as JSON, those of older kernels, which have no peers, too.

# class STATE COOKIE LONGEST HASH THROTTLES DEFICIT FAMILY PROTOCOL: a class
# in hex, of a kernel before peers
class()
{
	int 4 1
	int 4 "$1"
	int 8 "$2"
	int 8 "$3"
	int 4 "$4"
	int 4 "$5"
	int 4 $(($6 & 0xffffffff))
	int 2 "$7"
	int 2 "$8"
}

# class_peer SOCKET_FLOWS SOCKET_BACKLOG FAMILY PORT ADDRESS: the members
# behind that; the port has 4 digits, the address up to 32, in network byte
# order
class_peer()
{
	local zeros=00000000000000000000000000000000

	int 4 "$1"
	int 4 "$2"
	int 2 "$3"
	printf %s "$4"
	int 4 0
	printf %s "$5${zeros:${#5}}"
}

test_class_xstats()
{
	local hex out

	hex=$(class 3 0x1f 3200000 0 12 -1200 2 17)
	is "a class that is a throttled socket" \
		"  throttled inet udp sk:1f throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "JSON has the fields of the struct, and the state by name" \
		'{"state":"throttled","cookie":31,"longest_throttle_ns":3200000,"hash":0,"throttles":12,"deficit":-1200,"family":2,"protocol":17,"socket_flows":0,"socket_backlog":0}' \
		"$(xstats_to -j "$hex")"
	is "one that is overlimit" \
		"  overlimit inet6 tcp sk:2 throttles 0 longest_throttle 0ns deficit 5" \
		"$(xstats_to "$(class 2 2 0 0 0 5 10 6)")"
	is "one that may send, of a packet socket" \
		"  unthrottled packet sk:ffffffffffffffff throttles 0 longest_throttle 0ns deficit 0" \
		"$(xstats_to "$(class 1 -1 0 0 0 0 17 0)")"
	is "one of the pool" "  socketless hash 0000abcd deficit 7" \
		"$(xstats_to "$(class 0 0 0 0xabcd 0 7 0 0)")"
	is "numbers without a name" \
		"  9 99 136 sk:1 throttles 4294967295 longest_throttle 5s deficit -2147483648" \
		"$(xstats_to "$(class 9 1 5000000000 0 4294967295 -2147483648 99 136)")"
	is "JSON of a state to come is its number" 9 \
		"$(xstats_to -j "$(class 9 1 0 0 0 0 2 6)" | jq -r .state)"
	is "a class of an older kernel ends in zeros" \
		'{"state":"throttled","cookie":31,"longest_throttle_ns":0,"hash":0,"throttles":0,"deficit":0,"family":0,"protocol":0,"socket_flows":0,"socket_backlog":0}' \
		"$(xstats_to -j "${hex:0:32}")"
	"$harness" "$PLUGIN" class_message <<<"- $hex" >"$work/message"
	out=$(stock_tc -s monitor file "$work/message" 2>&1)
	is "tc -s shows them below the class" \
		"class bpshaper 8001:1 dev lo parent 8001: "$'\n'"$(xstats_to "$hex")" \
		"$(grep -v '^$' <<<"$out")"
	is "without -s a class is a line" \
		"class bpshaper 8001:1 dev lo parent 8001: " \
		"$(stock_tc monitor file "$work/message" 2>&1)"
}

# A class with a throttled socket, to which the peers belong.
peers_class() { class 3 0x1f 3200000 0 12 -1200 2 17; }

test_peers()
{
	local throttled hex

	throttled=$(peers_class)
	hex=$throttled$(class_peer 1 9000 2 0035 0a000001)
	is "a class with a peer" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "with details, what its socket holds" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 socket_flows 1 socket_backlog 9000b throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to -d "$hex")"
	is "JSON has peer and port" '["10.0.0.1",53,1,9000]' \
		"$(xstats_to -j "$hex" |
		   jq -c '[.peer, .peer_port, .socket_flows, .socket_backlog]')"
	is "these are the fields of the uAPI" \
		"$(struct_members class_xstats | sort)" \
		"$(xstats_to -j "$hex" | jq -r 'keys[]')"
	is "one of several flows of a socket" \
		"  throttled inet udp sk:1f hash 0000abcd peer 10.0.0.1:65535 socket_flows 4 socket_backlog 36Kb throttles 12 longest_throttle 0ns deficit 0" \
		"$(xstats_to "$(class 3 0x1f 0 0xabcd 12 0 2 17)$(
		   class_peer 4 36864 2 ffff 0a000001)")"
	is "packets without a socket have a peer, too" \
		"  socketless hash 0000abcd peer 10.0.0.1:53 deficit 7" \
		"$(xstats_to "$(class 0 0 0 0xabcd 0 7 0 0)$(
		   class_peer 0 0 2 0035 0a000001)")"
	is "an older kernel has no peers, with details neither" \
		"$(xstats_to "$throttled")" "$(xstats_to -d "$throttled")"
	is "a class of a newer kernel is cut" "$(xstats_to "$hex")" \
		"$(xstats_to "${hex}ffffffff")"
	is "these fields are all there are" "$(struct_size class_xstats)" ${#hex}
}

test_peer_addresses()
{
	local throttled fd00_1=fd000000000000000000000000000001

	throttled=$(peers_class)
	is "a peer of IPv6" \
		"  throttled inet udp sk:1f peer [fd00::1]:53 throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$throttled$(class_peer 1 1 10 0035 $fd00_1)")"
	is "JSON of it is without brackets" '["fd00::1",53]' \
		"$(xstats_to -j "$throttled$(class_peer 1 1 10 0035 $fd00_1)" |
		   jq -c '[.peer, .peer_port]')"
	is "an address is as long as it can be" \
		" peer [fd00:1111:2222:3333:4444:5555:6666:7777]:65535 " \
		"$(xstats_to "$throttled$(class_peer 1 1 10 ffff \
			fd001111222233334444555566667777)" | grep -o ' peer [^ ]* ')"
	is "a packet without a port has an address only" " peer 10.0.0.1 , peer fd00::1 " \
		"$({ xstats_to "$throttled$(class_peer 1 1 2 0000 0a000001)"
		     xstats_to "$throttled$(class_peer 1 1 10 0000 $fd00_1)"
		   } | grep -o ' peer [^ ]* ' | paste -sd,)"
	is "so it has in JSON" '["peer"]' \
		"$(xstats_to -j "$throttled$(class_peer 1 1 2 0000 0a000001)" |
		   jq -c '[keys[] | select(startswith("peer"))]')"
	is "without a family there is no peer" "$(xstats_to "$throttled")" \
		"$(xstats_to "$throttled$(class_peer 1 1 0 0035 0a000001)")"
	is "nor is there of a family to come" "$(xstats_to "$throttled")" \
		"$(xstats_to "$throttled$(class_peer 1 1 99 0035 0a000001)")"
	is "nor in JSON" 0 \
		"$(xstats_to -j "$throttled$(class_peer 1 1 99 0035 0a000001)" |
		   grep -c '"peer')"
}

test_classes()
{
	test_class_xstats
	test_peers
	test_peer_addresses
}
