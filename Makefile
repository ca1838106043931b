# SPDX-License-Identifier: GPL-2.0
#
# The front door. `make help` says what there is; the build itself is in Kbuild,
# the lab in tools/lab, the host tests in tools/host.

# Build tree of the kernel to build for (one with CONFIG_RUST=y).
KDIR ?= /lib/modules/$(shell uname -r)/build
# First of each that fits; see tools/toolchain.sh.
export RUSTC   := $(shell KDIR='$(KDIR)' sh tools/toolchain.sh rustc '$(RUSTC)')
export BINDGEN := $(shell KDIR='$(KDIR)' sh tools/toolchain.sh bindgen '$(BINDGEN)')
JOBS ?= $(shell nproc)

KBUILD = $(MAKE) -C '$(KDIR)' M='$(CURDIR)' -j$(JOBS) \
	$(if $(LLVM),LLVM=$(LLVM)) RUSTC='$(RUSTC)' BINDGEN='$(BINDGEN)' \
	$(if $(SAMPLES),SAMPLES=$(SAMPLES)) $(if $(RPCRDMA_KUNIT),RPCRDMA_KUNIT=$(RPCRDMA_KUNIT))

.DEFAULT_GOAL := modules
.PHONY: modules modules_install check clean help preflight

## modules: build rpcrdma.ko against KDIR (default: the running kernel's build tree)
modules: preflight
	+@$(KBUILD) modules

preflight:
	@KDIR='$(KDIR)' LLVM='$(LLVM)' sh tools/preflight.sh

## modules_install: install it under updates/, where modprobe and mount find it first
# No signing here: the key that signed the kernel's own modules is not on this machine.
modules_install: modules
	+@$(KBUILD) INSTALL_MOD_DIR=updates INSTALL_MOD_STRIP=1 CONFIG_MODULE_SIG_ALL= modules_install
	@sh tools/headers/switch.sh '$(KRELEASE)' '$(INSTALL_MOD_PATH)'

# What is needed first; each tool's targets.mk adds its own, in the order of the includes below.
## check: all that decides whether a change is good; FULL=1 for the long form
check: lab-deps

## clean: remove what the module build left in this tree
clean:
	+@[ ! -e '$(KDIR)/Makefile' ] || $(KBUILD) clean
	@rm -f rpcrdma_version.c rust/raw/closure.rs rust/raw/shared_types rust/raw/bindings_generated.rs

## help: this text
help:
	@echo 'Targets:'
	@sed -n 's/^## \([^ ]*\): \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo 'Variables:'
	@sed -n 's/^#: \([^ ]*\) \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

#: KDIR= kernel build tree with CONFIG_RUST=y; default: of the running kernel
#: LLVM= as for the kernel: 1, or a suffix such as -19, to build with clang
#: RUSTC= Rust compiler, in place of the one that tools/toolchain.sh finds
#: BINDGEN= the same for bindgen
#: JOBS= parallel jobs; default: number of processors
#: SAMPLES=y also build the modules under samples/
#: RPCRDMA_KUNIT=y compile the KUnit suites into the module
#: INSTALL_MOD_PATH= as for the kernel: the root to install below, or to take the module out of

-include tools/host/targets.mk
-include tools/checks/targets.mk
-include tools/harness/targets.mk
-include tools/lab/targets.mk
-include tools/headers/targets.mk
