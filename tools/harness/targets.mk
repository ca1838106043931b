# SPDX-License-Identifier: GPL-2.0
#
# Tests the module's object in a user-space program. See Documentation/harness.rst.

HARNESS := tools/harness/run

# Targets of make fuzz that run the module's object.
OBJECT_FUZZ_TARGETS := client_one client_two client_old client_slow client_iwarp \
	client_first \
	server_one server_two server_iwarp server_old server_short

.PHONY: check-fast check-harness bench-path fuzz-object fuzz-coverage

## check-harness: run the module's object in user space: scenarios, orders, figures; FULL=1: more orders
check-harness: lab-deps
	@cd tools/harness && PYTHONPATH=.:../lab PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -p no:cacheprovider tests
	@$(HARNESS) check $(if $(filter-out 0,$(FULL)),--seconds $(or $(ORDERS_TIME),600)) \
		$(if $(SEED),--seed $(SEED))

## bench-path: count instructions by kind of RPC, for both modules; VERBOSE=1: by function
bench-path: lab-deps
	@$(HARNESS) bench $(if $(KIND),--kind '$(KIND)') $(if $(VERBOSE),--verbose) \
		$(if $(UPDATE),--update)

fuzz-object: lab-deps
	@nice $(HARNESS) fuzz --seconds $(FUZZ_TIME) $(filter $(OBJECT_FUZZ_TARGETS),$(FUZZ_TARGETS))

## fuzz-coverage: print which part of each room of the module make fuzz has reached
fuzz-coverage: lab-deps
	@$(HARNESS) fuzz-coverage

#: KIND= the only kinds of RPC that make bench-path measures, for example srv_*
#: VERBOSE=1 make bench-path prints the functions of each kind
#: UPDATE=1 make bench-path writes the reference figures that check-harness compares with

#: ORDERS_TIME= seconds of orders at random in make check-harness FULL=1; default: 600
#: SEED= the number that determines these orders

check-fast: check-harness
