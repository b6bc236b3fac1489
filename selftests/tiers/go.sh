# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of lib.sh
#
# What is written in Go. Sourced by selftests/run.
#
#   go		actionlint; tools in Go: gofmt, vet, staticcheck, tests with the race detector, short
#		fuzzing; static programs for amd64 and arm64, which run; promtool about
#		metrics, alerts and panels; licences of modules; a module outside that
#		imports the Go package; the Helm chart and kustomize
#   cni		the Go package, the CNI plugin and bpshaper-agent on stock 6.12 and, with fewer
#		tests, 6.1, with Debian's plugins and libcni
#   cni-long	the same on stock 6.1, 1000 commands that are killed, and the
#		tests of the plugin bandwidth with bpshaper in its place; all of exporter
#   kubelet	the CNI plugin on a node with kubelet and containerd, without an API, on stock 6.12
#		with two CPUs. The first build takes a quarter of an hour, so without
#		arguments it runs only if that is in the cache
#   cluster	the CNI plugin and bpshaper-agent on a node of a real cluster, on stock 6.12 with
#		two CPUs: kube-apiserver, kubelet, containerd. The first build takes half an hour
#   exporter	bpshaper-exporter on stock 6.12, against tc and read by Debian's Prometheus;
#		against tc on 6.1 as well

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.6.1
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.7

# go_find: sets $go
go_find()
{
	go=$("$vm/golang") && return
	skip "$1" "no go that is new enough can be had"
	return 1
}

# go_run ARGUMENTS...: in the module tools, with this very go
go_run() { (cd "$top/tools" && GOTOOLCHAIN=local GOFLAGS=-mod=readonly "$go" "$@"); }

# go_modules COMMAND ARGUMENTS...: of all packages, with the agent's, which is a module of its own
go_modules() { go_run "$@" ./... && go_run "$1" -C agent "${@:2}" ./...; }

# What is checked: the modules, and programs of the tests in Go.
go_each()
{
	go_modules "$@" && go_run "$@" "$top/selftests/guest/programs/bpgc.go" &&
		go_run "$@" "$top/selftests/guest/programs/bpapi.go"
}

# go_download: says what it downloads, and may be refused once
go_download()
{
	local try

	for try in 1 2 3; do
		[ $try = 1 ] || sleep 10
		go_run mod download 2>/dev/null && (cd "$top/tools/agent" && "$go" mod download) 2>/dev/null &&
			(cd "$top/selftests/manifests" && "$go" mod download) 2>/dev/null &&
			go_run run "$staticcheck" -version >/dev/null 2>&1 &&
			go_run run "$actionlint" -version >/dev/null 2>&1 && return
	done
}

go_staticcheck() { go_each run "$staticcheck" 2> >(grep -v '^go: downloading' >&2); }

# go_fuzz PACKAGE NAME: begins from what has been found before. To go it is no error if there is no
# such test.
go_fuzz()
{
	local out

	if out=$(go_run test -C "$1" -run '^$' -fuzz "^$2\$" -fuzztime 20000x 2>&1) &&
	   grep -q '^fuzz: elapsed' <<<"$out"; then
		ok "$2 of $1: 20,000 inputs"
	else
		not_ok "$2 of $1" "$out"
	fi
}

# go_tests: go that cannot build, or not even read go.mod, prints no line of a package
go_tests()
{
	local out status package

	out=$(go_modules test -race 2>&1)
	status=$?
	while read -r package; do
		if grep -qE "^ok[[:space:]]+${package}[[:space:]]" <<<"$out"; then
			ok "go test -race: $package"
		else
			not_ok "go test -race: $package" "$out"
		fi
	done < <(go_tested)
	is "go test -race ends well" 0 $status
}

