# SPDX-License-Identifier: GPL-2.0
"""Families of metrics as text: OpenMetrics 1.0, and the older format of Prometheus, 0.0.4.

Names and units follow the conventions of both: base units, and ``_total`` for counters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

#: The units that a name may end with.
_UNITS = ("bytes", "seconds")

#: Label values by name.
Labels = dict[str, str]


class Kind(Enum):
    """The type of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"
    HISTOGRAM = "histogram"


class Format(Enum):
    """A text format; the value is its media type."""

    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Sample:
    """A line of a family."""

    suffix: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def line(self, name: str) -> str:
        """Returns the line for a family of this name."""
        pairs = ",".join(f'{label}="{_escape(value)}"' for label, value in self.labels)
        labels = f"{{{pairs}}}" if pairs else ""
        return f"{name}{self.suffix}{labels} {_number(self.value)}"


@dataclass
class Family:
    """A metric with its samples, one for each set of labels."""

    kind: Kind
    #: Without the suffix of counters and of information.
    name: str
    help: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], Sample] = field(default_factory=dict)

    def add(self, value: float, labels: Labels | None = None, suffix: str | None = None) -> None:
        """Adds a value to the sample with these labels, which need not exist."""
        key = self._key(labels, suffix)
        before = self.samples.get(key)
        self.samples[key] = Sample(*key, value + (before.value if before else 0))

    def least(self, value: float, labels: Labels) -> None:
        """Keeps the smaller of a value and the sample with these labels."""
        key = self._key(labels, None)
        before = self.samples.get(key)
        self.samples[key] = Sample(*key, min(value, before.value) if before else value)

    def most(self, value: float, labels: Labels) -> None:
        """Keeps the larger of a value and the sample with these labels."""
        key = self._key(labels, None)
        before = self.samples.get(key)
        self.samples[key] = Sample(*key, max(value, before.value) if before else value)

    def _key(
        self, labels: Labels | None, suffix: str | None
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        usual = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
        # An empty label is the same as none.
        told = tuple((name, value) for name, value in (labels or {}).items() if value)
        return usual if suffix is None else suffix, told

    @property
    def unit(self) -> str:
        """The unit; empty if the family counts things."""
        return next((unit for unit in _UNITS if self.name.endswith(f"_{unit}")), "")

    def lines(self, form: Format) -> Iterable[str]:
        """Returns the text of the family; none without samples."""
        if not self.samples:
            return
        if form is Format.OPENMETRICS:
            yield f"# TYPE {self.name} {self.kind.value}"
            if self.unit:
                yield f"# UNIT {self.name} {self.unit}"
            yield f"# HELP {self.name} {self.help}"
        else:
            # This format has the suffix in the name, and no type for information.
            suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
            kind = Kind.GAUGE if self.kind is Kind.INFO else self.kind
            yield f"# HELP {self.name}{suffix} {self.help}"
            yield f"# TYPE {self.name}{suffix} {kind.value}"
        for sample in self.samples.values():
            yield sample.line(self.name)


class Page:
    """The families of one look, in the order in which they were first named."""

    def __init__(self) -> None:
        """Initially empty."""
        self._families: dict[str, Family] = {}

    def gauge(self, name: str, does: str) -> Family:
        """Returns a gauge, made when it is first named."""
        return self._family(Kind.GAUGE, name, does)

    def counter(self, name: str, does: str) -> Family:
        """Returns a counter. `name` lacks the suffix."""
        return self._family(Kind.COUNTER, name, does)

    def info(self, name: str, does: str) -> Family:
        """Returns information. `name` lacks the suffix."""
        return self._family(Kind.INFO, name, does)

    def histogram(self, name: str, does: str) -> Family:
        """Returns a histogram."""
        return self._family(Kind.HISTOGRAM, name, does)

    def _family(self, kind: Kind, name: str, does: str) -> Family:
        return self._families.setdefault(name, Family(kind, f"nfsrdma_{name}", does))

    def text(self, form: Format) -> str:
        """Returns the text of all families."""
        lines = [line for family in self._families.values() for line in family.lines(form)]
        end = ["# EOF"] if form is Format.OPENMETRICS else []
        return "\n".join([*lines, *end, ""])


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
