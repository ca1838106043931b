# SPDX-License-Identifier: GPL-2.0
"""The sockets to QEMU, tested without QEMU."""

import socket
import threading
import time
from pathlib import Path

from lab.agent import JsonSocket


def test_connect_waits_until_qemu_listens(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    server = socket.socket(socket.AF_UNIX)

    def listen() -> None:
        time.sleep(0.1)
        server.bind(str(path))
        time.sleep(0.1)
        server.listen()
        connection, _ = server.accept()
        connection.sendall(b'{"QMP": 1}\n')

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert JsonSocket(path).receive(10) == {"QMP": 1}
    thread.join()
    server.close()
