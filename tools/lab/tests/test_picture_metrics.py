# SPDX-License-Identifier: GPL-2.0
"""Tests what Prometheus imports for the picture of metrics.rst."""

from __future__ import annotations

from lab import picture_metrics

TOLD = """\
# 1700000000.25
# HELP nfsrdma_up The module is loaded.
# TYPE nfsrdma_up gauge
nfsrdma_up 1
# 1700000003.5
nfsrdma_connections{role="client",peer="s:1"} 4.0
"""


def test_samples_have_an_instance_and_a_time() -> None:
    text = picture_metrics.openmetrics({"client": TOLD})
    assert text == (
        'nfsrdma_up{instance="client"} 1 1700000000.250\n'
        'nfsrdma_connections{instance="client",role="client",peer="s:1"} 4.0 1700000003.500\n'
        "# EOF\n"
    )


def test_page_covers_all_samples() -> None:
    first, *_ = picture_metrics.pages("http://127.0.0.1:1", {"client": TOLD, "server": TOLD})
    assert "g0.end_input=2023-11-14+22%3A14&" in first
    assert "g0.range_input=40s&" in first


def test_expressions_are_complete() -> None:
    """Nothing is left that only Grafana knows."""
    found = picture_metrics.expressions()
    assert len(found) == len(picture_metrics.PANELS)
    assert not any("$" in expression for expression in found)
