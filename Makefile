# SPDX-License-Identifier: GPL-2.0-only
# One Makefile for three uses: kbuild reads the first part (in a kernel tree, or
# as an external module), people and packages the second.

ifneq ($(KERNELRELEASE),)

obj-$(CONFIG_NET_SCH_BPSHAPER) += sch_bpshaper.o

# Probes for what bpshaper_compat.h has to bridge.
ifneq ($(wildcard $(srctree)/include/net/gso.h),)
CFLAGS_sch_bpshaper.o += -DBPSHAPER_HAVE_NET_GSO_H
endif

else

# The running kernel's headers, or else the newest installed.
KDIR ?= $(firstword $(wildcard /lib/modules/$(shell uname -r)/build) \
	$(shell ls -1dv /lib/modules/*/build /usr/src/linux-headers-*-amd64 \
		2>/dev/null | tac))
KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR) CONFIG_NET_SCH_BPSHAPER=m

# What uname -r says there; Debian's kernel.release has another name.
RELEASE = $(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
	$(KDIR)/include/generated/utsrelease.h)

# Where the installed tc looks for plugins.
TC ?= $(firstword $(wildcard /sbin/tc /usr/sbin/tc /usr/bin/tc))
TC_LIBDIR ?= $(firstword $(shell strings -a $(TC) 2>/dev/null | \
	sed -n 's,^\(/.*lib.*/tc\)/\?$$,\1,p') /usr/lib/tc)

# iproute2's callbacks leave parameters unused; an undeclared helper means that
# its source is too old.
PLUGIN_CFLAGS ?= -O2 -g -Wall -Wextra
PLUGIN_FLAGS = -std=gnu11 -D_GNU_SOURCE -Wno-unused-parameter \
	-Werror=implicit-function-declaration -fPIC -shared

.PHONY: all module plugin install uninstall demo test test-debug clean help
all: module plugin

help:
	@echo 'make              sch_bpshaper.ko and q_bpshaper.so'
	@echo 'make module       the kernel module only; KDIR=DIR chooses the kernel'
	@echo '                  (now $(KDIR))'
	@echo 'make plugin       the tc plugin only; IPROUTE2_SRC=DIR chooses the sources'
	@echo 'make install      module to updates/, plugin to $(TC_LIBDIR); DESTDIR='
	@echo 'make uninstall    remove both'
	@echo 'make demo         bpshaper beside TBF on a stock kernel in a VM (4 minutes)'
	@echo 'make test         all tests; TESTS="names" chooses, "make test TESTS=" lists'
	@echo 'make test-debug   those on a kernel with KASAN, lockdep and kmemleak only'
	@echo 'make clean        remove what make made here; caches stay'

module:
	@test -n '$(KDIR)' || { echo 'make: no kernel headers found;' \
		'install linux-headers-amd64 or name them with KDIR=' >&2; exit 1; }
	$(KBUILD) modules

plugin: q_bpshaper.so

q_bpshaper.so: q_bpshaper.c sch_bpshaper.h
	src=$$(tools/iproute2-src) && \
	$(CC) $(PLUGIN_CFLAGS) $(PLUGIN_FLAGS) $(CPPFLAGS) -I"$$src/include" \
		-I"$$src/include/uapi" -I"$$src/tc" $(LDFLAGS) -o $@ $<

install: all
	$(KBUILD) INSTALL_MOD_DIR=updates \
		$(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) modules_install
	install -D -m 644 q_bpshaper.so $(DESTDIR)$(TC_LIBDIR)/q_bpshaper.so
	$(if $(DESTDIR),,depmod $(RELEASE))

uninstall:
	rm -f $(DESTDIR)/lib/modules/$(RELEASE)/updates/sch_bpshaper.ko*
	rm -f $(DESTDIR)$(TC_LIBDIR)/q_bpshaper.so
	$(if $(DESTDIR),,depmod $(RELEASE))

demo:
	@selftests/demo

test:
	@selftests/run $(TESTS)

test-debug:
	@selftests/run debug-long

clean:
	$(if $(KDIR),-$(KBUILD) clean)
	rm -f q_bpshaper.so
	$(MAKE) -C selftests/traffic clean

endif
