# SPDX-License-Identifier: GPL-2.0
#
# The entry point for all commands. `make help` lists the targets. Kbuild builds the
# module; tools/lab has the lab, tools/host the host tests.

# The build tree of the target kernel, which needs CONFIG_RUST=y.
KDIR ?= /lib/modules/$(shell uname -r)/build
# tools/toolchain.sh chooses the compiler and bindgen.
export RUSTC   := $(shell KDIR='$(KDIR)' sh tools/toolchain.sh rustc '$(RUSTC)')
export BINDGEN := $(shell KDIR='$(KDIR)' sh tools/toolchain.sh bindgen '$(BINDGEN)')
JOBS ?= $(shell nproc)

KBUILD = $(MAKE) -C '$(KDIR)' M='$(CURDIR)' -j$(JOBS) \
	$(if $(LLVM),LLVM=$(LLVM)) RUSTC='$(RUSTC)' BINDGEN='$(BINDGEN)' \
	$(if $(SAMPLES),SAMPLES=$(SAMPLES)) $(if $(RPCRDMA_KUNIT),RPCRDMA_KUNIT=$(RPCRDMA_KUNIT)) \
	$(if $(RPCRDMA_LEGACY),RPCRDMA_LEGACY=$(RPCRDMA_LEGACY))

.DEFAULT_GOAL := modules
.PHONY: modules modules_install check check-fast clean help preflight

## modules: build rpcrdma.ko against KDIR (default: the running kernel's build tree)
modules: preflight
	+@$(KBUILD) modules

preflight:
	@KDIR='$(KDIR)' LLVM='$(LLVM)' sh tools/preflight.sh

# The key that signs the kernel's modules, if this machine has it: a file, or a URI of PKCS #11. The
# tree of a kernel that was built here has it; headers of a distribution do not.
SIG_KEY = $(shell sed -n 's/^CONFIG_MODULE_SIG_KEY="\(.*\)"$$/\1/p' '$(KDIR)/.config' 2>/dev/null)
SIG_FILE = $(if $(filter /%,$(SIG_KEY)),,$(KDIR)/)$(SIG_KEY)
KEY_HERE = $(if $(SIG_KEY),$(filter pkcs11:%,$(SIG_KEY))$(wildcard $(SIG_FILE)))

## modules_install: install the module under updates/, where modprobe finds it first
# The module is signed as the kernel's own modules are, and not at all without their key.
modules_install: modules
	+@$(KBUILD) INSTALL_MOD_DIR=updates INSTALL_MOD_STRIP=1 \
		$(if $(KEY_HERE),,CONFIG_MODULE_SIG_ALL=) modules_install
	@sh tools/headers/switch.sh '$(KRELEASE)' '$(INSTALL_MOD_PATH)'

## check: run all checks and tests that a change must pass; FULL=1 for the long form
# The checks that boot no guest run in parallel. The output of each appears at its end, so kernel and
# guest image, which take long in an empty cache, are built first.
check: lab-deps lab-prepare
	+@$(MAKE) -j$(JOBS) --keep-going --output-sync=target --no-print-directory check-fast \
		LAB_DEPS=installed
	+@$(MAKE) --no-print-directory check-other-release
	+@$(MAKE) --no-print-directory lab-check
	$(if $(filter-out 0,$(FULL)),+@$(MAKE) --no-print-directory check-builds check-oldest)
	$(if $(filter-out 0,$(FULL)),+@$(MAKE) --no-print-directory mutants ROOMS='$(FAULT_ROOMS)')

## check-fast: run the checks and tests that boot no guest
# Each targets.mk adds its own prerequisites.
check-fast:

## clean: remove the outputs of the module build from this tree
clean:
	+@[ ! -e '$(KDIR)/Makefile' ] || $(KBUILD) clean
	@rm -f rpcrdma_version.c rust/raw/closure.rs rust/raw/shared_types \
		rust/raw/bindings_generated.rs

## help: print this text
help:
	@echo 'Targets:'
	@sed -n 's/^## \([^ ]*\): \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo 'Variables:'
	@sed -n 's/^#: \([^ ]*\) \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

#: KDIR= kernel build tree with CONFIG_RUST=y; default: that of the running kernel
#: LLVM= build with clang, as for the kernel: 1, or a suffix such as -19
#: RUSTC= Rust compiler, in place of the one that tools/toolchain.sh finds
#: BINDGEN= bindgen, in place of the one that tools/toolchain.sh finds
#: JOBS= number of parallel jobs; default: number of processors
#: SAMPLES=y also build the modules under samples/
#: RPCRDMA_LEGACY=n build the module, and that of the lab's guests, without RFC 5666
#: RPCRDMA_KUNIT=y compile the KUnit suites into the module
#: INSTALL_MOD_PATH= root for modules_install and modules_uninstall, as for the kernel

# The longest checks start first: that of clippy only if what it needs is known to be installed.
-include tools/harness/targets.mk
check-fast: $(if $(LAB_DEPS),check-clippy)
-include tools/host/targets.mk
-include tools/loom/targets.mk
-include tools/checks/targets.mk
-include tools/nfsrdma/targets.mk
-include tools/lab/targets.mk
-include tools/headers/targets.mk
