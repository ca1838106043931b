# SPDX-License-Identifier: GPL-2.0
#
# Installing on a distribution's kernel: header trees, the module, the package.

.PHONY: headers modules_uninstall deb headers-check

# The release that KDIR is for, which is not always the running kernel's.
KRELEASE = $(shell cat '$(KDIR)/include/config/kernel.release' 2>/dev/null || uname -r)

## headers: make Debian's headers of KDIR's kernel fit for Rust modules (as root)
headers:
	@tools/prepare-headers '$(KRELEASE)'

## modules_uninstall: take it out again; the kernel's own is found from then on
modules_uninstall:
	@rm -f '$(INSTALL_MOD_PATH)/lib/modules/$(KRELEASE)/updates'/rpcrdma.ko*
	@sh tools/headers/switch.sh '$(KRELEASE)' '$(INSTALL_MOD_PATH)'

# The package is built from what git tracks, in a directory of its own.
DEB_DIR ?= build/deb
#: DEB_DIR= where make deb builds; default: build/deb
## deb: build the Debian package rpcrdma-dkms into build/deb
deb:
	@sh tools/headers/deb.sh '$(DEB_DIR)'

## headers-check: test the preparation tool (FULL=1: also whole runs, with every fault)
headers-check:
	@cd tools/headers && PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		-q -p no:cacheprovider $(if $(filter-out 0,$(FULL)),tests,tests/test_parts.py)

.PHONY: check
check: headers-check
