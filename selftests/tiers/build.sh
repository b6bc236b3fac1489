# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # of lib.sh
#
# The tier build. Sourced by selftests/run.
#
#   build	make, install and uninstall put what they say where they say, for the
#		module as for a built-in; make deb builds whatever Go is there, and pages that
#		its pages cite exist

# installed_is NAME [FILES]: the DESTDIR holds these files and no others
installed_is()
{
	is "$1" "${2-}" "$(cd "$copy/dest" && find . ! -type d ! -name 'modules.*' |
		LC_ALL=C sort | xargs)"
}

build_is_made()
{
	local name="make leaves module and plugin in the root"

	if make -C "$copy" KDIR="$KDIR" >"$copy/log" 2>&1 &&
	   [ -f "$copy/sch_bpshaper.ko" ] && [ -f "$copy/q_bpshaper.so" ]; then
		ok "$name"
	else
		not_ok "$name" "$(tail "$copy/log")"
		return 1
	fi
}

# build_install VARIABLE=VALUE...
build_install()
{
	make -C "$copy" KDIR="$KDIR" DESTDIR="$copy/dest" CNI_DIR=/opt/cni/bin "$@" >"$copy/log" 2>&1
}

# files_expected [exporter]: what make install puts, with what is written in Go
files_expected()
{
	local tcdir package exporter=${1-}

	mapfile -t package < <(cd "$top/tools/bpshaper_top" && LC_ALL=C ls -- *.py)
	tcdir=$(strings -a "$(command -v tc)" | sed -n 's,^\(/.*lib.*/tc\)/\?$,.\1,p')

	echo ./etc/bash_completion.d/tc-bpshaper \
		"./lib/modules/$RELEASE/updates/sch_bpshaper.ko" \
		${exporter:+./opt/cni/bin/bpshaper} "$tcdir/q_bpshaper.so" \
		${exporter:+./usr/local/lib/systemd/system/bpshaper-$exporter.service} \
		./usr/local/lib/systemd/system/bpshaper@.service \
		${exporter:+./usr/local/sbin/bpshaper-agent ./usr/local/sbin/bpshaper-$exporter} \
		./usr/local/sbin/bpshaper-{tap,top} \
		${exporter:+./usr/local/share/bpshaper-$exporter/alerts.yml \
			./usr/local/share/bpshaper-$exporter/dashboard.json} \
		./usr/local/share/bpshaper-top/bpshaper-{tap,top} \
		"${package[@]/#/./usr/local/share/bpshaper-top/bpshaper_top/}" \
		${exporter:+./usr/local/share/man/man8/bpshaper-agent.8 \
			./usr/local/share/man/man8/bpshaper-$exporter.8} \
		./usr/local/share/man/man8/{bpshaper-{tap,top},tc-bpshaper}.8
}

# Go is there, and has no modules.
build_installs()
{
	local go

	go=$("$vm/golang")
	GOPROXY=off GOMODCACHE=$copy/no-modules build_install GO="${go:-go}" install
	installed_is "make install needs no Go and puts all where it is looked for" "$(files_expected)"
	if [ "$go" ]; then
		build_install GO="$go" CNI=yes EXPORTER=yes AGENT=yes install
		installed_is "make install CNI=yes EXPORTER=yes AGENT=yes puts there what is written in Go" \
			"$(files_expected exporter)"
	else
		skip "make install CNI=yes EXPORTER=yes AGENT=yes" "no go that is new enough can be had"
	fi
	build_install uninstall
	installed_is "make uninstall removes all of it"
}

build_cleans()
{
	make -C "$copy" KDIR="$KDIR" clean >"$copy/log" 2>&1
	check_silent "make clean removes what make made" find "$copy" -name '*.o' -o \
		-name '*.ko' -o -name '*.so' -o -name .compat-probes -o \
		-path "$copy/tools/cni/bpshaper" -o -name bpshaper-exporter -type f -o \
		-name bpshaper-agent -type f
}

# build_needs OPTION: the first error on a kernel without it names it
build_needs()
{
	local name="a kernel without $1 is refused first of all"

	echo "#undef CONFIG_$1" >"$copy/without.h"
	make -C "$KDIR" M="$copy" KCFLAGS="-include $copy/without.h" \
		CONFIG_NET_SCH_BPSHAPER=m sch_bpshaper.o >"$copy/log" 2>&1
	if grep -m 1 'error:' "$copy/log" |
	   grep -q "bpshaper needs a kernel with CONFIG_$1"; then
		ok "$name"
	else
		not_ok "$name" "$(grep 'error:' "$copy/log")"
	fi
}

build_is_built_in()
{
	local name="it builds as a built-in, which knows tcp_wfree by its address"

	if make -C "$KDIR" M="$copy" CONFIG_NET_SCH_BPSHAPER=y sch_bpshaper.o \
		>"$copy/log" 2>&1 &&
	   nm "$copy/sch_bpshaper.o" | grep -q ' U tcp_wfree'; then
		ok "$name"
	else
		not_ok "$name" "$(tail "$copy/log")"
	fi
}

tier_build()
{
	local described KDIR RELEASE

	script 600 "$top/selftests/packages/deb"
	if ! described=$("$vm/kernel" 6.1); then
		skip "make" "no kernel 6.1 in apt or in the cache"
		return
	fi
	eval "$described"
	copy=$builds/copy
	rm -rf "$copy"
	sources_copy "$copy"
	build_is_made || return
	build_installs
	build_cleans
	build_needs NET_SCHED
	build_needs INET
	build_is_built_in
}
