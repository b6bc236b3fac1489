# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# What the scripts of this directory share: messages, --help, the cache and a
# lock, what initramfs and kernels are made with. Sourced, never run.

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${BPSHAPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bpshaper}")

readonly EXIT_SKIP=4		# this machine cannot provide what is needed

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# die STATUS MESSAGE
die()
{
	say "$2"
	exit "$1"
}

# Print the header comment of the running script, without the licence, and exit.
usage()
{
	awk 'NR > 3 && !/^#/ { exit } NR > 3 { sub(/^# ?/, ""); print }' "$0"
	exit
}

# Each script knows --help.
[[ ${BASH_SOURCE[1]} != "$0" || ${1-} != --help ]] || usage

# A build directory beside its target, so that the final rename is atomic.
# Leftovers of killed builds are removed: the caller holds the lock.
tmp_dir_new()
{
	rm -rf "$1.tmp"
	mkdir -p "$1.tmp"
}

# lock_take FILE: held until the script exits; children must not inherit it.
lock_take()
{
	mkdir -p "$(dirname "$1")"
	exec {lock_fd}>"$1"
	flock "$lock_fd"
}

# cached DIR COMMAND...: has DIR, which COMMAND DIR builds. What was not asked for in a week
# is removed from beside it.
cached()
{
	[[ -e $1 ]] || "${@:2}" "$1"
	touch "$1"
	find "${1%/*}" -mindepth 1 -maxdepth 1 -type d -mtime +7 -exec rm -rf {} +
}

# An empty tree with merged /usr, as the tools of either layout expect.
# Every archive must have these links: a directory in their place would
# replace them when the kernel unpacks one archive over the other.
root_skeleton()
{
	local dir

	mkdir -p "$1"/usr/{bin,lib,lib64}
	ln -s bin "$1/usr/sbin"
	for dir in bin sbin lib lib64; do
		ln -s "usr/$dir" "$1/$dir"
	done
}

# in_sysroot COMMAND...: in the root file system $sysroot, or in this machine's
in_sysroot()
{
	if [[ ${sysroot-} ]]; then
		chroot "$sysroot" "$@"
	else
		"$@"
	fi
}

# sysroot_copy PROGRAM TO: links lead to elsewhere in the sysroot
sysroot_copy()
{
	in_sysroot cat "$1" >"$2"
	chmod +x "$2"
}

# elf_libs_copy ROOT FILE: the shared libraries FILE needs, and its loader.
elf_libs_copy()
{
	local root=$1 lib

	while read -r lib; do
		[[ ! -e $root$lib ]] || continue
		mkdir -p "$root${lib%/*}"
		sysroot_copy "$lib" "$root$lib"
	done < <(elf_libs_list "$2")
}

# What is not a dynamic executable needs nothing.
elf_libs_list()
{
	in_sysroot ldd "${1#"${sysroot-}"}" 2>/dev/null | grep -oE '/[^ ]+' || true
}

# module_copy FROM TO: not compressed
module_copy()
{
	case $1 in
	*.xz)  xz -dc "$1" >"$2" ;;
	*.zst) zstd -qdc "$1" >"$2" ;;
	*.gz)  gzip -dc "$1" >"$2" ;;
	*)     cp "$1" "$2" ;;
	esac
}

# Pack a tree for the kernel. The same contents give the same bytes, as the
# kernel takes another number of instructions to read another date.
cpio_pack()
(
	cd "$1" || return
	find . -exec touch -h -d @0 {} +
	find . -mindepth 1 -print0 | LC_ALL=C sort -z |
		cpio --null --create --format=newc --owner=0:0 --reproducible --quiet
)

# The version of PACKAGE that apt would install, or nothing.
package_version()
{
	apt-cache show --no-all-versions "$1" 2>/dev/null |
		awk '/^Version:/ && !n++ { print $2 }' || true
}

# packages_download DIR PACKAGE...; lists older than the archive make for 404s.
packages_download()
(
	local get=(apt-get -qq -o APT::Sandbox::User="$(id -un)" download)

	cd "$1" && shift
	"${get[@]}" "$@" >&2 && return
	((EUID == 0)) || return 1
	apt-get -qq update >&2 && "${get[@]}" "$@" >&2
)

