# SPDX-License-Identifier: GPL-2.0
#
# Targets for the rooms that need no kernel: wire and proto, on plain stable cargo.

CARGO ?= cargo
HOST_CARGO = cd tools/host && $(CARGO)

.PHONY: check check-host

## check-host: unit, property and golden-byte tests of wire and proto
check-host:
	@$(HOST_CARGO) test --quiet --locked

check: check-host
