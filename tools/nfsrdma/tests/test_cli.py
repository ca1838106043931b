# SPDX-License-Identifier: GPL-2.0
"""Tests of the command line: options that make no sense, and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake import FakeHost

from nfsrdma import cli

FOLDER = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["top", "--count", "0"], "--count: at least 1"),
        (["top", "--count", "-1"], "--count: at least 1"),
        (["report", "-o", "x", "--seconds", "0"], "--seconds: more than 0"),
        (["report", "-o", "x", "--seconds", "nan"], "--seconds: more than 0"),
        (["trace", "--xid", "996e5448"], "--xid: an XID is a number such as 0x996e5448"),
        (["trace", "--xid", "0x1996e5448"], "--xid: an XID is a number such as 0x996e5448"),
    ],
)
def test_options(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parser().parse_args(arguments)
    assert said in capsys.readouterr().err


_WAITS = """
import sys, time
from nfsrdma import cli
def wait(_host, _server):
    try:
        print("begins", flush=True)
        time.sleep(60)
    finally:
        print("cleans up", flush=True)
cli.doctor.examine = wait
sys.exit(cli.main(["doctor"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal(number: signal.Signals) -> None:
    """A signal that ends the command leaves no trace instance and no terminal without echo."""
    # The tests may run under nohup(1).
    heard = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    argv = [sys.executable, "-B", "-c", heard + _WAITS]
    with subprocess.Popen(argv, cwd=FOLDER, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.1)
        process.send_signal(number)
        assert process.stdout.read() == "cleans up\n"
    assert process.returncode == 128 + number


def test_signal_that_is_ignored() -> None:
    """As nohup(1) has it."""
    script = _WAITS.replace("time.sleep(60)", "time.sleep(0.5)\n        print('ends', flush=True)")
    argv = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-B", "-c", script]
    with subprocess.Popen(
        argv, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "begins\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.read() == "ends\ncleans up\n"


@pytest.mark.parametrize(("terminal", "shows"), [(True, "interactive"), (False, "batch")])
def test_top_takes_the_screen_of_a_terminal_alone(
    terminal: bool, shows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or pipe gets intervals as lines, without escape sequences."""
    called: list[str] = []
    monkeypatch.setattr(cli.watching, "interactive", lambda *_: called.append("interactive"))
    monkeypatch.setattr(cli.watching, "batch", lambda *_: called.append("batch"))
    monkeypatch.setattr(cli.sys.stdout, "isatty", lambda: terminal)
    assert cli.main(["top", "--no-trace"], FakeHost()) == 0
    assert called == [shows]


_ODD_NAME = """
import sys
from fake import MOUNTED, FakeHost
from nfsrdma import cli
host = FakeHost()
text = MOUNTED.replace("/mnt/nfs", "/mnt/\\u20ac;\\xe9")
host.files["/proc/self/mountinfo"] = text + text.replace("rdma,port=20049", "tcp")
sys.exit(cli.main(sys.argv[1:], host))
"""


@pytest.mark.parametrize(
    ("encoding", "shown", "quoted"),
    [
        ("utf-8", "/mnt/\u20ac;\xe9", "'/mnt/\u20ac;\xe9'"),
        ("iso-8859-1", "/mnt/?;\xe9", r"$'/mnt/\342\202\254;\303\251'"),
        ("ascii", "/mnt/?;?", r"$'/mnt/\342\202\254;\303\251'"),
    ],
)
def test_names_that_the_locale_lacks(encoding: str, shown: str, quoted: str) -> None:
    """A `?` stands for such a letter, and a command has the bytes of the name."""
    environment = {"PYTHONIOENCODING": encoding, "PYTHONPATH": f"{FOLDER}:{FOLDER / 'tests'}"}
    said = []
    for arguments in (["list"], ["doctor", "server"]):
        argv = [sys.executable, "-B", "-c", _ODD_NAME, *arguments]
        done = subprocess.run(argv, env=environment, capture_output=True)
        assert done.stderr == b""
        said.append(done.stdout.decode(encoding))
    assert f"  {shown}  10.0.0.1:/export  NFSv4.2" in said[0]
    assert f"mounted from server by tcp, not by RDMA: {shown}\n" in said[1]
    assert f"umount {quoted} &&\n" in said[1]


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the command without a traceback."""

    def interrupted(_host: object, _as_json: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.listing, "show", interrupted)
    assert cli.main(["list"]) == 130
