# SPDX-License-Identifier: GPL-2.0
#
# Checks of the sources themselves.

CHECKS := PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3

.PHONY: check check-tree check-lint check-clippy doc

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

## doc: Documentation/ as HTML, below Documentation/output
doc:
	@$(CHECKS) tools/checks/doc.py

check: check-tree check-lint check-clippy
