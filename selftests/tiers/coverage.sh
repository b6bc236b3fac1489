# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # of lib.sh
#
# The tier coverage. Sourced by selftests/run.
#
#   coverage	a part of the tests with gcov: 90 % of the module's lines, the others are
#		named

# A line is covered if any test in any of the machines executed it. The second
# group of tests asserts rates and delays, which this slow kernel cannot keep:
# its results are printed as comments and do not count.
tier_coverage()
{
	local out=$builds/coverage share judged="kunit faults options ends sockets race smp"

	own_kernel debug || return
	build_suffix=-gcov
	build_module "$described" GCOV_PROFILE=y && build_kunit GCOV_PROFILE=y || {
		not_ok "coverage: the module builds"
		return
	}
	build_suffix=''
	rm -rf "$out"
	guest_verdict coverage "$described" "$judged gcov" --mode smp \
		--timeout 3000 "${out_of_memory[@]}" --out "$out/judged"
	# shellcheck disable=SC2086 # words
	guest --kernel "$described" --mode smp --timeout 2000 --out "$out/others" \
		-- "$top/selftests/guest/run" law pool leaf tcp gcov |
		sed 's/^\(not \)\?ok /# &/'
	"$top/selftests/coverage" "$build" "$out"/*/gcov >"$out/report"
	sed 's/^/# /' "$out/report"
	share=$(awk '$NF == "all" { print int($1) }' "$out/report")
	if [ "${share:-0}" -ge 90 ]; then
		ok "coverage: 90 % of the module's lines are executed: $share %"
	else
		not_ok "coverage: 90 % of the module's lines are executed: ${share:-0} %"
	fi
}
