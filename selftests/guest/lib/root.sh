# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Container programs call pivot_root(2), which the kernel refuses where / is the initramfs. So the
# script that sources this begins again where a mount of it is above /, which who enters the mount
# namespace finds, too. Sourced first, never run.

if [ "${GUEST_ROOT-}" != mounted ]; then
	mkdir -p /run/root && mount --bind / /run/root || exit
	for dir in dev proc sys run tmp out; do
		[ ! -d /$dir ] || mount --rbind /$dir /run/root/$dir
	done
	# shellcheck disable=SC2016 # $0 is of that shell
	GUEST_ROOT=mounted exec unshare --mount --propagation private \
		sh -c 'cd /run/root && mount --move . / && exec chroot . bash "$0"' "$(realpath "$0")"
fi
