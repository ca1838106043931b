# SPDX-License-Identifier: GPL-2.0
#
# The module's own object in a program of user space: see Documentation/harness.rst.

HARNESS := tools/harness/run

.PHONY: check check-harness bench-path

## check-harness: the module's object in user space: scenarios, all orders of events, figures
check-harness: lab-deps
	@cd tools/harness && PYTHONPATH=.:../lab PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		-q -p no:cacheprovider tests
	@$(HARNESS) check

## bench-path: instructions by kind of RPC, beside the stock module's; VERBOSE=1: by function
bench-path: lab-deps
	@$(HARNESS) bench $(if $(KIND),--kind '$(KIND)') $(if $(VERBOSE),--verbose) \
		$(if $(UPDATE),--update)

#: KIND= the one kind of RPC that make bench-path is to measure
#: VERBOSE=1 make bench-path: the functions of each kind
#: UPDATE=1 make bench-path: the figures that later ones are compared with

check: check-harness
