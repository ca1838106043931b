# SPDX-License-Identifier: GPL-2.0
#
# The lab's targets. Variables of make's command line reach the lab through the environment.

LAB := tools/lab/python -m lab

.PHONY: run shell pictures bench soak lab-deps lab-prepare lab-modules lab-lint lab-check
.PHONY: check-other-release check-builds check-oldest check-foreign

## run: boot two guests, mount our server from our client and from the stock one, copy files
run: lab-deps
	@$(LAB) run

## shell: boot the same guests, with an interactive shell on the client or on ON=
shell: lab-deps
	@$(LAB) shell

## pictures: renew the pictures of nfsrdma in README.md and Documentation/ from a run of the lab
pictures: lab-deps
	@$(LAB) picture

## bench: compare this module with the stock module, as ratios
bench: lab-deps
	@$(LAB) bench $(if $(SIZES),--sizes) $(if $(TUNING),--tuning)

## soak: run verified work under random faults, for SOAK_TIME seconds
soak: lab-deps
	@$(LAB) soak

## lab-deps: install the lab's dependencies (Debian packages as root; bindgen; ruff)
# A check whose prerequisite has a recipe starts after all checks without one, so `make check` says
# that they are installed.
lab-deps:
	$(if $(LAB_DEPS),,@tools/lab/bootstrap)

## lab-prepare: build the guests' kernel and root file system into the cache
lab-prepare: lab-deps
	@$(LAB) prepare

## lab-modules: build the modules that the guests load
lab-modules: lab-prepare
	@$(LAB) prepare --modules

## check-foreign: build the modules for arm64 with pages of 64 KiB; FULL=1 also for 4 KiB and few options
check-foreign: lab-deps
	@$(LAB) foreign

## lab-lint: run ruff and the lab's own host tests
lab-lint: lab-deps
	@$(LAB) lint

## lab-check: run the scenarios on the plain kernel; FULL=1 for the long form, ONLY= for some
lab-check: lab-deps
	@$(LAB) check

## check-other-release: run checks and a scenario in a root of Debian 13, or of 12 on Debian 13
check-other-release: lab-deps
	@$(LAB) other-release

## check-builds: build the modules for Debian's own kernel of the oldest series
check-builds: lab-deps
	@SERIES=7.2 $(LAB) build

## check-oldest: run the package on Debian's own kernel of the oldest series, and change to the newest
check-oldest: lab-deps
	@FULL=1 SERIES=7.2 ONLY='debian::install_mount_reload_remove debian::next_series' $(LAB) check

#: LAB_DEPS=installed do not look whether the lab's dependencies are installed
#: KERNEL_SRC= kernel source to use in place of Debian's linux-source-7.3
#: SERIES= series of Debian's own kernel in the scenarios of "debian", such as 7.2; default: the newest
#: SUITE=trixie|forky|sid suite of Debian's own kernel, with SERIES=; default: trixie with its backports
#: KERNEL=plain|debug|debian the kernel that the guests run; debian: Debian's own, of SERIES= and SUITE=
#: ARCH=x86|arm64 the architecture of the guests; default: that of this host
#: PAGES=4k|64k the size of pages of arm64 guests; default: 4k
#: SERVER_ARCH= the server's architecture, if it is not the client's
#: SERVER_PAGES= the size of the server's pages; default: PAGES, or 4k with SERVER_ARCH
#: CLIENT=ours|stock the rpcrdma.ko that the client loads; default: ours
#: SERVER=ours|stock the rpcrdma.ko that the server loads; default: stock
#: SIZES=1 make bench measures the savings of version two and larger messages, with the same module on both sides
#: TUNING=1 make bench measures the settings of Documentation/tuning.rst, with ours on both sides
#: SIDE=client|server|both the guest whose module make bench measures; default: client
#: LINK=rxe|siw the guests' soft RDMA device
#: DMA=none|iommu|swiotlb how the guests' device reaches memory (Documentation/lab-device.rst)
#: EXPORT=tmpfs|ext4|xfs|btrfs what the server exports; the last two need KERNEL=debian
#: PROFILE= the adapter whose limits the guests' RDMA device has (Documentation/devices.rst)
#: ACCEL=auto|tcg|kvm the accelerator of the guests
#: SOAK_TIME= seconds that make soak takes; default: 3600
#: SOAK_SEED= seed of an earlier soak, to repeat its faults
#: FULL=1 all scenarios on both kernels, and those that depend on the link also over siw
#: ONLY= scenarios of lab-check (reload, "reload::cycles[20]"); rows of bench SIDE=server (costs)
#: LIST=1 lab-check lists the scenarios, one on each line, and boots nothing
#: KEEP=1 after a failure lab-check keeps the guests running, with a shell
#: ON=client|server the guest whose shell comes first
#: GDB=1 QEMU accepts gdb connections; the lab writes a gdb command file with all symbols
#: PAIRS= number of parallel pairs of guests; default: processors, at most 4; debug: 1

.PHONY: check-fast
check-fast: lab-lint lab-modules check-foreign
