# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Tunnels between $tx and $rx for devices.sh, each as tun0 on both sides. Sourced by it, never run.

# tunnelled NAME: tun0 is on both sides
tunnelled()
{
	addresses tun0 10.98.3
	lossless "under $1" "$tx" 10.98.3.2 "$tx" txdev
	shape_at "$tx" txdev "rate 8mbit"
	lossless "on $1 above" "$tx" 10.98.3.2 "$tx" tun0
	throttled_at "under $1 below" "$tx" txdev
	no_qdisc "$tx" txdev
	gone tun0
}

# tunnel TYPE OPTIONS...: between the addresses ${net}1 and ${net}2
tunnel()
{
	local net=${net:-10.99.0.}

	must ip -n "$tx" link add tun0 type "$1" local "${net}1" remote "${net}2" \
		"${@:2}"
	must ip -n "$rx" link add tun0 type "$1" local "${net}2" remote "${net}1" \
		"${@:2}"
	tunnelled "$1"
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

# l2tp NETNS LOCAL REMOTE: over UDP
l2tp()
{
	must ip -n "$1" l2tp add tunnel tunnel_id 1 peer_tunnel_id 1 encap udp \
		local "$2" remote "$3" udp_sport 1701 udp_dport 1701
	must ip -n "$1" l2tp add session tunnel_id 1 session_id 1 peer_session_id 1 name tun0
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

# esp NETNS LOCAL REMOTE: transport mode with AES-GCM in both directions, one key
esp()
{
	local from to

	while read -r from to; do
		ip -n "$1" xfrm state add src "$from" dst "$to" proto esp spi 1 \
			mode transport aead 'rfc4106(gcm(aes))' \
			0x00112233445566778899aabbccddeeff00112233 128 || return
	done <<<"$2 $3"$'\n'"$3 $2"
	ip -n "$1" xfrm policy add src "$2" dst "$3" dir out tmpl proto esp mode transport &&
		ip -n "$1" xfrm policy add src "$3" dst "$2" dir in tmpl proto esp mode transport
}
