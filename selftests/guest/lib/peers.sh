# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# Sockets with peers (bppeers), where nobody answers. Sourced after common.sh, never run.

peers_topology()
{
	topology_make
	peers_routes
}

# peers_routes: to the peers, on a device without segmentation
peers_routes()
{
	local net

	must on_tx ethtool -K txdev tx-udp-segmentation off >/tmp/ethtool
	# No host looks at what comes.
	for net in 10.99.0. fd99::; do
		must on_tx ip neigh replace "${net}8" lladdr 02:00:00:00:00:01 dev txdev \
			nud permanent
	done
	must on_tx ip route replace 10.100.0.0/14 via 10.99.0.8
	must on_tx ip route replace fd9a::/16 via fd99::8
}

# peers SECONDS WARMUP_MS SENDERS...: `got KEY` has what came of it
peers() { "$bppeers" "$tx" txdev "$rx" rxdev "$@" >/tmp/peers; }
got() { json_get "$1" </tmp/peers; }
