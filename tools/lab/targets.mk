# SPDX-License-Identifier: GPL-2.0
#
# The lab's targets. Variables given to make reach the lab through the environment.

LAB := tools/lab/python -m lab

.PHONY: run shell bench soak lab-deps lab-lint lab-check

## run: build everything, boot two machines, mount, copy files both ways, show it
run: lab-deps
	@$(LAB) run

## shell: the same machines, with an interactive shell on the client, or where ON= says
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

## lab-check: the scenarios on the plain kernel; FULL=1 for the long form, ONLY= for some
lab-check: lab-deps
	@$(LAB) check

#: KERNEL_SRC= kernel source to use in place of Debian's linux-source-7.3
#: KERNEL=plain|debug the kernel that the guests run
#: CLIENT=ours|stock whose rpcrdma.ko the client loads
#: LINK=rxe|siw the guests' soft RDMA device
#: ACCEL=auto|tcg|kvm how the guests are run
#: SOAK_TIME= seconds that make soak takes; default: 3600
#: SOAK_SEED= the sequence of faults to repeat
#: FULL=1 all scenarios, on both kernels, and over siw those that the link matters to
#: ONLY= names of scenarios for lab-check (reload, cycles, "reload::cycles[20]"); one run
#: LIST=1 lab-check lists the scenarios with one line for each, and boots nothing
#: KEEP=1 after a failure of lab-check the guests stay, with a shell
#: ON=client|server the guest whose shell comes first
#: GDB=1 QEMU listens for gdb; the lab writes a command file with all symbols
#: PAIRS= pairs of guests at once; default: one a processor, at most 4; debug: 1

.PHONY: check
check: lab-lint lab-check