# go_tested: the packages that have tests, by their files, as go may be what is broken
go_tested()
{
	local path

	path=$(sed -n 's/^module //p' "$top/tools/go.mod")
	(cd "$top/tools" && printf '%s\n' */*_test.go) | sed "s|^\([^/]*\)/.*|$path/\1|" | sort -u
}

tier_go()
{
	go_find "tools in Go" || return
	check_silent "gofmt has nothing to say" "${go%/*}/gofmt" -l \
		"$top"/tools/{agent,bpshaper,cni,exporter,owner} "$top"/selftests/{guest/programs,outside,manifests}
	go_download
	check_silent "go vet has nothing to say" go_each vet
	check_silent "staticcheck has nothing to say" go_staticcheck
	check_silent "actionlint has nothing to say" go_run run "$actionlint" \
		"$top"/.github/workflows/*.yml
	go_tests
	go_fuzz bpshaper FuzzParse
	go_fuzz bpshaper FuzzParseRate
	go_fuzz cni FuzzConfig
	go_fuzz agent FuzzAnnotations
	go_fuzz agent FuzzConfig
	go_fuzz owner FuzzAlias
	go_fuzz owner FuzzOf
	go_builds
	go_licences
	script 300 "$top/selftests/outside/run"
	go_promtool
	go_manifests
}

# go_manifests: the Helm chart and kustomize
go_manifests()
{
	check "go test: the manifests for Kubernetes" go_run test -C "$top/selftests/manifests" -count 1 .
}

# go_builds: static programs, with Debian's own machines as goals
go_builds()
{
	local arch out name

	for arch in arm64 amd64; do
		name="make cni exporter agent: static, for $arch"
		if out=$(make -s -C "$top" cni exporter agent GO="$go" GOARCH=$arch 2>&1) &&
		   ! readelf -lW "$top"/tools/{cni/bpshaper,exporter/bpshaper-exporter} \
			"$top/tools/agent/bpshaper-agent" | grep -q INTERP; then
			ok "$name"
		else
			not_ok "$name" "$out"
		fi
		[ $arch != arm64 ] || go_arm64
	done
}

# plugin_says COMMAND CONFIGURATION: what the plugin answers, by the emulator
plugin_says()
{
	CNI_COMMAND=$1 CNI_CONTAINERID=a CNI_NETNS=/proc/self/ns/net CNI_IFNAME=eth0 \
		CNI_PATH=/nowhere "$qemu" "$top/tools/cni/bpshaper" <<<"$2" 2>&1
}

# go_arm64: what has been built for arm64 runs, as far as it needs no kernel with the module
go_arm64()
{
	local qemu limits='"ingressRate": 1000000' out

	qemu=$("$vm/program" qemu-user-static qemu-aarch64-static)/qemu-aarch64-static || {
		skip "programs for arm64 run" "no qemu-user-static can be had"
		return
	}
	out=$(plugin_says VERSION '{ "cniVersion": "1.0.0" }')
	check "on arm64 the plugin says its versions" grep -q '"1[.]1[.]0"\]' <<<"$out"
	out=$(plugin_says ADD "{ \"cniVersion\": \"1.0.0\", \"name\": \"n\", \"type\": \"bpshaper\", $limits }")
	check "and refuses a rate without a burst" grep -q 'ingressBurst must also be set' <<<"$out"
	out=$("$qemu" "$top/tools/agent/bpshaper-agent" --node n --config x 2>&1)
	is "and bpshaper-agent refuses a name without namespace" \
		'bpshaper-agent: --config is NAMESPACE/NAME, not "x"' "$out"
	out=$("$qemu" "$top/tools/exporter/bpshaper-exporter" --version 2>&1)
	is "and bpshaper-exporter says its version" \
		"bpshaper-exporter $(sed -n '1s/.*(\(.*\)).*/\1/p' "$top/debian/changelog")" "$out"
}

# go_bundle KIND NAME WHAT: sets $bundle to that of vm/KIND-bundle, which needs WHAT
go_bundle()
{
	bundle=$("$vm/$1-bundle" "$builds/$2") && return
	skip "$2" "no Go, or no $3, can be had"
	return 1
}

# go_licences: of what make vendor puts into the source package
go_licences()
{
	rm -rf "$builds/vendor"
	check "the modules can be put into a source package" \
		go_run mod vendor -o "$builds/vendor"
	check_silent "debian/copyright has the licence of each module" \
		"$top/selftests/packages/modules" "$builds/vendor"
}

# go_promtool: what Prometheus says about a kernel's metrics, and about the alerts
go_promtool()
{
	local dir text=$builds/metrics exporter=$top/tools/exporter

	dir=$("$vm/program" prometheus prometheus promtool) || {
		skip "promtool" "no package prometheus can be had"
		return
	}
	rm -f "$text" "$text.yml"
	BPSHAPER_EXPOSE=$text go_run test ./exporter -count 1 -run TestExpose >/dev/null
	check_silent "promtool check metrics has nothing to say" promtool_check "$dir" "$text"
	make -s -C "$top" tools/exporter/alerts.yml
	check "promtool check rules takes the alerts" \
		"$dir/promtool" check rules "$exporter/alerts.yml"
	check "promtool test rules: each alert comes when it should" bash -c \
		"cd '$exporter/testdata' && '$dir/promtool' test rules alerts_test.yml"
	check_num "there are panels" "$(grep -c expr: "$text.yml")" '>' 1
	check "promtool test rules: each panel has a value" "$dir/promtool" test rules "$text.yml"
}

# promtool_check DIR METRICS: also if there are none
promtool_check()
{
	grep -q '^bpshaper_qdisc_bytes_total' "$2" || echo "no metrics"
	"$1/promtool" check metrics <"$2" || echo "exit $?"
}

tier_exporter()
{
	local bundle

	go_bundle exporter exporter prometheus || return
	# shellcheck disable=SC2086 # words
	in_vm exporter 6.12 exporter --mode icount --timeout 1200 $bundle
	# shellcheck disable=SC2086 # words
	in_vm exporter-6.1 6.1 exporter --mode icount --timeout 900 --env SHORT=1 $bundle
}

tier_cni()
{
	local bundle

	go_bundle cni cni containernetworking-plugins || return
	# shellcheck disable=SC2086 # words
	in_vm "cni, 6.12" 6.12 "go cni cni_reports cni_ends cni_node agent" --mode icount \
		--timeout 2400 $bundle
	# shellcheck disable=SC2086 # words
	in_vm "cni, 6.1" 6.1 "go cni_ends cni_node agent" --mode icount --timeout 1800 \
		--env SHORT=1 $bundle
	# shellcheck disable=SC2086 # words
	in_vm "cni, queues" 6.12 cni_node@4 --mode icount --timeout 900 $bundle
	# shellcheck disable=SC2086 # words
	in_vm "cni, smp" 6.12 cni_node --mode smp --cpus 4 --timeout 900 $bundle
}

tier_cni-long()
{
	local bundle suite

	go_bundle cni cni-long containernetworking-plugins || return
	suite=$("$top/selftests/bandwidth/suite" "$builds/bandwidth") ||
		skip bandwidth "the tests of the plugin bandwidth cannot be had"
	# shellcheck disable=SC2086 # words
	in_vm cni-long 6.1 "go cni cni_reports cni_ends cni_node agent ${suite:+bandwidth}" \
		--mode icount --timeout 3600 --env CYCLES=1000 $bundle $suite
	go_bundle exporter exporter-long prometheus || return
	# shellcheck disable=SC2086 # words
	in_vm exporter-long 6.1 exporter --mode icount --timeout 1200 $bundle
}

tier_kubelet()
{
	local bundle

	# shellcheck disable=SC2154 # of run
	[ "$asked" ] || "$vm/kubelet-bundle" --cached || {
		skip kubelet "its programs are not in the cache: make test TESTS=kubelet builds them"
		return
	}
	go_bundle kubelet kubelet "runc of Debian" || return
	# shellcheck disable=SC2086 # words
	in_vm kubelet 6.12 kubelet --mode smp --memory 4G --timeout 1800 $bundle
}

tier_cluster()
{
	local bundle

	go_bundle cluster cluster "runc of Debian" || return
	# shellcheck disable=SC2086 # words
	in_vm cluster 6.12 cluster --mode smp --memory 6G --stall 900 --timeout 10800 $bundle
}
