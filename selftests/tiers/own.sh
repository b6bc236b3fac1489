# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # of lib.sh
#
# Tiers on kernels that are built here. Sourced by selftests/run.
#
#   debug	our own 6.12 with KASAN, lockdep, kmemleak, debug objects, UBSAN and the
#		module's own assertions, on two CPUs (built once, 10 to 15 minutes):
#		KUnit suites, races, leaks
#   debug-ends	every way for a backlog to end, on the debug kernel, leaks
#   debug-faults	more on the debug kernel: failing allocations, owners, load, leaks
#   debug-more	queues of a device, a queue that drains, random netlink messages, leaks on it
#   debug-taps	virtual machines that end, or are stopped, while they are held, and at random;
#		leaks
#   kunit	the KUnit suites alone
#   debug-long	the debug kernel with all tests that assert no rates
#   fuzz-long	100,000 random netlink messages on it
#   kunit-uml	the KUnit suites on user-mode Linux (built once, 5 minutes)
#   race-long	ten minutes of races on the debug kernel
#   kcsan	ends, ends_classes, race (with many classes) and members on a 6.12 with KCSAN
#		(built once, 10 minutes): no data race that names the module

# Messages of the kernel that are expected when allocations are made to fail.
out_of_memory=(--tolerate 'kmem_cache_create.*failed with error -(12|22)..</TASK>'
	--tolerate 'vmalloc error..</TASK>')

# own_kernel VARIANT: build that kernel; sets $described to its description
own_kernel()
{
	local status

	described=$builds/kernel-$1
	mkdir -p "${described%/*}"
	"$vm/debug-kernel" "$1" >"$described"
	status=$?
	case $status in
	0) return ;;
	4) skip "the $1 kernel builds" "its source cannot be had" ;;
	*) not_ok "the $1 kernel builds" ;;
	esac
	return $status
}

# debug_vm NAME TESTS OPTIONS...
debug_vm()
{
	local bundle

	# shellcheck disable=SC2086 # words
	own_kernel debug && bundle_make "$1" fuzz_files &&
		in_vm "$1" "$described" "$2" --mode smp --timeout 1500 \
			"${out_of_memory[@]}" $bundle "${@:3}"
}

tier_debug()
{
	debug_vm debug "kunit race leaks" --env DURATION=20
}

tier_debug-ends()
{
	debug_vm debug-ends "ends ends_classes ends_classes@4 classes leaks" --env PARTS="changes refusals"
}

tier_debug-faults() { debug_vm debug-faults "faults owners smp leaks"; }

# `leaks` looks at what kmemleak has found, see there.
tier_debug-taps()
{
	debug_vm debug-taps "machines_ends machines_race leaks" \
		--tolerate 'kmemleak: [0-9]+ new suspected..kernel/debug/kmemleak'
}

tier_debug-more()
{
	debug_vm debug-more "members queues_law drain fuzz leaks" --env ROUNDS=30
}

tier_kunit() { debug_vm kunit "kunit"; }

tier_debug-long()
{
	local tests="kunit faults options interface ends sockets sends tap pool leaf"

	tests+=" devices paths tcp race smp members queues_law pacing stamps drain leaks"
	debug_vm debug-long "$tests" --timeout 4500
}

tier_fuzz-long()
{
	debug_vm fuzz-long "fuzz leaks" --env ITERATIONS=100000 --timeout 7200
}

tier_race-long()
{
	debug_vm race-long "race leaks" --env DURATION=600 --timeout 3000
}

# KCSAN's report names both places of a race. One that names the module is a
# complaint; the kernel's own are counted. tc_fill_qdisc: 6.12 reads the length
# of any qdisc in a dump without a lock and without READ_ONCE().
tier_kcsan()
{
	own_kernel kcsan &&
		in_vm kcsan "$described" "ends ends_classes@4 race members queues_law" --mode smp \
			--env DURATION=180 --env CLASSES_LEAST=60 --timeout 3600 \
			--tolerate 'BUG: KCSAN: .* / tc_fill_qdisc..=====' \
			--tolerate 'BUG: KCSAN:..=====..sch_bpshaper'
}

tier_kunit-uml()
{
	own_kernel uml || return
	build_sources "$described" && build_kunit ARCH=um || {
		not_ok "kunit-uml: the module builds"
		return
	}
	module=''
	guest_verdict kunit-uml "$described" kunit --mode uml --memory 512M
}
