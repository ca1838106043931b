# SPDX-License-Identifier: GPL-2.0
#
# Checks of the sources themselves.

CHECKS := PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3

.PHONY: check check-tree check-lint check-clippy doc man

## check-tree: layering, unsafe budget, sizes and the like; and the checks' own tests
check-tree:
	@$(CHECKS) tools/checks/run.py
	@$(CHECKS) tools/checks/selftest.py

## check-lint: rustfmt, ruff, shellcheck, and the documents' markup
check-lint:
	@$(CHECKS) tools/checks/lint.py

## check-clippy: clippy with the kernel's lints, tests and samples included
check-clippy:
	@KDIR='$(KDIR)' LLVM='$(LLVM)' $(CHECKS) tools/checks/clippy.py

## doc: Documentation/ as HTML, below Documentation/output (needs python3-sphinx)
doc:
	@$(CHECKS) tools/checks/doc.py

## man: the manual page build/rpcrdma.4, for man -l (needs python3-docutils)
man:
	@$(CHECKS) tools/checks/man.py build/rpcrdma.4

check: check-tree check-lint check-clippy
