# SPDX-License-Identifier: GPL-2.0-only
# kbuild reads the first part, in a kernel tree or for an external module. The
# second part is for people and packages.

ifneq ($(KERNELRELEASE),)

obj-$(CONFIG_NET_SCH_BPSHAPER) += sch_bpshaper.o

# The directory of this file, which the KUnit module includes from elsewhere.
bpshaper-src := $(dir $(lastword $(MAKEFILE_LIST)))

# compat-probes finds out by compiling which interfaces bpshaper/compat.h must
# supply. In a kernel tree that has the module, the script is not there and not
# needed.
ifneq ($(wildcard $(bpshaper-src)tools/compat-probes),)
ccflags-y += $(shell $(CONFIG_SHELL) $(bpshaper-src)tools/compat-probes \
	$(obj)/.compat-probes $(CC) $(LINUXINCLUDE) $(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) \
	$(KBUILD_CFLAGS_MODULE))
clean-files := .compat-probes
endif

# define_trace.h includes bpshaper/trace.h by name.
CFLAGS_sch_bpshaper.o += -I$(bpshaper-src)

# A debug kernel checks the laws.
CFLAGS_sch_bpshaper.o += $(if $(CONFIG_DEBUG_NET),$(patsubst %,-DBPSHAPER_LAWS,$(wildcard \
	$(bpshaper-src)selftests/kunit/laws.h)))

else

