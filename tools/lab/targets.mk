# SPDX-License-Identifier: GPL-2.0
#
# The lab's targets. Variables given to make reach the lab through the
# environment: KERNEL_SRC KDIR LLVM JOBS KERNEL LINK CLIENT SERVER ACCEL FULL PAIRS SOAK_TIME SOAK_SEED.

LAB := tools/lab/python -m lab

.PHONY: run shell bench soak lab-deps lab-lint lab-check

## run: build everything, boot two machines, mount, copy files both ways, show it
run: lab-deps
	@$(LAB) run

## shell: the same machines, with an interactive shell on the client
shell: lab-deps
	@$(LAB) shell

## bench: this module against the stock one, as ratios
bench: lab-deps
	@$(LAB) bench

## soak: verified work under random faults, for SOAK_TIME seconds
soak: lab-deps
	@$(LAB) soak

## lab-deps: install what the lab needs (Debian packages as root; bindgen; ruff)
lab-deps:
	@tools/lab/bootstrap

## lab-lint: ruff and the lab's own host tests
lab-lint: lab-deps
	@$(LAB) lint

## lab-check: the scenarios on the plain kernel; FULL=1: all, the debug kernel and siw too
lab-check: lab-deps
	@$(LAB) check

#: KERNEL_SRC= kernel source to use in place of Debian's linux-source-7.3
#: KERNEL=plain|debug which kernel the guests run
#: CLIENT=ours|stock whose rpcrdma.ko the client loads
#: LINK=rxe|siw the guests' soft RDMA device
#: ACCEL=auto|tcg|kvm how the guests are run
#: SOAK_TIME= seconds that make soak takes; default: 3600
#: SOAK_SEED= the sequence of faults to repeat
#: FULL=1 all scenarios, on both kernels, and over siw those that the link matters to
#: PAIRS= pairs of guests at once; default: one a processor, at most 4; debug: 1

.PHONY: check
check: lab-lint lab-check
