# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # what the bundles set
#
# Programs of Go modules for a guest. Sourced after lib.sh by bundles that set $go and $bin,
# never run.

module=$(realpath "$vm_dir/../cluster")

# module_dir MODULE@VERSION: where its source is
module_dir()
{
	local dir

	dir=$(cd / && "$go" mod download -json "$1" | jq -r '.Dir // ""')
	[[ $dir ]] || die $EXIT_SKIP "the module $1 cannot be had"
	echo "$dir"
}

# go_build DIR NAME PACKAGE [LDFLAGS]: in the module in DIR
go_build()
{
	(cd "$1" && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false" \
		"$go" build -trimpath -ldflags "-s -w ${4-}" -o "$bin/$2" "$3") >&2 ||
		die $EXIT_SKIP "$2 cannot be built"
}

# kubernetes_build NAME...
kubernetes_build()
{
	local version name

	version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$module/go.mod")
	for name; do
		go_build "$module" "$name" "k8s.io/kubernetes/cmd/$name" \
			"-X k8s.io/component-base/version.gitVersion=$version"
	done
}
