# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # others set them
#
# Part of test_plugin.sh: tc loads the plugin, and what help says.

test_symbols()
{
	local missing

	missing=$(comm -23 \
		<(nm -D --undefined-only "$PLUGIN" |
		  awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort) \
		<(nm -D --defined-only "$(command -v tc)" |
		  awk '{ print $3 }' | sort))
	is "tc exports every symbol that the plugin needs" "" "$missing"
}

# The plugin asks for a helper that no tc has.
test_mismatch()
{
	mkdir "$work/other"
	sed 's/\bprint_nl\b/print_nx/g' "$PLUGIN" >"$work/other/q_bpshaper.so"
	is "a tc that lacks a helper is refused in one line" \
		'bpshaper: this tc has no print_nx(): the plugin is for another release of iproute2' \
		"$(PLUGIN=$work/other/q_bpshaper.so tc_verdict "rate 1mbit")"
	is "every helper is looked for" "" "$(comm -23 \
		<(nm -D --undefined-only "$PLUGIN" |
		  awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort) \
		<({ readelf -p .rodata "$PLUGIN"; echo show_details; } |
		  awk '{ print $NF }' | sort -u))"
}

# Both declarations in one program: different ones do not compile.
test_declarations()
{
	is "tools/iproute2 declares what iproute2 does" "" \
		"$(gcc -std=gnu11 -D_GNU_SOURCE -Wall -fsyntax-only \
			-I"$IPROUTE2_SRC/include" -I"$IPROUTE2_SRC/include/uapi" \
			-I"$IPROUTE2_SRC/tc" "$here/declarations.c" 2>&1)"
}

# help_is USAGE: its first line. selftests/words compares the rest with the uAPI.
help_is()
{
	local out

	out=$(tc_verdict help)
	is "help shows the usage" "Usage: ... bpshaper $1" "${out%%$'\n'*}"
	is "help is also there after other words" "$out" \
		"$(tc_verdict "rate 1mbit help")"
}

test_loading()
{
	test_symbols
	test_mismatch
	test_declarations
	help_is "[ rate RATE ] [ burst SIZE[/CELL] ]"
}
