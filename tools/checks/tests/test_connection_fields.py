# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the fields of the file `connections`, also with fields that differ."""

import unittest

from fixture import TreeTest

from checks import connection_fields

SOURCE = """\
impl Line {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("id={id} state={state}"))?;
        f.write_fmt(fmt!(
            " regions_idle={}",
            self.idle
        ))?;
        f.write_str(" next=-1")
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
mod tests {
    fn other() {
        fmt!("test={}", 1);
    }
}
"""
PAGE = """\
This is a line::

    id=1 state=up
    regions_idle=5

``id``
    A number. ``other`` is no field, nor are these:

    - ``up``: a state.
``state``, ``regions_idle``
    Two fields.
``next``
    A field.
"""


class ConnectionFields(TreeTest):
    check = staticmethod(connection_fields.check)

    def tree_of(self, source, page):
        return {connection_fields.SOURCE: source, connection_fields.PAGE: page}

    def test_same(self):
        self.passes(self.tree_of(SOURCE, PAGE))

    def test_field_without_entry(self):
        place = f"{connection_fields.SOURCE}:4"
        page = PAGE.replace(", ``regions_idle``", "")
        self.fails(self.tree_of(SOURCE, page), (place, "regions_idle has no entry"))

    def test_entry_without_field(self):
        place = f"{connection_fields.PAGE}:12"
        source = SOURCE.replace(" next=-1", "")
        self.fails(self.tree_of(source, PAGE), (place, "writes no field next"))

    def test_example_has_an_old_name(self):
        place = f"{connection_fields.PAGE}:3"
        page = PAGE.replace("state=up", "status=up")
        self.fails(self.tree_of(SOURCE, page), (place, "writes no field status"))

    def test_page_without_example(self):
        page = PAGE.replace("::", ":")
        self.fails(self.tree_of(SOURCE, page), (connection_fields.PAGE, "lacks the example"))

    def test_source_that_cannot_be_read(self):
        files = self.tree_of("fn main() {}\n", PAGE)
        self.fails(files, (connection_fields.SOURCE, "writes no fields"))

    def test_other_trees(self):
        self.passes({"README.md": "x\n"})


if __name__ == "__main__":
    unittest.main()
