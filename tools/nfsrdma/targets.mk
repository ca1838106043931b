# SPDX-License-Identifier: GPL-2.0
#
# The command nfsrdma.

.PHONY: check-fast check-nfsrdma

## check-nfsrdma: run the tests of the command nfsrdma, which need neither kernel nor device
check-nfsrdma: lab-deps
	@cd tools/nfsrdma && PYTHONPATH=../lab LAB_SUITE='tests of nfsrdma' \
		PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		-q -p no:cacheprovider -p lab.report tests

check-fast: check-nfsrdma
