# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Tunnels between $tx and $rx each as tun0 on both sides. Sourced by paths.sh, never run.

# tunnelled NAME: tun0 is on both sides, with the addresses ${inner}1 and ${inner}2
tunnelled()
{
	local inner=${inner:-10.98.3.}

	addresses tun0 "$inner"
	lossless "under $1" "$tx" "${inner}2" "$tx" txdev
	shape_at "$tx" txdev "rate 8mbit"
	lossless "on $1 above" "$tx" "${inner}2" "$tx" tun0
	throttled_at "under $1 below" "$tx" txdev
	no_qdisc "$tx" txdev
	gone tun0
}

# tunnel TYPE OPTIONS...: between the addresses ${net}1 and ${net}2; $name, if it is not TYPE
tunnel()
{
	local net=${net:-10.99.0.}

	must ip -n "$tx" link add tun0 type "$1" local "${net}1" remote "${net}2" \
		"${@:2}"
	must ip -n "$rx" link add tun0 type "$1" local "${net}2" remote "${net}1" \
		"${@:2}"
	tunnelled "${name:-$1}"
}

wireguard_make()
{
	local side me other addr

	umask 077
	for me in tx rx; do
		wg genkey >/tmp/$me.key
		wg pubkey </tmp/$me.key >/tmp/$me.pub
	done
	for side in "$tx tx rx 10.99.0.2" "$rx rx tx 10.99.0.1"; do
		read -r side me other addr <<<"$side"
		ip -n "$side" link add tun0 type wireguard
		in_netns "$side" wg set tun0 listen-port 51820 \
			private-key /tmp/$me.key peer "$(cat /tmp/$other.pub)" \
			allowed-ips 0.0.0.0/0 endpoint "$addr:51820"
	done
}

# l2tp NETNS LOCAL REMOTE ENCAP OPTIONS...
l2tp()
{
	must ip -n "$1" l2tp add tunnel tunnel_id 1 peer_tunnel_id 1 encap "$4" \
		local "$2" remote "$3" "${@:5}"
	must ip -n "$1" l2tp add session tunnel_id 1 session_id 1 peer_session_id 1 name tun0
}

# l2tp_tunnelled NAME ENCAP OPTIONS...
l2tp_tunnelled()
{
	l2tp "$tx" 10.99.0.1 10.99.0.2 "${@:2}"
	l2tp "$rx" 10.99.0.2 10.99.0.1 "${@:2}"
	tunnelled "$1"
	ip -n "$tx" l2tp del tunnel tunnel_id 1
	ip -n "$rx" l2tp del tunnel tunnel_id 1
}

# macsec NETNS DEVICE OTHER'S MAC: both sides with one key
macsec()
{
	local key=00112233445566778899aabbccddeeff

	must ip -n "$1" link add tun0 link "$2" type macsec port 1 encrypt on
	must ip -n "$1" macsec add tun0 tx sa 0 pn 1 on key 00 $key
	must ip -n "$1" macsec add tun0 rx port 1 address "$3"
	must ip -n "$1" macsec add tun0 rx port 1 address "$3" sa 0 pn 1 on key 01 $key
}

# shellcheck disable=SC2034 # used by those who source it
aes_gcm=(aead 'rfc4106(gcm(aes))' 0x00112233445566778899aabbccddeeff00112233 128)

# esp NETNS LOCAL REMOTE MODE WORDS...: in both directions, one key
esp()
{
	local from to

	while read -r from to; do
		ip -n "$1" xfrm state add src "$from" dst "$to" proto esp spi 1 \
			mode "$4" "${@:5}" || return
	done <<<"$2 $3"$'\n'"$3 $2"
	ip -n "$1" xfrm policy add src "$2" dst "$3" dir out priority 2 \
		tmpl src "$2" dst "$3" proto esp mode "$4" &&
		ip -n "$1" xfrm policy add src "$3" dst "$2" dir in priority 2 \
			tmpl src "$3" dst "$2" proto esp mode "$4"
}

# under_esp NAME MODE WORDS...: of ip xfrm state
under_esp()
{
	local side

	if esp "$tx" 10.99.0.1 10.99.0.2 "${@:2}" 2>/dev/null &&
		esp "$rx" 10.99.0.2 10.99.0.1 "${@:2}"; then
		lossless "under ESP, $1" "$tx" 10.99.0.2 "$tx" txdev
	else
		skip "under ESP, $1" "the kernel has not all of it"
	fi
	no_qdisc "$tx" txdev 2>/dev/null
	for side in "$tx" "$rx"; do
		ip -n "$side" xfrm policy flush
		ip -n "$side" xfrm state flush
	done
}
