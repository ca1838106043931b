# SPDX-License-Identifier: GPL-2.0
#
# The lock-free parts of the module under all orders. See Documentation/testing.rst.

.PHONY: check-fast check-loom

## check-loom: run the lock-free parts under all orders that a weak memory allows
check-loom:
	@cd tools/loom && $(HOST_CARGO) run --quiet --release --locked -- $(MODEL)

#: MODEL= the only models of tools/loom that make check-loom runs, for example svc_room

check-fast: check-loom
