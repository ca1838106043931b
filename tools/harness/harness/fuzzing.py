# SPDX-License-Identifier: GPL-2.0
"""Runs the fuzzer on the module's object."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.errors import LabError
from lab.progress import say

from lab import paths

from . import build

TARGETS = (
    *("client_one", "client_two", "client_old", "client_slow", "client_iwarp", "client_first"),
    *("server_one", "server_two", "server_iwarp", "server_old", "server_short"),
)
#: The first inputs, a line of events for each.
SEEDS = build.HARNESS / "seeds.txt"
#: The longest input in bytes.
LONGEST = 512
#: Seconds after which an input counts as a hang.
HANG = 20
#: Executions of the short run, and the number that determines its inputs.
SMOKE_RUNS, SMOKE_SEED = 2400, 1


def _home(name: str) -> Path:
    return paths.sub("fuzz") / name


def corpus(target: str) -> Path:
    """Returns the directory of the inputs that reached new code."""
    return _home("corpus") / target


def encode(line: str, events: Sequence[str]) -> bytes:
    """Returns an input from text: `event number number, event, ...`.

    # Errors
    `LabError` if there is no such event.
    """
    found = bytearray()
    for part in line.split(","):
        name, *numbers = part.split()
        if name not in events:
            raise LabError(f"{SEEDS.name}: there is no event {name}; there are {set(events)}")
        found.append(events.index(name))
        found.extend(int(n, 0) for n in numbers)
    return bytes(found)


def seeds(target: str, events: Sequence[str], text: str) -> list[bytes]:
    """Returns the first inputs of a target: the lines whose first word its name begins with."""
    found = []
    for line in text.splitlines():
        role, _, rest = line.partition(":")
        if not line.startswith("#") and role and target.startswith(role):
            found.append(encode(rest, events))
    return found


def write_seeds(program: build.Program, target: str) -> Path:
    """Writes the first inputs of a target as files. Returns their directory."""
    directory = _home("seeds") / target
    directory.mkdir(parents=True, exist_ok=True)
    status, text = build.run(program, "events", target)
    if status:
        raise LabError(text)
    for number, seed in enumerate(seeds(target, text.split(), SEEDS.read_text())):
        (directory / f"{number:03}").write_bytes(seed)
    return directory


def _report(program: build.Program, target: str, text: str, finding: Path) -> None:
    """Prints the end of a run that has found something, and how to repeat it."""
    lines = build.named(program, text).splitlines()
    say("\n".join(ln for ln in lines if not ln.startswith("#"))[-2000:])
    say(
        f"FAIL {target}; repeat it with:\n  tools/harness/run replay {target} "
        f"{finding.read_bytes().hex() if finding.exists() else finding}"
    )


def fuzz(program: build.Program, target: str, *options: str) -> bool:
    """Runs libFuzzer with some of its options. Returns whether it has found nothing."""
    for directory in (corpus(target), _home("findings")):
        directory.mkdir(parents=True, exist_ok=True)
    finding = _home("findings") / f"{target}.input"
    finding.unlink(missing_ok=True)
    command = [program.path, "fuzz", target, f"-max_len={LONGEST}", f"-timeout={HANG}"]
    command += ["-rss_limit_mb=0", "-print_final_stats=1", f"-exact_artifact_path={finding}"]
    command += [*options, corpus(target), write_seeds(program, target)]
    log = paths.log_file(f"fuzz-{target}")
    with log.open("wb") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode
    text = log.read_text(errors="replace")
    if status:
        _report(program, target, text, finding)
        return False
    done = re.findall(r"stat::(number_of_executed_units|average_exec_per_sec):\s*(\d+)", text)
    last = [ln for ln in text.splitlines() if "cov:" in ln][-1]
    say(
        f"ok   {target}: {done[0][1]} executions, {done[1][1]} per second; "
        f"{' '.join(last.split()[2:8])}"
    )
    return True


def smoke(program: build.Program) -> bool:
    """Runs each target for a second, always with the same inputs."""
    failed = [target for target in TARGETS if not _smoke(program, target)]
    say(f"fuzzer: {len(TARGETS) - len(failed)} targets passed, {len(failed)} failed")
    return not failed


def _smoke(program: build.Program, target: str) -> bool:
    finding = _home("findings")
    finding.mkdir(parents=True, exist_ok=True)
    finding /= f"{target}.input"
    command = [str(program.path), "fuzz", target, f"-max_len={LONGEST}", f"-timeout={HANG}"]
    command += ["-rss_limit_mb=0", f"-runs={SMOKE_RUNS}", f"-seed={SMOKE_SEED}"]
    command += [f"-exact_artifact_path={finding}", "-reload=0"]
    with TemporaryDirectory() as new:
        command += [new, str(write_seeds(program, target))]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        _report(program, target, done.stdout + done.stderr, finding)
    elif not re.search(rf"Done {SMOKE_RUNS} runs", done.stderr):
        say(done.stderr[-2000:])
        raise LabError(f"{target}: the fuzzer has not run {SMOKE_RUNS} inputs")
    return not done.returncode


def replay(program: build.Program, target: str, given: str) -> bool:
    """Runs one input, a file or hexadecimal digits, and prints its events and what is logged."""
    path = Path(given)
    if not path.exists():
        path = paths.sub("tmp") / "replayed"
        path.write_bytes(bytes.fromhex(given))
    status, text = build.run(program, "replay", target, str(path))
    say(text.rstrip())
    say("FAILED" if status else "passed")
    return not status
