# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # by common.sh
#
# BPF programs, compiled before the machine has booted (programs/Makefile). What they need to know
# of it is put in here. Sourced after common.sh, never run.

# bpf_is_here NAME TEST: the program NAME; or TEST is skipped
bpf_is_here()
{
	[ ! -e "$here/$1.bpf.o" ] || return 0
	skip "$2" "no compiler for BPF, or no libbpf-dev, where the programs were built"
	return 1
}

# le32 NUMBER: as sed has it
le32()
{
	printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) \
		$(($1 >> 16 & 255)) $(($1 >> 24 & 255))
}

# bpf_number NAME NUMBER TO: a copy with NUMBER instead of 0x1122334455667788, or of 0x55667788
bpf_number()
{
	LC_ALL=C sed "s/$(le32 0x55667788)/$(le32 "$2")/g; s/$(le32 0x11223344)/$(le32 $(($2 >> 32)))/g" \
		"$here/$1.bpf.o" >"$3"
}
