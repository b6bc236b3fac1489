# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # shared with run
#
# The second archive that a guest boots from: the script, its files and modules.
# Sourced by run.

is_elf()
{
	[[ $(head -c 4 "$1" | tr -d '\0') == $'\177ELF' ]]
}

# file_bring PATH GUESTPATH: copy it, and the libraries that its binaries need.
file_bring()
{
	local file

	[[ -e $1 ]] || die 2 "there is no $1"
	mkdir -p "$(dirname "$overlay/$2")"
	cp -rLT --preserve=mode "$1" "$overlay/$2"
	while read -r -d '' file; do
		! is_elf "$file" || elf_libs_copy "$overlay" "$file"
	done < <(find -L "$1" -type f -print0)
}

# modprobe needs the indexes of depmod, and depmod needs all modules to make
# them.
modules_bring()
{
	local tree=usr/lib/modules/$RELEASE module

	((${#modules[@]})) || return 0
	mkdir -p "$work/depmod/$tree" "$overlay/$tree"
	ln -s usr/lib "$work/depmod/lib"
	# shellcheck disable=SC2153 # ROOT is set by guest_prepare
	[[ ! -d $ROOT/$tree ]] || cp -r "$ROOT/$tree" "$work/depmod/$tree/.."
	for module in "${modules[@]}"; do
		file_bring "$module" "$tree/updates/${module##*/}"
	done
	cp -r "$overlay/$tree/updates" "$work/depmod/$tree"
	depmod -C /dev/null -b "$work/depmod" "$RELEASE"
	cp "$work/depmod/$tree"/modules.* "$overlay/$tree"
	rm -rf "$work/depmod"
}

# Write the files that the guest's init reads: how to run the script, its
# environment, and the token to print in the end.
settings_write()
{
	local dir=$overlay/etc/vm item

	mkdir -p "$dir"
	{
		printf 'script=%q shell=%q args=(' "${args[0]+${args[0]##*/}}" "$shell"
		((${#args[@]} < 2)) || printf '%q ' "${args[@]:1}"
		echo ')'
	} >"$dir/run"
	for item in "${environment[@]}"; do
		printf '%s=%q\n' "${item%%=*}" "${item#*=}"
	done >"$dir/env"
	echo "$nonce" >"$dir/nonce"
}

# Where this tc looks for plugins. If one of the two is a link, it must stay
# one.
plugin_dir()
{
	if [[ -L $ROOT/usr/lib/tc ]]; then
		echo usr/lib/x86_64-linux-gnu/tc
	else
		echo usr/lib/tc
	fi
}

# Build the second archive, which holds all that differs from run to run.
overlay_build()
{
	local item guest

	root_skeleton "$overlay"
	file_bring "$vm_dir/init" init
	settings_write
	[[ ! ${args[0]-} ]] ||
		file_bring "${args[0]}" "opt/bpshaper/${args[0]##*/}"
	for item in "${files[@]}"; do
		guest=/opt/bpshaper/$(basename "${item%%:*}")
		[[ $item != *:* ]] || guest=${item#*:}
		file_bring "${item%%:*}" "$guest"
	done
	for item in "${plugins[@]}"; do
		file_bring "$item" "$(plugin_dir)/${item##*/}"
	done
	modules_bring
	cat "$INITRD" <(cpio_pack "$overlay") >"$work/initrd"
	rm -rf "$overlay"
}
