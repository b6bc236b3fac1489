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
build_packages="gcc gcc-12 make libc6-dev liburing-dev dpkg-dev binutils pahole"

# kernel_describe KERNEL: a version of Debian's, or a file that describes another
kernel_describe()
{
	case $1 in
	*/*) cat "$1" ;;
	*) "$vm/kernel" "$1" ;;
	esac
}

# build_sources KERNEL: sets $build, $KDIR and $RELEASE. A copy of the sources is
# built, so that kernels do not disturb each other.
build_sources()
{
	local described

	described=$(kernel_describe "$1") || return
	eval "$described"
	build=$cache/build/$RELEASE${build_suffix-}
	rm -rf "$build"
	mkdir -p "$build/selftests/kunit" "$build/tools"
	cp "$top"/{Makefile,sch_bpshaper.[ch],bpshaper_*.h} "$build"
	cp "$top/tools/compat-probes" "$build/tools"
	cp "$top"/selftests/kunit/{Makefile,*.[ch]} "$build/selftests/kunit"
}

# build_make ARGUMENTS...: what make says is in $build/log
build_make()
{
	make "$@" >>"$build/log" 2>&1 && return
	cat "$build/log" >&2
	return 1
}

# build_module KERNEL [MAKE ARGUMENTS]: sets $module and $build
build_module()
{
	build_sources "$1" || return
	module=$build/sch_bpshaper.ko
	kunit=''
	build_make -C "$build" module KDIR="$KDIR" "${@:2}"
}

# build_kunit [MAKE ARGUMENTS]: after build_sources or build_module; sets $kunit
build_kunit()
{
	kunit=$build/selftests/kunit/bpshaper_kunit.ko
	build_make -C "$KDIR" M="${kunit%/*}" modules "$@"
}

# build_programs: what runs in the guest; sets $programs
build_programs()
{
	programs=$cache/build/programs
	make -s -C "$top/selftests/traffic" BUILD="$programs" &&
		make -s -C "$top/selftests/guest" BUILD="$programs" &&
		make -s -C "$top" plugin
}

# guest [OPTIONS OF vm/run] -- TEST...: run guest tests with module and plugin; what
# is brought along as a file is not found by modprobe
guest()
{
	local file files=()

	[ -z "${kunit-}" ] || files+=(--file "$kunit")

	for file in "$top"/selftests/guest/*.sh $(find "$programs" \
			-maxdepth 1 -type f -executable ! -name '*.*'); do
		files+=(--file "$file")
	done
	[ -z "$module" ] || files+=(--module "$module")
	"$vm/run" --plugin "$top/q_bpshaper.so" "${files[@]}" "$@"
}
