# SPDX-License-Identifier: GPL-2.0
"""Read chunks at each word of a call, with and without Kerberos.

A Read chunk within the header of the RPC call gets ERR_CHUNK, and one behind the header gets the
right answer. The connection is alive after each of them.
"""

from __future__ import annotations

import pytest

from lab import realm, requester
from lab.pair import Pair

#: Seconds that a case may take.
LIMIT = 800


@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("113-positions", marks=pytest.mark.full),
        "114-odd-lengths",
        "116-positions-of-pages",
    ],
)
def test_root(pair: Pair, name: str) -> None:
    """WRITEs with the credential of root."""
    requester.play(pair, name, LIMIT)


@pytest.mark.server
@pytest.mark.needs_our_server
@pytest.mark.breaks_rules
@pytest.mark.rxe_only
@pytest.mark.parametrize("pair", [realm.OPTIONS], indirect=True)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("117-positions-krb5", marks=pytest.mark.full),
        pytest.param("118-positions-krb5i", marks=pytest.mark.full),
        pytest.param("119-positions-krb5p", marks=pytest.mark.full),
        pytest.param("120-pages-krb5", marks=pytest.mark.full),
        pytest.param("121-pages-krb5i", marks=pytest.mark.full),
        "122-pages-krb5p",
        "123-write-chunks",
    ],
)
def test_kerberos(pair: Pair, name: str) -> None:
    """WRITEs that are signed, or encrypted."""
    realm.join(pair)
    requester.play(pair, name, LIMIT)
