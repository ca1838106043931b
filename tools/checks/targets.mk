# SPDX-License-Identifier: GPL-2.0
#
# Checks of the source tree.

CHECKS := PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3

.PHONY: check-fast check-tree check-lint check-clippy doc man

## check-tree: check layering, unsafe budget, sizes and more; run the tests of the checks
check-tree:
	@$(CHECKS) tools/checks/run.py
	@$(CHECKS) tools/checks/selftest.py

## check-lint: run rustfmt, ruff and shellcheck; check the documents' markup
check-lint:
	@$(CHECKS) tools/checks/lint.py

## check-clippy: build the module and read its other forms with clippy; fail on any warning
check-clippy:
	@KDIR='$(KDIR)' LLVM='$(LLVM)' $(CHECKS) tools/checks/clippy.py

## doc: write Documentation/ as HTML to Documentation/output (needs python3-sphinx)
doc:
	@$(CHECKS) tools/checks/doc.py

## man: write the manual pages build/*.4 and build/*.8, for man -l (needs python3-docutils)
man:
	@$(CHECKS) tools/checks/man.py build/rpcrdma.4
	@$(CHECKS) tools/checks/man.py build/nfsrdma.8

check-fast: check-tree check-lint check-clippy
