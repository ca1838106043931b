# SPDX-License-Identifier: GPL-2.0
"""Both guests as members of a Kerberos realm, whose key distribution centre is on the server."""

from __future__ import annotations

from .harness import Options
from .pair import Pair

#: SUNRPC does not clear the memory of a new flavour and only sets bits in its flags: in memory that
#: held krb5p, krb5 may also forbid data chunks. `init_on_alloc` clears the memory.
OPTIONS = Options(realm=True, cmdline="init_on_alloc=1")


def join(pair: Pair) -> None:
    """Makes both guests members of the realm, once after each boot."""
    pair.server.sh("/lab/kerberos-server", timeout=200)
    if pair.client.run("pgrep -x rpc.gssd").status:
        keytab = pair.server.run("cat /run/client.keytab").stdout
        pair.client.sh("/lab/kerberos-conf")
        pair.client.write("/etc/krb5.keytab", keytab)
        pair.client.sh("rpc.gssd")
