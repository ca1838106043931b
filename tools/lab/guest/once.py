#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Do operations that must not be done twice, until stopped: once.py DIRECTORY CONTROL.

Every name is new, so an operation that the server repeats fails: a directory exists already, a
file is gone. Ends when CONTROL.stop exists; prints how many operations were done, and ends 1 with
the first errors if any failed.
"""

import os
import sys


def cycle(directory, number):
    """Makes, links, renames and removes names of one number; returns how many operations."""
    base = f"{directory}/n{number}"
    os.mkdir(base)
    os.close(os.open(f"{base}/a", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.link(f"{base}/a", f"{base}/b")
    os.rename(f"{base}/b", f"{base}/c")
    os.symlink("a", f"{base}/d")
    for name in "acd":
        os.unlink(f"{base}/{name}")
    os.rmdir(base)
    return 9


def main():
    directory, control = sys.argv[1:]
    done, number, failed = 0, 0, []
    while not os.path.exists(f"{control}.stop"):
        try:
            done += cycle(directory, number)
        except OSError as error:
            failed.append(f"n{number}: {error}")
        number += 1
        with open(f"{control}.partial", "w") as file:
            file.write(f"{done}\n")
        os.rename(f"{control}.partial", f"{control}.status")
    print(f"operations={done}")
    if failed:
        sys.exit("\n".join(failed[:10]))


main()
