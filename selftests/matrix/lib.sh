# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# Shared by scripts that work in a Debian suite: a layer over the suite's root
# file system, with the sources in /src. Sourced, never run.

# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# Run the script in namespaces: its mounts are private, and all that it starts
# ends with it.
own=(unshare --mount --pid --fork --kill-child --mount-proc)
if [ -z "${BPSHAPER_MOUNTS-}" ]; then
	"${own[@]}" true || {
		skip "${0##*/} $*" "this machine gives no namespaces"
		tap_end "${0##*/}"
		exit
	}
	export BPSHAPER_MOUNTS=1
	exec "${own[@]}" "$0" "$@"
fi

# A /dev of its own: packages may remove files there.
devices_make()
{
	mount -t tmpfs none "$1" &&
		mknod -m 666 "$1/null" c 1 3 &&
		mknod -m 666 "$1/zero" c 1 5 &&
		mknod -m 666 "$1/full" c 1 7 &&
		mknod -m 666 "$1/random" c 1 8 &&
		mknod -m 666 "$1/urandom" c 1 9 &&
		mknod -m 666 "$1/tty" c 5 0 &&
		ln -s /proc/self/fd "$1/fd" &&
		mkdir "$1/shm"
}

layer_mount()
{
	mkdir -p "$layer"/{upper,work,root}
	mount -t overlay -o "lowerdir=$1,upperdir=$layer/upper,workdir=$layer/work" \
		none "$layer/root" &&
		mount -t proc proc "$layer/root/proc" &&
		devices_make "$layer/root/dev"
}

layer_leave()
{
	! mountpoint -q "$layer/root" || umount -R -l "$layer/root" || return
	rm -rf --one-file-system "$layer"
}

# in_root COMMAND...: in the layer, with an environment of its own
in_root()
{
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# kernels PATTERN: the kernels of the layer whose release matches
kernels()
{
	(cd "$root/lib/modules" && printf '%s\n' *) | grep -E -- "$1"
}

# layer_enter SUITE: sets $root; files written there are removed in the end
layer_enter()
{
	local rootfs status

	rootfs=$("$top/selftests/matrix/rootfs" "$1")
	status=$?
	case $status in
	0) ;;
	4) skip "$1" "its root file system cannot be had"; return 1 ;;
	*) not_ok "$1: its root file system can be made"; return 1 ;;
	esac
	# Hold the lock: rootfs replaces it only when nobody uses it.
	exec {rootfs_lock}<"$rootfs.made"
	flock -s "$rootfs_lock"
	# Remove layers that killed runs have left.
	find "$cache" -maxdepth 1 -name '*.layer' -mmin +300 \
		-exec rm -rf --one-file-system {} +
	layer=$(mktemp -d -p "$cache" --suffix=.layer)
	trap layer_leave EXIT
	root=$layer/root
	layer_mount "$rootfs" || {
		skip "$1" "this machine cannot mount what it takes"
		return 1
	}
	sources_copy "$root/src"
}

# Build the plugin and the programs for the guest.
tools_build()
{
	in_root make -s -C /src plugin &&
		in_root make -s -C /src/selftests/traffic BUILD=/src/programs &&
		in_root make -s -C /src/selftests/guest/programs BUILD=/src/programs
}

# module_build RELEASE: print what kbuild says beside its steps
module_build()
{
	in_root cp -r /src "/build-$1" &&
		in_root make -C "/build-$1" KDIR="/lib/modules/$1/build" W=1 module \
			>"$layer/log" 2>&1 || {
		tail -n 20 "$layer/log"
		return 1
	}
	! grep -E -A9 'warning|error:' "$layer/log"
}

kernel_describe_in_root()
{
	cat <<-END
		VMLINUZ=$root/boot/vmlinuz-$1
		VMLINUX=
		MODULES=$root/lib/modules/$1
		RELEASE=$1
	END
}

flavour_of()
{
	case $1 in
	*-cloud-amd64) echo cloud-amd64 ;;
	*-rt-amd64) echo rt-amd64 ;;
	*) echo amd64 ;;
	esac
}
