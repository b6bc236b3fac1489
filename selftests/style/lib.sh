# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of ../lib.sh
#
# What the checks of style share: the files of the tree, and what kind each is.
# Sourced by scripts that have sourced ../lib.sh.

# tree_files: what git knows or would add; in an unpacked archive, all files
tree_files()
{
	if [ -e "$top/.git" ]; then
		git -C "$top" ls-files --cached --others --exclude-standard
	else
		(cd "$top" && find . -type f -printf '%P\n')
	fi | while read -r file; do
		[ ! -f "$top/$file" ] || [ -L "$top/$file" ] || echo "$file"
	done | sort
}

# file_kind FILE: c, python, go, shell or other, by its name or its first two lines
file_kind()
{
	case $1 in
	*.[ch]) echo c ;;
	*.py) echo python ;;
	*.go) echo go ;;
	*.sh) echo shell ;;
	*)
		case $(head -n 2 "$1" | tr -d '\0') in
		'#!'*python3*) echo python ;;
		'#!/bin/'*sh* | '#!/usr/bin/env bash'* | *'shellcheck shell'*)
			echo shell
			;;
		*) echo other ;;
		esac
		;;
	esac
}

# files_of KIND: the files of the tree that are of that kind
files_of()
{
	local file

	tree_files | while read -r file; do
		[ "$(cd "$top" && file_kind "$file")" != "$1" ] || echo "$file"
	done
}
