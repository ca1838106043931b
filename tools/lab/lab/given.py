# SPDX-License-Identifier: GPL-2.0
"""The products of another lab, for a lab that builds neither kernel nor modules nor image.

`LAB_GIVEN` names a file that describes it. `lab other-release` writes that file, because the
compilers of one release of Debian cannot build a module for a kernel of the other's.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Given:
    """The paths of all that guests with the plain kernel need."""

    #: The guests' root image.
    image: str
    #: Source and build tree of the kernel.
    source: str
    objects: str
    #: The trees in which our modules were built, and those that provoke reports.
    modules: str
    provoke: str

    def folders(self) -> list[str]:
        """Returns the folders of these paths."""
        return [str(Path(self.image).parent), self.source, self.objects, self.modules, self.provoke]

    def write(self, file: Path) -> None:
        """Writes the description for `LAB_GIVEN`."""
        file.write_text(json.dumps(asdict(self)))


def read() -> Given | None:
    """Returns what `LAB_GIVEN` describes, or nothing without it: the lab builds by itself then."""
    file = os.environ.get("LAB_GIVEN")
    return Given(**json.loads(Path(file).read_text())) if file else None