# The running kernel's headers, or else the newest installed.
KDIR ?= $(firstword $(wildcard /lib/modules/$(shell uname -r)/build) \
	$(shell ls -1dv /lib/modules/*/build /usr/src/linux-headers-*-amd64 \
		2>/dev/null | tac))
KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR) CONFIG_NET_SCH_BPSHAPER=m

# What uname -r prints on that kernel. Debian's kernel.release has another name.
RELEASE = $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
	$(KDIR)/include/generated/utsrelease.h)

# The directory in which the installed tc looks for plugins.
TC ?= $(firstword $(wildcard /sbin/tc /usr/sbin/tc /usr/bin/tc))
TC_LIBDIR ?= $(firstword $(shell strings -a $(TC) 2>/dev/null | \
	sed -n 's,^\(/.*lib.*/tc\)/\?$$,\1,p') /usr/lib/tc)

# The completion extends that of tc. bash must read it at its start.
PREFIX ?= /usr/local
SBIN_DIR ?= $(PREFIX)/sbin
COMPLETION_DIR ?= /etc/bash_completion.d
UNIT_DIR ?= $(PREFIX)/lib/systemd/system
AGENT_PAGE = Documentation/bpshaper-agent.8
EXPORTER_PAGE = Documentation/bpshaper-exporter.8
MAN_PAGES = $(filter-out $(AGENT_PAGE) $(EXPORTER_PAGE),$(wildcard Documentation/*.8))

# The version of the module and of all packages.
VERSION = $(shell sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)

# Lazy binding, whatever LDFLAGS say: the plugin itself checks which functions
# tc has. tools/iproute2 declares what tc exports to plugins. IPROUTE2_SRC=DIR
# uses the headers of iproute2 instead. The callbacks of tc have parameters that
# the plugin does not use.
IPROUTE2_SRC ?=
IPROUTE2_DIRS = $(if $(IPROUTE2_SRC),$(addprefix $(IPROUTE2_SRC)/,include \
	include/uapi tc),tools/iproute2)
PLUGIN_CFLAGS ?= -O2 -g -Wall -Wextra
PLUGIN_FLAGS = -std=gnu11 -D_GNU_SOURCE -Wno-unused-parameter \
	-Werror=implicit-function-declaration -fPIC -shared \
	$(addprefix -I,$(IPROUTE2_DIRS))

# Programs in Go are static, so that one file runs on any node. GOARCH=arm64
# builds for another machine. Modules are fetched, and checked by tools/go.sum.
# make vendor puts their sources into tools/vendor, for a build without network.
# Its modules.txt says whether they are those of go.mod.
GO ?= go
GO_MOD ?= $(if $(wildcard tools/vendor/modules.txt),vendor,readonly)
GO_LDFLAGS = -s -w -X main.release=$(VERSION)
GO_FLAGS = -trimpath -buildvcs=false -ldflags "$(GO_LDFLAGS)"
GO_BUILD = cd tools && CGO_ENABLED=0 GOFLAGS=-mod=$(GO_MOD) $(GO) build $(GO_FLAGS)

# CNI=yes, EXPORTER=yes and AGENT=yes ask for what is written in Go. Runtimes look for
# plugins in CNI_DIR.
CNI ?= no
CNI_DIR ?= $(firstword $(wildcard /opt/cni/bin /usr/lib/cni) /opt/cni/bin)
EXPORTER ?= no
AGENT ?= no

.PHONY: all module plugin cni tools/cni/bpshaper exporter \
	tools/exporter/bpshaper-exporter agent tools/agent/bpshaper-agent vendor install install-tools \
	install-cni install-exporter install-agent install-dkms-source uninstall dkms uninstall-dkms \
	deb deb-source dist \
	demo test test-debug test-deep matrix bench clean help
all: module plugin

help:
	@echo 'make              sch_bpshaper.ko and q_bpshaper.so'
	@echo 'make module       the kernel module only; KDIR=DIR chooses the kernel'
	@echo '                  (now $(KDIR))'
	@echo 'make plugin       the tc plugin only; IPROUTE2_SRC=DIR uses its headers'
	@echo 'make cni          the CNI plugin, tools/cni/bpshaper; GOARCH= (Go 1.23)'
	@echo 'make exporter     tools/exporter/bpshaper-exporter, for Prometheus (Go 1.23)'
	@echo 'make agent        tools/agent/bpshaper-agent, for Kubernetes (Go 1.23)'
	@echo 'make install      module to updates/, plugin to $(TC_LIBDIR),'
	@echo '                  bpshaper-tap, bpshaper-top, man pages, unit to'
	@echo '                  PREFIX=$(PREFIX), SBIN_DIR=$(SBIN_DIR),'
	@echo '                  completion to $(COMPLETION_DIR); DESTDIR=;'
	@echo '                  CNI=yes: also the CNI plugin, to $(CNI_DIR);'
	@echo '                  EXPORTER=yes: also bpshaper-exporter with its unit;'
	@echo '                  AGENT=yes: also bpshaper-agent'
	@echo 'make uninstall    removes what make install put there'
	@echo 'make dkms         dkms builds the module, also for kernels installed later;'
	@echo '                  make uninstall-dkms removes it'
	@echo "make deb          Debian packages bpshaper-dkms and bpshaper-tc; with Debian's Go"
	@echo '                  1.23 also bpshaper-cni and bpshaper-exporter, and CNI=yes or'
	@echo '                  EXPORTER=yes: not without these; in ..'
	@echo 'make deb-source   the Debian source package, with the sources of Go modules'
	@echo 'make vendor       the sources of Go modules to tools/vendor, for builds without'
	@echo '                  network'
	@echo 'make dist         bpshaper-VERSION.tar.xz, and the results of the benchmark in'
	@echo '                  bpshaper-VERSION-performance.tar.xz'
	@echo 'make demo         bpshaper beside TBF on a stock kernel in a VM (5 minutes)'
	@echo 'make test         all tests; TESTS="names" chooses, TESTS=list lists'
	@echo 'make test-debug   more on a kernel with KASAN, lockdep and kmemleak, and UML'
	@echo 'make test-deep    the same, long races and fuzzing, KCSAN, gcov: some hours'
	@echo 'make matrix       builds, packages and tests in each Debian suite, on its'
	@echo '                  kernels, and in kernel trees; SUITES="names" and'
	@echo '                  TESTS="names" (guest tests) choose'
	@echo 'make bench        beside every rival, into Documentation/performance, in'
	@echo '                  3 hours; PARTS="names" and KERNELS="versions" choose'
	@echo 'make clean        removes what make built here; caches stay'

module:
	@test -n '$(KDIR)' || { echo 'make: no kernel headers found;' \
		'install linux-headers-amd64 or name them with KDIR=' >&2; exit 1; }
	$(KBUILD) modules

plugin: q_bpshaper.so

q_bpshaper.so: q_bpshaper.c sch_bpshaper.h $(wildcard tools/iproute2/*.h)
	$(CC) $(PLUGIN_CFLAGS) $(PLUGIN_FLAGS) $(CPPFLAGS) $(LDFLAGS) \
		-Wl,-z,lazy -o $@ $< -ldl

# go knows what has changed.
cni: tools/cni/bpshaper
tools/cni/bpshaper:
	$(GO_BUILD) -o cni/bpshaper ./cni

install-cni: cni
	install -D -m 755 -t $(DESTDIR)$(CNI_DIR) tools/cni/bpshaper

exporter: tools/exporter/bpshaper-exporter
tools/exporter/bpshaper-exporter:
	$(GO_BUILD) -o exporter/bpshaper-exporter ./exporter

# Prometheus takes what is in spec.
tools/exporter/alerts.yml: tools/kubernetes/monitoring/alerts.yaml
	sed -n '1p; /^spec:/,$$ s/^  //p' $< >$@

# The unit has the path of the package.
install-exporter: exporter tools/exporter/alerts.yml
	install -D -m 755 -t $(DESTDIR)$(SBIN_DIR) tools/exporter/bpshaper-exporter
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bpshaper-exporter \
		tools/exporter/alerts.yml tools/kubernetes/monitoring/dashboard.json
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 $(EXPORTER_PAGE)
	$(if $(UNIT_DIR),install -D -m 644 -t $(DESTDIR)$(UNIT_DIR) \
		tools/systemd/bpshaper-exporter.service)
	$(if $(UNIT_DIR),sed -i 's|/usr/sbin/|$(SBIN_DIR)/|' \
		$(DESTDIR)$(UNIT_DIR)/bpshaper-exporter.service)

# It runs in a pod. make vendor leaves out its modules, which are more than all others, so no
# package has it.
agent: tools/agent/bpshaper-agent
tools/agent/bpshaper-agent:
	cd tools/agent && CGO_ENABLED=0 $(GO) build $(GO_FLAGS) -o bpshaper-agent .

install-agent: agent
	install -D -m 755 -t $(DESTDIR)$(SBIN_DIR) tools/agent/bpshaper-agent
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 $(AGENT_PAGE)

vendor:
	cd tools && GOFLAGS=-mod=mod $(GO) mod vendor

install: all install-tools $(if $(filter yes,$(CNI)),install-cni) \
		$(if $(filter yes,$(EXPORTER)),install-exporter) $(if $(filter yes,$(AGENT)),install-agent)
	$(KBUILD) INSTALL_MOD_DIR=updates \
		$(if $(DESTDIR),INSTALL_MOD_PATH=$(abspath $(DESTDIR))) modules_install
	$(if $(DESTDIR),,depmod $(RELEASE))

install-tools: plugin
	install -D -m 644 q_bpshaper.so $(DESTDIR)$(TC_LIBDIR)/q_bpshaper.so
	install -d $(DESTDIR)$(SBIN_DIR)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/share/bpshaper-top \
		tools/bpshaper-tap tools/bpshaper-top
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bpshaper-top/bpshaper_top \
		tools/bpshaper_top/*.py
	ln -sfr $(addprefix $(DESTDIR)$(PREFIX)/share/bpshaper-top/,bpshaper-tap \
		bpshaper-top) $(DESTDIR)$(SBIN_DIR)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 \
		$(MAN_PAGES)
	install -D -m 644 tools/bash-completion/tc-bpshaper \
		$(DESTDIR)$(COMPLETION_DIR)/tc-bpshaper
	$(if $(UNIT_DIR),install -D -m 644 -t $(DESTDIR)$(UNIT_DIR) \
		tools/systemd/bpshaper@.service)
	install -d $(DESTDIR)/etc/bpshaper

uninstall:
	rm -f $(DESTDIR)/lib/modules/$(RELEASE)/updates/sch_bpshaper.ko*
	rm -f $(DESTDIR)$(TC_LIBDIR)/q_bpshaper.so
	rm -f $(addprefix $(DESTDIR)$(SBIN_DIR)/,bpshaper-tap bpshaper-top)
	rm -rf $(DESTDIR)$(PREFIX)/share/bpshaper-top
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/man/man8/, \
		$(notdir $(MAN_PAGES) $(AGENT_PAGE) $(EXPORTER_PAGE)))
	rm -f $(DESTDIR)$(COMPLETION_DIR)/tc-bpshaper
	rm -f $(DESTDIR)$(UNIT_DIR)/bpshaper@.service
	rm -f $(DESTDIR)$(CNI_DIR)/bpshaper
	rm -f $(addprefix $(DESTDIR)$(SBIN_DIR)/,bpshaper-agent bpshaper-exporter)
	rm -rf $(DESTDIR)$(PREFIX)/share/bpshaper-exporter
	rm -f $(DESTDIR)$(UNIT_DIR)/bpshaper-exporter.service
	-rmdir $(DESTDIR)/etc/bpshaper
	$(if $(DESTDIR),,depmod $(RELEASE))

# dkms builds the module for every kernel that is installed later.
DKMS_SRC = /usr/src/bpshaper-$(or $(VERSION),$(error debian/changelog is missing))

install-dkms-source:
	install -D -m 644 -t $(DESTDIR)$(DKMS_SRC) Makefile sch_bpshaper.[ch]
	install -D -m 644 -t $(DESTDIR)$(DKMS_SRC)/bpshaper bpshaper/*.h
	install -D -m 755 -t $(DESTDIR)$(DKMS_SRC)/tools tools/compat-probes
	sed 's/#MODULE_VERSION#/$(VERSION)/' dkms.conf \
		>$(DESTDIR)$(DKMS_SRC)/dkms.conf

dkms: uninstall-dkms
	$(MAKE) install-dkms-source DESTDIR=
	dkms add -m bpshaper -v $(VERSION)
	dkms install -m bpshaper -v $(VERSION) $(if $(RELEASE),-k $(RELEASE))

uninstall-dkms:
	-dkms remove -m bpshaper -v $(VERSION) --all
	rm -rf $(DKMS_SRC)

# Packages of what is written in Go need Debian's go and the sources of modules. They
# are left out where these cannot be had, unless they are asked for.
deb:
	@if dpkg-checkbuilddeps && debian/rules vendor; then \
		profiles=; \
	else \
		$(if $(filter yes,$(CNI) $(EXPORTER)),exit 1;) \
		profiles=-Ppkg.bpshaper.nogo; \
		echo 'make deb: without bpshaper-cni and bpshaper-exporter, as said above'; \
	fi; \
	dpkg-buildpackage -b -us -uc $$profiles

# The source package has the sources of Go modules, so that it builds without network.
deb-source: vendor
	dpkg-buildpackage -S -I --no-pre-clean -d -us -uc

dist:
	@tools/dist

demo:
	@selftests/demo

test:
	@selftests/run $(TESTS)

test-debug:
	@selftests/run debug-ends debug-faults debug-more kunit-uml

test-deep:
	@selftests/run deep

matrix:
	@DEADLINE=$(DEADLINE) TESTS="$(TESTS)" selftests/matrix/run $(SUITES)

bench:
	@KERNELS="$(KERNELS)" selftests/bench/run $(PARTS)

clean:
	$(if $(KDIR),-$(KBUILD) clean)
	rm -f q_bpshaper.so tools/cni/bpshaper tools/exporter/bpshaper-exporter \
		tools/exporter/alerts.yml tools/agent/bpshaper-agent
	rm -rf tools/vendor
	$(if $(wildcard selftests/traffic),$(MAKE) -C selftests/traffic clean)

endif
