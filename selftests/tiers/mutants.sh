# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of lib.sh
#
# Tiers that break the code to see a test fail. Sourced by selftests/run.
#
#   mutants	the code with a line broken, by selftests/mutants: the unit
#		test and the test of the plugin fail with each of theirs
#   mutants-long	the same for all mutants, also those for KUnit and guest tests

tier_mutants() { script 1800 "$top/selftests/mutants/run" --quick; }

tier_mutants-long() { "$top/selftests/mutants/run"; }
