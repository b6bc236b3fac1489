# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what the bundles set
#
# Files of Debian's packages for a guest: fetched and unpacked in the cache, not
# installed. Sourced after lib.sh by bundles that set ${packages[@]} and ${files[@]},
# never run. ${sources[@]} are files by which they are built.

libraries=usr/lib/x86_64-linux-gnu
sources=()

# packages_key: of the packages and of the scripts
packages_key()
{
	{
		apt-cache show --no-all-versions "${packages[@]}" | sed -n '/^SHA256: /p'
		cat "$0" "${BASH_SOURCE[0]}" "${sources[@]}"
	} | sha256sum | cut -c 1-16
}

# libraries_copy FROM TO: what the programs in TO need and FROM has
libraries_copy()
{
	local from=$1 to=$2 file lib

	while read -r -d '' file; do
		while read -r lib; do
			[[ -e $to/$libraries/${lib#"$from/$libraries/"} ]] ||
				install -D -m 644 "$lib" "$to/$libraries/${lib#"$from/$libraries/"}"
		done < <(LD_LIBRARY_PATH=$from/$libraries:$from/$libraries/systemd ldd "$file" 2>/dev/null |
			grep -oE "$from/[^ ]+")
	done < <(find "$to" -type f -perm /100 -print0)
}

# packages_build DIR: DIR/root has the files
packages_build()
{
	local dir=$1.tmp file

	tmp_dir_new "$1"
	mkdir "$dir"/{debs,all,root}
	packages_download "$dir/debs" "${packages[@]}" || die $EXIT_SKIP "apt has not all of: ${packages[*]}"
	for file in "$dir"/debs/*.deb; do
		dpkg-deb -x "$file" "$dir/all"
	done
	# Before /usr was merged.
	[[ ! -d $dir/all/lib ]] || cp -aT "$dir/all/lib" "$dir/all/usr/lib"
	for file in "${files[@]}"; do
		[[ -e $dir/all/$file ]] || die $EXIT_SKIP "Debian's packages have no $file"
		(cd "$dir/all" && cp -a --parents "$file" "$dir/root")
	done
	packages_finish "$dir/root"
	libraries_copy "$dir/all" "$dir/root"
	# A link in the guest.
	cp -a "$dir"/root/usr/sbin/* "$dir/root/usr/bin"
	rm -r "$dir/root/usr/sbin"
	rm -rf "$dir"/{debs,all} "$1"
	mv "$dir" "$1"
}

# packages_unpack NAME: sets $built. Calls packages_finish ROOT with the files.
packages_unpack()
{
	local base=$cache/$1

	lock_take "$base/lock"
	built=$base/$(packages_key)
	cached "$built" packages_build
}
