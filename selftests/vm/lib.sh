# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# What the scripts of this directory share: messages, --help, the cache and a
# lock. Sourced, never run.

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

# Print the header comment of the running script, without the licence.
usage()
{
	awk 'NR > 3 && !/^#/ { exit } NR > 3 { sub(/^# ?/, ""); print }' "$0"
}

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

# elf_libs_copy ROOT FILE: the shared libraries FILE needs, and its loader.
elf_libs_copy()
{
	local root=$1 lib

	while read -r lib; do
		[[ ! -e $root$lib ]] || continue
		mkdir -p "$root${lib%/*}"
		cp -L "$lib" "$root$lib"
	done < <(elf_libs_list "$2")
}

# What is not a dynamic executable needs nothing.
elf_libs_list()
{
	ldd "$1" 2>/dev/null | grep -oE '/[^ ]+' || true
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
