# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# What works in a Debian suite shares: a layer over the suite's root file system, with
# the sources in /src. Sourced, never run.

# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# Mounts are nobody else's.
if [ -z "${BPSHAPER_MOUNTS-}" ]; then
	export BPSHAPER_MOUNTS=1
	exec unshare -m "$0" "$@"
fi

layer_mount()
{
	mkdir -p "$layer"/{upper,work,root}
	mount -t overlay -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" \
		none "$layer/root" &&
		mount -t proc proc "$layer/root/proc" &&
		mount --bind /dev "$layer/root/dev"
}

layer_leave()
{
	umount -R "$layer/root"
	rm -rf "$layer"
}

# in_root COMMAND...: in the layer, with nothing of this machine's environment
in_root()
{
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# kernels PATTERN: those of the layer whose release matches
kernels()
{
	(cd "$root/lib/modules" && printf '%s\n' *) | grep -E -- "$1"
}

# sources_copy DIR
sources_copy()
{
	mkdir -p "$1"
	git -C "$top" ls-files --cached --others --exclude-standard -z |
		(cd "$top" && xargs -0 cp --parents -t "$1")
}

# layer_enter SUITE: sets $root; what is written there is gone in the end
layer_enter()
{
	local rootfs

	rootfs=$("$top/selftests/matrix/rootfs" "$1") || {
		skip "$1" "its root file system cannot be had"
		return 1
	}
	layer=$(mktemp -d "$cache/layer.XXXXXX")
	trap layer_leave EXIT
	root=$layer/root
	layer_mount "$rootfs" || {
		not_ok "$1: a layer over its root file system"
		return 1
	}
	sources_copy "$root/src"
}
