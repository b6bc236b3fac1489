# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # others set or use them
#
# Part of test_plugin.sh: statistics of flows, which are listed as classes, as
# text and as JSON.

# flow [MEMBER=VALUE]...: in hex; the others are 0
flow() { stats_members class_xstats others=0 "$@" | stats_hex; }

# throttled [MEMBER=VALUE]...: a flow of a throttled socket
throttled()
{
	flow state=3 cookie=31 longest_throttle_ns=3200000 throttles=12 \
		deficit=-1200 family=2 protocol=17 "$@"
}

test_flow_xstats()
{
	local hex object=class_ who="class bpshaper 8001:1 dev lo parent 8001: "

	hex=$(throttled)
	is "a flow of a throttled socket" \
		"  throttled inet udp sk:1f throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "JSON has the fields of the struct, and the state by name" \
		'{"state":"throttled","cookie":31,"longest_throttle_ns":3200000,"hash":0,"throttles":12,"deficit":-1200,"family":2,"protocol":17,"socket_flows":0,"socket_backlog":0}' \
		"$(xstats_to -j "$hex")"
	is "one that is overlimit" \
		"  overlimit inet6 tcp sk:2 throttles 0 longest_throttle 0ns deficit 5" \
		"$(xstats_to "$(flow state=2 cookie=2 deficit=5 family=10 protocol=6)")"
	is "one that may send, of a packet socket" \
		"  unthrottled packet sk:ffffffffffffffff throttles 0 longest_throttle 0ns deficit 0" \
		"$(xstats_to "$(flow state=1 cookie=-1 family=17)")"
	is "one of the pool" "  socketless hash 0000abcd deficit 7" \
		"$(xstats_to "$(flow hash=0xabcd deficit=7)")"
	is "numbers without a name" \
		"  9 99 136 sk:1 throttles 4294967295 longest_throttle 5s deficit -2147483648" \
		"$(xstats_to "$(flow state=9 cookie=1 longest_throttle_ns=5000000000 \
			throttles=4294967295 deficit=-2147483648 family=99 protocol=136)")"
	is "JSON of a state to come is its number" 9 \
		"$(xstats_to -j "$(flow state=9 cookie=1)" | jq -r .state)"
	is "tc -s shows them below the flow" "$who"$'\n'"$(xstats_to "$hex")" \
		"$(message - "$hex" -s | grep -v '^$')"
	is "without -s a flow is a line" "$who" "$(message - "$hex")"
	is "these fields are all there are" "$(struct_size class_xstats)" ${#hex}
}

test_peers()
{
	local hex v4="peer_family=2 peer_port=0035 peer=0a000001"

	# shellcheck disable=SC2086 # words
	hex=$(throttled socket_flows=1 socket_backlog=9000 $v4)
	is "a flow with a peer" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$hex")"
	is "with details, what its socket holds" \
		"  throttled inet udp sk:1f peer 10.0.0.1:53 socket_flows 1 socket_backlog 9000b throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to -d "$hex")"
	is "JSON has peer and port" '["10.0.0.1",53,1,9000]' \
		"$(xstats_to -j "$hex" |
		   jq -c '[.peer, .peer_port, .socket_flows, .socket_backlog]')"
	is "one of several flows of a socket" \
		"  throttled inet udp sk:1f hash 0000abcd peer 10.0.0.1:65535 socket_flows 4 socket_backlog 36Kb throttles 12 longest_throttle 3.2ms deficit -1200" \
		"$(xstats_to "$(throttled hash=0xabcd socket_flows=4 socket_backlog=36864 \
			peer_family=2 peer_port=ffff peer=0a000001)")"
	# shellcheck disable=SC2086 # words
	is "packets without a socket have a peer, too" \
		"  socketless hash 0000abcd peer 10.0.0.1:53 deficit 7" \
		"$(xstats_to "$(flow hash=0xabcd deficit=7 $v4)")"
}

# peer FAMILY PORT ADDRESS [-j]: what is printed of it
peer()
{
	local hex

	hex=$(throttled peer_family="$1" peer_port="$2" peer="$3")
	if [[ ${4-} ]]; then
		xstats_to -j "$hex" | jq -c '[.peer, .peer_port]'
	else
		xstats_to "$hex" | grep -o ' peer [^ ]* '
	fi
}

test_peer_addresses()
{
	local fd00_1=fd000000000000000000000000000001

	is "a peer of IPv6" " peer [fd00::1]:53 " "$(peer 10 0035 $fd00_1)"
	is "JSON of it is without brackets" '["fd00::1",53]' "$(peer 10 0035 $fd00_1 -j)"
	is "an address is as long as it can be" \
		" peer [fd00:1111:2222:3333:4444:5555:6666:7777]:65535 " \
		"$(peer 10 ffff fd001111222233334444555566667777)"
	is "a packet without a port has an address only" " peer 10.0.0.1 , peer fd00::1 " \
		"$({ peer 2 0000 0a000001; peer 10 0000 $fd00_1; } | paste -sd,)"
	is "so it has in JSON" '["10.0.0.1",null]' "$(peer 2 0000 0a000001 -j)"
	is "without a family there is no peer" "" "$(peer 0 0035 0a000001)"
	is "nor is there of a family to come" "" "$(peer 99 0035 0a000001)"
	is "nor in JSON" "[null,null]" "$(peer 99 0035 0a000001 -j)"
}

test_flows()
{
	test_flow_xstats
	test_peers
	test_peer_addresses
}