# found_updating COMMAND...: what it prints; if that is nothing, once more with new lists of apt
found_updating()
{
	local found

	found=$("$@")
	if [[ ! $found && $EUID == 0 ]]; then
		say "$* found nothing, updating the lists of apt"
		apt-get -qq update >&2 || true
		found=$("$@")
	fi
	echo "$found"
}

# package_unpack PACKAGE FILE...: sets $unpacked to where these files of it are, not installed
package_unpack()
{
	local package=$1 version

	shift
	lock_take "$cache/$package/lock"
	version=$(package_version "$package")
	[[ $version ]] || die $EXIT_SKIP "apt has no $package"
	unpacked=$cache/$package/${version//:/_}
	[[ ! -e $unpacked/$1 ]] || return 0
	say "fetching $package $version"
	tmp_dir_new "$unpacked"
	packages_download "$unpacked.tmp" "$package" || die $EXIT_SKIP "no $package in apt"
	dpkg-deb --fsys-tarfile "$unpacked.tmp"/*.deb | tar -xC "$unpacked.tmp" "${@/#/./}"
	rm -rf "$unpacked.tmp"/*.deb "$unpacked"
	mv "$unpacked.tmp" "$unpacked"
}

# go_tools ARGUMENTS...: of go, in the module of tools
go_tools()
{
	local go

	go=$("$vm_dir/golang")
	(cd "$vm_dir/../../tools" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=readonly \
		"$go" "$@") >&2
}

# qemu_bring: prints the options of run that bring this machine's QEMU
qemu_bring()
{
	local file

	"$vm_dir/deps" qemu-system-x86 seabios
	echo "--file $(type -P qemu-system-x86_64):/usr/bin/qemu-system-x86_64"
	for file in /usr/share/seabios/bios-256k.bin /usr/share/qemu/{kvmvapic,linuxboot_dma}.bin; do
		echo "--file $file:/usr/share/qemu/${file##*/}"
	done
	for file in /usr/lib/*/qemu/accel-tcg-x86_64.so; do
		echo "--file $file:$file"
	done
}

# Debian's archive: $DEBIAN_MIRROR, or the one that this machine's apt uses.
debian_mirror()
{
	local uri=${DEBIAN_MIRROR-}

	# shellcheck disable=SC2016 # the parentheses are apt's
	[[ $uri ]] || uri=$(apt-get indextargets --format '$(REPO_URI)' \
		'Created-By: Packages' | awk '/\/debian\/?$/ && !n++')
	[[ $uri ]] || uri=http://deb.debian.org/debian
	echo "${uri%/}"
}

# debian_source SUITE: the line of apt for it
debian_source()
{
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"$(debian_mirror) $1 main"
}

# suite_lists SUITE DIR: apt's lists of it, in DIR; sets ${apt[@]}, the options to use them
suite_lists()
{
	mkdir -p "$2"/{lists/partial,cache/archives/partial}
	debian_source "$1" >"$2/sources"
	apt=(-qq -o "Dir::Etc::sourcelist=$2/sources" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::lists=$2/lists" -o "Dir::Cache=$2/cache"
		-o Acquire::Check-Valid-Until=false -o APT::Sandbox::User="$(id -un)")
	apt-get "${apt[@]}" update >&2
}

# tree_describe DIR: the lines a kernel is described with. What the kernel is made
# of lies in DIR as in /, and DIR/release is its uname -r.
tree_describe()
{
	local dir=$1 name vmlinux

	name=$(<"$dir/release")
	vmlinux=$dir/boot/vmlinux-$name
	[[ -e $vmlinux ]] || vmlinux=
	printf '%s=%q\n' VMLINUZ "$dir/boot/vmlinuz-$name" \
		VMLINUX "$vmlinux" \
		MODULES "$dir/lib/modules/$name" \
		KDIR "$dir/usr/src/linux-headers-$name" RELEASE "$name"
}
