# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the version: it reports every place that differs."""

import unittest

from fixture import TreeTest

from checks import version


def lock(name):
    other = '[[package]]\nname = "other"\nversion = "9.0.0"\n'
    return other + f'\n[[package]]\nname = "{name}"\nversion = "1.2.3"\n'


SOUND = {
    "VERSION": "1.2.3\n",
    "dkms.conf": 'PACKAGE_NAME="x"\nPACKAGE_VERSION="1.2.3"\n',
    "debian/changelog": "rpcrdma (1.2.3) unstable; urgency=medium\n\nrpcrdma (1.0.0) unstable;\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3\n\n## 1.0.0\n",
    "Kbuild": "x-y := a.o rpcrdma_version.o\n$(obj)/rpcrdma_version.c: $(src)/VERSION FORCE\n",
    **{
        f"tools/{name}/Cargo.toml": f'[package]\nname = "{name}"\nversion = "1.2.3"\n'
        for name in ("host", "bench", "fuzz")
    },
    "tools/host/Cargo.lock": lock("rpcrdma-proto"),
    "tools/bench/Cargo.lock": lock("rpcrdma-bench"),
    "tools/fuzz/Cargo.lock": lock("rpcrdma-fuzz"),
}


class Version(TreeTest):
    check = version.check

    def test_sound(self):
        self.passes(SOUND)

    def test_no_source(self):
        self.fails({**SOUND, "VERSION": "next\n"}, ("VERSION:1", "one line such as"))
        self.fails({"dkms.conf": ""}, ("VERSION:1", "one line such as"))

    def test_each_place_that_differs(self):
        for path in version.PLACES:
            with self.subTest(path):
                files = {**SOUND, path: SOUND[path].replace("1.2.3", "1.2.4")}
                line = SOUND[path][: SOUND[path].index("1.2.3")].count("\n") + 1
                self.fails(files, (f"{path}:{line}", "has version 1.2.4; VERSION has 1.2.3"))

    def test_each_place_that_is_missing(self):
        for path in version.PLACES:
            with self.subTest(path):
                files = {name: text for name, text in SOUND.items() if name != path}
                self.fails(files, (f"{path}:0", "names no version"))

    def test_not_in_modinfo(self):
        files = {**SOUND, "Kbuild": SOUND["Kbuild"].replace(" rpcrdma_version.o", "")}
        self.fails(files, ("Kbuild:0", "lacks `rpcrdma_version.o`"))
        files = {**SOUND, "Kbuild": "x-y := a.o rpcrdma_version.o\n"}
        self.fails(files, ("Kbuild:0", "lacks `rpcrdma_version.c: $(src)/VERSION`"))


if __name__ == "__main__":
    unittest.main()
