# SPDX-License-Identifier: GPL-2.0
"""Tests the check of the page on locks, also with locks that differ."""

import unittest

from fixture import TreeTest

from checks import locks

SOURCE = """\
impl Queue {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            sent <- new_spinlock!(
                Sent { first: first()? },
                "room::Queue::sent"
            ),
            // other <- new_mutex!((), "room::Queue::other")
            names <- new_mutex!(KVec::new(), "room::Queue::names"),
            changed <- new_condvar!("room::Queue::changed"),
        })
    }
}
"""
PAGE = """\
These are spinlocks:

===============  ==============
``Queue::sent``  what was sent;
                 nothing else
===============  ==============

These are mutexes:

================  =========
``Queue::names``  the names
================  =========

They nest::

    send lock
      Queue::names      always
        Queue::sent

``Queue::length`` is no lock.
"""
FILE = "rust/room/queue.rs"


class Locks(TreeTest):
    check = staticmethod(locks.check)

    def tree_of(self, source, page):
        return {FILE: source, locks.PAGE: page}

    def test_same(self):
        self.passes(self.tree_of(SOURCE, PAGE))

    def test_lock_without_row(self):
        page = PAGE.replace("``Queue::sent``", "``Queue``      ")
        self.fails(self.tree_of(SOURCE, page), (f"{FILE}:4", "Queue::sent is not in"))

    def test_row_without_lock(self):
        page = PAGE.replace("                 nothing else", "``Queue::gone``  nothing else")
        self.fails(self.tree_of(SOURCE, page), (f"{locks.PAGE}:5", "no lock Queue::gone"))

    def test_row_in_the_wrong_table(self):
        source = SOURCE.replace("new_mutex!(KVec", "new_spinlock!(KVec")
        self.fails(self.tree_of(source, PAGE), (f"{locks.PAGE}:11", "Queue::names is a spinlock"))

    def test_old_name_in_a_nesting(self):
        page = PAGE.replace("        Queue::sent", "        Queue::posted")
        self.fails(self.tree_of(SOURCE, page), (f"{locks.PAGE}:18", "no lock Queue::posted"))

    def test_name_of_another_field(self):
        source = SOURCE.replace("names <-", "titles <-")
        place = (f"{FILE}:9", "a lock's name is")
        gone = (f"{locks.PAGE}:11", "no lock Queue::names")
        nested = (f"{locks.PAGE}:17", "no lock Queue::names")
        self.fails(self.tree_of(source, PAGE), gone, nested, place)

    def test_lock_without_a_name(self):
        source = SOURCE + "fn f() -> impl PinInit<Mutex<()>> {\n    new_mutex!(())\n}\n"
        self.fails(self.tree_of(source, PAGE), (f"{FILE}:15", "a lock's name is"))

    def test_other_trees(self):
        self.passes({"README.md": "x\n"})


if __name__ == "__main__":
    unittest.main()
