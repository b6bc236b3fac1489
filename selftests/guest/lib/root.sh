# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Container programs call pivot_root(2), which the kernel refuses where / is the initramfs. So the
# script that sources this begins again where / is a mount of it. Sourced first, never run.

if [ "${GUEST_ROOT-}" != mounted ]; then
	mkdir -p /run/root && mount --bind / /run/root || exit
	for dir in dev proc sys run tmp out; do
		[ ! -d /$dir ] || mount --rbind /$dir /run/root/$dir
	done
	GUEST_ROOT=mounted exec unshare --mount --propagation private \
		chroot /run/root bash "$(realpath "$0")"
fi
