# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# What `make demo` and `make test` share: places, and building for a stock kernel
# outside the source tree. Sourced, never run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
vm=$top/selftests/vm
cache=${BPSHAPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bpshaper}

# What building needs: the gcc that Debian's headers name, and pahole, which those of
# 6.12 call.
build_packages="gcc gcc-12 make libc6-dev dpkg-dev binutils pahole"

# kernel_describe KERNEL: a version of Debian's, or a file that describes another
kernel_describe()
{
	case $1 in
	*/*) cat "$1" ;;
	*) "$vm/kernel" "$1" ;;
	esac
}

# build_module KERNEL [MAKE ARGUMENTS]: sets $module and $build; what make says is in
# $build/log. A copy of the sources is built, so that kernels do not disturb
# each other.
build_module()
{
	local described KDIR RELEASE

	described=$(kernel_describe "$1") || return
	eval "$described"
	build=$cache/build/$RELEASE
	module=$build/sch_bpshaper.ko
	rm -rf "$build"
	mkdir -p "$build"
	cp "$top"/{Makefile,sch_bpshaper.[ch],bpshaper_*.h} "$build"
	make -C "$build" module KDIR="$KDIR" "${@:2}" >"$build/log" 2>&1 || {
		cat "$build/log" >&2
		return 1
	}
}

# build_programs: what runs in the guest; sets $programs
build_programs()
{
	programs=$cache/build/programs
	make -s -C "$top/selftests/traffic" BUILD="$programs" &&
		make -s -C "$top/selftests/guest" BUILD="$programs" &&
		make -s -C "$top" plugin
}

# guest [OPTIONS OF vm/run] -- TEST...: run guest tests with module and plugin
guest()
{
	local file files=()

	for file in "$top"/selftests/guest/*.sh "$programs"/{bptraffic,bplaw,bpmany,bpsocket}; do
		files+=(--file "$file")
	done
	"$vm/run" --module "$module" --plugin "$top/q_bpshaper.so" \
		"${files[@]}" "$@"
}
