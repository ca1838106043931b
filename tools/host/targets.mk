# SPDX-License-Identifier: GPL-2.0
#
# Targets for the rooms wire and proto, which need no kernel, with a stable cargo.

CARGO ?= cargo
# Without the exported RUSTC, because the kernel's compiler may be older than cargo's own. Without
# make's flags, because make passes its job server to recursive makes only.
HOST_CARGO = env -u RUSTC -u MAKEFLAGS -u MFLAGS $(CARGO)
# The number of seconds for each fuzz target.
FUZZ_TIME ?= 60
FUZZ_TARGETS ?= limits message xchar cm_private reassembly reply plan characteristics negotiation \
	windows connections intake respond grants session $(OBJECT_FUZZ_TARGETS)

# The instrumentation for libFuzzer, by codegen options that a stable compiler has.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
FUZZ_HOST = $(shell $(HOST_CARGO) -vV | sed -n 's/^host: //p')
FUZZ_BIN = tools/fuzz/target/$(FUZZ_HOST)/release

.PHONY: check-fast check-host check-crates check-rfc-map check-wire mutants fuzz fuzz-build bench-wire

## check-host: run the unit, property and golden-byte tests of wire and proto
check-host:
	@cd tools/host && $(HOST_CARGO) test --quiet --locked

## check-crates: check that the oldest supported compiler builds the crates in every Cargo.lock
check-crates:
	@CARGO='$(CARGO)' PYTHONDONTWRITEBYTECODE=1 python3 tools/checks/crates.py

## check-rfc-map: check that every requirement of the RFCs has its place and its test
check-rfc-map:
	@PYTHONDONTWRITEBYTECODE=1 python3 tools/checks/rfc_map.py

## check-wire: compare our decoding with that of tshark, if it is installed
check-wire:
	@cd tools/host && messages=$$(mktemp) && trap 'rm -f "$$messages"' EXIT && \
		$(HOST_CARGO) run --quiet --locked --example messages > "$$messages" && \
		{ ./cross_check.py < "$$messages" || [ $$? -eq 77 ]; }

# The rooms whose faults tools/mutants/faults.toml lists.
FAULT_ROOMS := server client conn rdma sunrpc

## mutants: change wire and proto in small ways; check that their tests detect each change
# With ROOMS= the faults of the other rooms, which need the kernel and the lab.
mutants: $(if $(ROOMS),lab-deps)
	@CARGO='$(CARGO)' JOBS='$(JOBS)' FILES='$(FILES)' MUTANTS='$(MUTANTS)' ROOMS='$(ROOMS)' \
		PYTHONDONTWRITEBYTECODE=1 $(if $(ROOMS),/usr/bin/python3 \
		tools/mutants/rooms.py,python3 tools/mutants/run.py)

check-fast: check-host check-crates check-rfc-map check-wire $(if $(filter-out 0,$(FULL)),mutants)

fuzz-build:
	@cd tools/fuzz && RUSTFLAGS='$(FUZZ_FLAGS)' $(HOST_CARGO) build --quiet --locked --release \
		--target $(FUZZ_HOST)

# Those of the module's object are in tools/harness/targets.mk.
CODEC_FUZZ_TARGETS = $(filter-out $(OBJECT_FUZZ_TARGETS),$(FUZZ_TARGETS))

## fuzz: run each fuzz target for FUZZ_TIME seconds; keep the corpora in tools/fuzz and the lab's cache
fuzz: $(if $(CODEC_FUZZ_TARGETS),fuzz-build) \
		$(if $(filter $(OBJECT_FUZZ_TARGETS),$(FUZZ_TARGETS)),fuzz-object)
	@for target in $(CODEC_FUZZ_TARGETS); do \
		mkdir -p tools/fuzz/corpus/$$target tools/fuzz/artifacts; \
		echo "  FUZZ    $$target, $(FUZZ_TIME) s"; \
		nice $(FUZZ_BIN)/$$target tools/fuzz/corpus/$$target -max_total_time=$(FUZZ_TIME) \
			-max_len=1024 -artifact_prefix=tools/fuzz/artifacts/$$target- \
			-print_final_stats=1 > tools/fuzz/artifacts/$$target.log 2>&1 || \
			{ tail -n 30 tools/fuzz/artifacts/$$target.log; exit 1; }; \
		grep number_of_executed tools/fuzz/artifacts/$$target.log; \
	done

## bench-wire: measure instructions (callgrind) and time (criterion) of the codecs
bench-wire:
	@cd tools/bench && $(HOST_CARGO) build --quiet --locked --release && \
		./count.py target/release/instructions
	@cd tools/bench && $(HOST_CARGO) bench --quiet --locked --bench codec -- --quiet

#: FUZZ_TIME= seconds for each target of make fuzz; default: 60
#: FUZZ_TARGETS= targets that make fuzz runs: of tools/fuzz/fuzz_targets, client_*, server_*; default: all
#: FILES= files and folders below rust/ whose mutants are run, e.g. "proto/session wire/lists.rs"
#: MUTANTS= regular expression; make mutants runs those whose names match
#: ROOMS= rooms that make mutants puts faults into: server client conn rdma sunrpc
#: CARGO= cargo of a stable toolchain
