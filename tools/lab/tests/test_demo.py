# SPDX-License-Identifier: GPL-2.0
"""Tests of what `make run` shows."""

from __future__ import annotations

import pytest

from lab import demo


def test_both_clients_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLIENT", raising=False)
    monkeypatch.delenv("SERVER", raising=False)
    assert demo.acts() == [("ours", "ours"), ("stock", "ours")]


def test_named_modules_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER", "stock")
    assert demo.acts() == [("ours", "stock")]
