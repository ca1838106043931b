# SPDX-License-Identifier: GPL-2.0
"""Tests the list of faults of the rooms with effects, and how a fault is put into a source."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/mutants"))

import faults

ROOT = Path(__file__).resolve().parents[3]
ENTRY = """\
[[fault]]
name = "conn/waits"
file = "conn/room.rs"
old = "wake();"
new = ""
reason = "Nobody is woken."
notices = "removal::amid"
scenarios = ["removal::amid SERVER=ours", "mount"]
"""


class ListTest(unittest.TestCase):
    """Each fault has a place, a reason, and a suite that is expected to notice."""

    def refused(self, words, text):
        with self.assertRaisesRegex(faults.ListError, words):
            faults.read(text)

    def test_sound(self):
        (fault,) = faults.read(ENTRY)
        self.assertEqual(fault.room, "conn")
        self.assertEqual([str(s) for s in fault.scenarios], ["removal::amid SERVER=ours", "mount"])

    def test_wrong_keys(self):
        self.refused("missing or unknown: reason", ENTRY.replace("reason", "# reason"))
        self.refused("missing or unknown: why", ENTRY + 'why = "x"\n')
        self.refused("faults.toml: .*line", ENTRY + "why\n")

    def test_wrong_values(self):
        self.refused("begins with the file's room", ENTRY.replace("conn/waits", "client/waits"))
        self.refused("begins with the file's room", ENTRY.replace("conn/", "wire/"))
        self.refused("nothing changes", ENTRY.replace('new = ""', 'new = "wake();"'))
        self.refused("no suite has the name", ENTRY.replace('= "removal::amid"', '= "idle"'))
        self.refused("POWER=on is no setting", ENTRY.replace("SERVER=ours", "POWER=on"))
        self.refused("is listed twice", ENTRY + ENTRY)

    def test_select(self):
        listed = faults.read(ENTRY + ENTRY.replace("conn/", "rdma/"))
        self.assertEqual(faults.select(listed, ["conn", "rdma"], ""), listed)
        self.assertEqual(faults.select(listed, ["rdma"], "wait"), listed[1:])
        for rooms, regex in ((["wire"], ""), (["conn"], "key"), (["server"], "")):
            with self.assertRaises(faults.ListError):
                faults.select(listed, rooms, regex)

    def test_of_the_tree(self):
        listed = faults.read((ROOT / "tools/mutants/faults.toml").read_text())
        for fault in listed:
            fault.changed((ROOT / "rust" / fault.file).read_text())
        for room in faults.ROOMS:
            self.assertGreaterEqual(len(faults.select(listed, [room], "")), 4, room)


class ApplyTest(unittest.TestCase):
    """A fault is put into the one place that its text names."""

    def test_changed(self):
        (fault,) = faults.read(ENTRY)
        self.assertEqual(fault.changed("a();\nwake();\n"), "a();\n\n")

    def test_text_has_gone(self):
        (fault,) = faults.read(ENTRY)
        words = "conn/waits: .* is not in rust/conn/room.rs: put the same fault .* ROOMS=conn"
        with self.assertRaisesRegex(faults.ListError, words):
            fault.changed("a();\n")

    def test_text_is_there_twice(self):
        (fault,) = faults.read(ENTRY)
        with self.assertRaisesRegex(faults.ListError, "occurs 2 times .* take more lines"):
            fault.changed("wake();\nwake();\n")

    def test_file(self):
        (fault,) = faults.read(ENTRY)
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            with self.assertRaises(faults.ListError):
                fault.apply(tree)
            (tree / "rust/conn").mkdir(parents=True)
            (tree / "rust/conn/room.rs").write_text("wake();\n")
            fault.apply(tree)
            self.assertEqual((tree / "rust/conn/room.rs").read_text(), "\n")


if __name__ == "__main__":
    unittest.main()
