# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the tables of errors, also with tables that are out of date."""

import unittest

from fixture import TreeTest

from checks import errors_table

CLIENT, SERVER = errors_table.SOURCES
REASONS = """
reasons! {
    /// Nothing listens (mount: "Connection refused").
    REFUSED = 1: "nothing listens",
        "start nfsd";
}
"""
ROWS = """
const ADVICE: [(Error, &str, &str, &str); 1] = [
    (
        ECONNREFUSED,
        "Connection refused",
        "nothing listens",
        "start nfsd",
    ),
];
"""
OTHER = 'const OTHER: Advice = row(ENODEV, "", "anything", "look");\n'
TABLE = "``mount: Connection refused``\n    Nothing listens. Next step: start nfsd.\n"
LISTEN = TABLE.replace("mount", "portlist: write error")


def page(client, server):
    tables = ((CLIENT, client), (SERVER, server))
    marked = (f".. table of {path}\n\n{text}\n.. end of the table\n" for path, text in tables)
    return "ERRORS\n\n" + "\nText.\n\n".join(marked) + "\nEnd.\n"


class ErrorsTable(TreeTest):
    def found(self, text, client=REASONS):
        tree = self.tree({CLIENT: client, SERVER: ROWS + OTHER, errors_table.PAGE: text})
        return [finding.message for finding in errors_table.check(tree)], tree

    def test_sound(self):
        messages, tree = self.found(page(TABLE, LISTEN))
        self.assertEqual(messages, [])
        self.assertEqual(errors_table.written(tree), page(TABLE, LISTEN))

    def test_out_of_date(self):
        messages, tree = self.found(page("", LISTEN.replace("nfsd", "it")))
        self.assertEqual(len(messages), 1)
        self.assertIn("out of date", messages[0])
        self.assertEqual(errors_table.written(tree), page(TABLE, LISTEN))

    def test_question_ends_the_step(self):
        tree = self.tree({CLIENT: REASONS.replace("start nfsd", "is it up?")})
        self.assertTrue(errors_table.table(tree, CLIENT).endswith("Next step: is it up?\n"))

    def test_marks_are_missing(self):
        self.assertIn("lacks the marks", self.found("ERRORS\n")[0][0])

    def test_rows_that_cannot_be_read(self):
        self.assertIn("no rows", self.found(page("", LISTEN), client="x\n")[0][0])

    def test_other_trees(self):
        self.assertEqual(errors_table.check(self.tree({"README.md": "x\n"})), [])


if __name__ == "__main__":
    unittest.main()
