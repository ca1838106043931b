#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Look at FILE again and again until a file STOP exists: latency.py FILE STOP.

On a mount with actimeo=0 each look is one GETATTR. Prints the number of looks, and the longest and
the median of their seconds.
"""

import os
import sys
import time


def main():
    path, stop = sys.argv[1:]
    took = []
    while not took or not os.path.exists(stop):
        began = time.monotonic()
        os.stat(path)
        took.append(time.monotonic() - began)
    took.sort()
    print(len(took), took[-1], took[len(took) // 2])


main()
