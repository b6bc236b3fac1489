# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # used by those who source it
#
# Shared by `make demo`, `make test` and `make matrix`: paths, results, building
# for a kernel outside the source tree, and running tests on it. Sourced, never
# run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
vm=$top/selftests/vm
cache=${BPSHAPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bpshaper}
# Build here. Each clone has its own directory: several may build at the same
# time.
builds=$cache/build/$(cksum <<<"$top" | cut -d " " -f 1)

# shellcheck source=tap.sh
. "$top/selftests/tap.sh"

# time_is_left NAME: is it before $DEADLINE, in seconds since 1970? If not, NAME
# is skipped.
time_is_left()
{
	[ "${DEADLINE:-0}" = 0 ] || [ "$(date +%s)" -lt "$DEADLINE" ] || {
		skip "$1" "the time is up"
		return 1
	}
}

# tap_end NAME: the last line of a log. A log without it is incomplete.
tap_end() { echo "# end of $1"; }

# tap_summary LOGS NAME...: print what failed or was skipped in LOGS/NAME.tap,
# and the sum. A log without results or without its last line has failed.
tap_summary()
{
	local logs=$1 name skipped failed total

	shift
	for name; do
		grep -qE '^(not )?ok ' "$logs/$name.tap" &&
			[ "$(tail -n 1 "$logs/$name.tap")" = "$(tap_end "$name")" ] ||
			echo "not ok - $name gets to its end" >>"$logs/$name.tap"
		sed -E -n "s/^(not ok .*|ok .*# SKIP.*)/$name: \1/p" \
			"$logs/$name.tap"
	done
	cat "$logs"/*.tap >"$logs/all"
	failed=$(grep -cE '^not ok ' "$logs/all")
	skipped=$(grep -cE '^ok .*# SKIP' "$logs/all")
	total=$(grep -cE '^ok ' "$logs/all")
	echo "$((total - skipped)) passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}

# sources_copy DIR: the tree without anything built, as after git clone
sources_copy()
{
	mkdir -p "$1"
	git -C "$top" ls-files --cached --others --exclude-standard -z |
		(cd "$top" && xargs -0 cp --parents -t "$1")
}

# Packages for building. Debian's kernel headers call gcc-12, those of 6.12
# pahole.
build_packages="gcc gcc-12 make libc6-dev liburing-dev dpkg-dev binutils pahole"

# kernel_describe KERNEL: a version of Debian, or a file that describes another
# kernel
kernel_describe()
{
	case $1 in
	*/*) cat "$1" ;;
	*) "$vm/kernel" "$1" ;;
	esac
}

kernel_is_here() { kernel_describe "$1" >/dev/null 2>&1; }

# build_sources KERNEL: copy the sources to $build, to build them for several
# kernels at a time. Sets $build, $KDIR and $RELEASE.
build_sources()
{
	local described

	described=$(kernel_describe "$1") || return
	eval "$described"
	build=$builds/$RELEASE${build_suffix-}
	rm -rf "$build"
	mkdir -p "$build/selftests/kunit" "$build/tools"
	cp "$top"/{Makefile,sch_bpshaper.[ch]} "$build"
	cp -r "$top/bpshaper" "$build"
	cp "$top/tools/compat-probes" "$build/tools"
	cp "$top"/selftests/kunit/{Makefile,*.[ch]} "$build/selftests/kunit"
}

# build_make ARGUMENTS...: the output of make goes to $build/log
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

# build_programs: build the programs for the guest; sets $programs
build_programs()
{
	programs=$builds/programs
	make -s -C "$top/selftests/traffic" BUILD="$programs" &&
		make -s -C "$top/selftests/guest/programs" BUILD="$programs" &&
		make -s -C "$top" plugin
}

# kernel_net DIR: build the programs of the kernel's selftests/net there, and
# print the options that bring them along. Status 4: the kernel's source cannot
# be had.
kernel_net()
{
	local kernel

	kernel=$("$top/selftests/tdc/kernel-selftests") || return
	make -s -C "$top/selftests/tdc" KERNEL="$kernel" BUILD="$1" >&2 || return 1
	echo "--file $1:/opt/bpshaper/kernel-net --file $top/selftests/tdc/upstream.list"
}

# guest [OPTIONS OF vm/run] -- TEST...: run guest tests with module and plugin;
# what is brought along as a file is not found by modprobe
guest()
{
	local file files=()

	[ -z "${kunit-}" ] || files+=(--file "$kunit")

	for file in "$top"/selftests/guest/{*.sh,lib,bench,htb} \
			"$top"/Documentation/{classes,containers,virtual-machines}.rst \
			$(find "$programs" -maxdepth 1 -type f \
				\( -executable ! -name '*.*' -o -name '*.bpf.o' \)); do
		files+=(--file "$file")
	done
	[ -z "$module" ] || files+=(--module "$module")
	"$vm/run" --plugin "${plugin:-$top/q_bpshaper.so}" "${files[@]}" "$@"
}

# guest_verdict NAME KERNEL TESTS OPTIONS...
guest_verdict()
{
	local name=$1 kernel=$2 tests=$3 status

	shift 3
	# shellcheck disable=SC2086 # words
	guest --kernel "$kernel" "$@" -- "$top/selftests/guest/run" $tests
	status=$?
	case $status in
	0) ok "$name: the kernel log is silent" ;;
	1) ;;	# tests failed and said so
	4) skip "$name" "this machine cannot run it" ;;
	*) not_ok "$name: the virtual machine ends well" "exit $status" ;;
	esac
}
