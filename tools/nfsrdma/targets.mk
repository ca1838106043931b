# SPDX-License-Identifier: GPL-2.0
#
# The command nfsrdma.

.PHONY: check-fast check-nfsrdma

## check-nfsrdma: run the tests of the command nfsrdma, which need neither kernel nor device
check-nfsrdma: lab-deps
	@cd tools/nfsrdma && PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -p no:cacheprovider tests

check-fast: check-nfsrdma
