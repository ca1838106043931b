#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The hostile requester: misrequests.py CASE.

Connects to the server over RDMA and plays one case of misheaders.py, misconnects.py,
misoptions.py, misolds.py, mispositions.py or misresults.py.
Prints ``OUTCOME: what was done`` for each message or act.
"""

import os
import sys

import misconnects
import misheaders
import misolds
import misoptions
import mispositions
import misresults
from requester import RELEASE, STALLED, Link

TABLES = misheaders, misconnects, misoptions, misolds
CASES = {case.name: case for table in TABLES for case in table.CASES}
LOADS = {case.name: case for case in misconnects.LOADS + misolds.EXPOSING}
RESULTS = {case.name: case for case in misresults.RESULTS + mispositions.POSITIONS}


def main():
    case = {**CASES, **LOADS, **RESULTS}[sys.argv[1]]
    for path in (RELEASE, STALLED):
        if os.path.exists(path):
            os.unlink(path)
    link = Link(**case.parameters)
    try:
        for what, outcome in case.act(link):
            print(f"{outcome}: {what}", flush=True)
    finally:
        link.peer.kill()


if __name__ == "__main__":
    main()
