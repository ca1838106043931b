# SPDX-License-Identifier: GPL-2.0
#
# Targets for a distribution's kernel: header trees, the module, the package.

.PHONY: headers modules_uninstall deb headers-check

# The release that KDIR is for, which is not always the running kernel's.
KRELEASE = $(shell cat '$(KDIR)/include/config/kernel.release' 2>/dev/null || uname -r)

## headers: prepare Debian's headers of KDIR's kernel for Rust modules (as root)
headers:
	@tools/prepare-headers '$(KRELEASE)'

## modules_uninstall: remove the module; modprobe then finds the kernel's own
modules_uninstall:
	@rm -f '$(INSTALL_MOD_PATH)/lib/modules/$(KRELEASE)/updates'/rpcrdma.ko*
	@sh tools/headers/switch.sh '$(KRELEASE)' '$(INSTALL_MOD_PATH)'

# deb.sh builds the package in a separate directory, from the files that git tracks.
DEB_DIR ?= build/deb
#: DEB_DIR= where make deb builds; default: build/deb
## deb: build the Debian packages rpcrdma-dkms and rpcrdma-tools into build/deb
deb:
	@sh tools/headers/deb.sh '$(DEB_DIR)'

## headers-check: test the preparation tool (FULL=1: also complete runs, with every fault)
headers-check:
	@cd tools/headers && PYTHONPATH=.:../lab LAB_SUITE='tests of prepare-headers' \
		PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		-q -p no:cacheprovider -p lab.report $(if $(filter-out 0,$(FULL)),tests,tests/test_parts.py)

.PHONY: check-fast
check-fast: headers-check
