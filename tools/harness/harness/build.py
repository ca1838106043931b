# SPDX-License-Identifier: GPL-2.0
"""Builds the programs from objects of the module, of the kernel and of the harness.

The outputs lie in the lab's cache, in a directory that is named after the kernel's build.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.command import capture, logged
from lab.errors import LabError
from lab.kernel import Kernel
from lab.progress import step

from lab import module, paths, settings

HARNESS = Path(__file__).resolve().parent.parent
#: Objects of the kernel: SUNRPC, and the library code that SUNRPC and the modules use.
KERNEL_OBJECTS = (
    *(f"net/sunrpc/{name}.o" for name in ("xprt", "sched", "clnt", "auth", "auth_null", "xdr")),
    *(f"net/sunrpc/{name}.o" for name in ("backchannel_rqst", "timer", "stats", "addr")),
    *(f"net/sunrpc/{name}.o" for name in ("svc", "svc_xprt")),
    *(f"lib/{name}.o" for name in ("rbtree", "llist", "lwq", "xarray", "idr", "radix-tree")),
    *(f"lib/{name}.o" for name in ("refcount", "scatterlist", "find_bit", "percpu_counter")),
    "kernel/sched/build_utility.o",
)
_CRATES = ("core", "compiler_builtins", "ffi", "kernel", "bindings", "pin_init")
RUST_OBJECTS = (*(f"rust/{name}.o" for name in _CRATES), "rust/helpers/helpers.o")
# Functions of SUNRPC whose calls the harness intercepts.
WRAPPED = ("xprt_force_disconnect", "svc_reg_xprt_class")
STOCK_OBJECT = "net/sunrpc/xprtrdma/rpcrdma.o"
#: The library with which the stock module's server makes RDMA Reads and Writes.
STOCK_HELPERS = ("drivers/infiniband/core/rw.o",)
#: Functions of the C library. They call no others, so they work with the kernel's stack alignment.
LIBRARY = frozenset(
    {
        *("memcpy", "memmove", "memset", "memcmp", "memchr", "bcmp", "strlen", "strnlen"),
        *("strcmp", "strncmp", "strchr", "strrchr", "strstr", "strcpy", "strcat", "strcspn"),
    }
)
#: U_MISSING and U_MISSING_STEP of user.h.
MISSING, MISSING_STEP = 0x100000, 16
USER_FLAGS = [
    "-D_GNU_SOURCE",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-fno-pie",
]
#: The kernel aligns stacks to eight bytes only.
USER_FLAGS += ["-mstackrealign"]


@dataclass(frozen=True)
class Program:
    """A program that contains one of the modules."""

    name: str
    path: Path
    #: The module's object.
    module: Path
    #: Objects of the kernel that only the module calls.
    helpers: tuple[Path, ...]
    #: Versions of the compilers of the module.
    compiler: str


def _compiler(kernel: Kernel) -> list[str]:
    llvm = kernel.tools.llvm
    if not llvm:
        return ["gcc"]
    suffix = llvm if llvm.startswith("-") else ""
    return [f"clang{suffix}", f"--ld-path=ld.lld{suffix}"]


def _root(kernel: Kernel) -> Path:
    """Returns the output directory, one for each kernel and work tree."""
    tree = hashlib.sha256(str(paths.ROOT).encode()).hexdigest()[:8]
    return paths.sub("harness") / f"{kernel.obj.name}-{tree}"


def _versions(kernel: Kernel) -> str:
    """Returns the versions of the compilers of the module."""
    tools = (kernel.tools.rustc, _compiler(kernel)[0])
    return ", ".join(capture([tool, "--version"]).splitlines()[0] for tool in tools)


def _linker(kernel: Kernel) -> str:
    llvm = kernel.tools.llvm
    return f"ld.lld{llvm if llvm.startswith('-') else ''}" if llvm else "ld"


def symbolizer(kernel: Kernel) -> str:
    """Returns the program that finds the source of an address."""
    llvm = kernel.tools.llvm or ""
    return f"llvm-symbolizer{llvm if llvm.startswith('-') else ''}"


def _kbuild(kernel: Kernel, tree: Path, target: str, log: Path, *more: str) -> Path:
    """Builds one object of an external module. Undefined symbols are no error."""
    make = ["make", "-C", kernel.obj, f"M={tree}", f"-j{settings.jobs()}"]
    env = {**kernel.tools.env(), "MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": "0"}
    # The harness has scenarios of RFC 5666, so the module has it, whatever the environment says.
    logged([*make, *kernel.tools.make_args(), "RPCRDMA_LEGACY=y", *more, target], log, env=env)
    return tree / target


def _module(kernel: Kernel, tree: Path, log: Path, *more: str) -> Path:
    module.copy_sources(paths.ROOT, tree)
    return _kbuild(kernel, tree, "rpcrdma.o", log, *more)


def _sources(root: Path) -> Path:
    """Copies the harness's C sources, so that the build leaves no files in the work tree."""
    tree = root / "harness"
    tree.mkdir(parents=True, exist_ok=True)
    by_content = ["--checksum", "--no-times", "--exclude=*.o", "--exclude=.*"]
    wanted = ["--include=/kernel/", "--include=/user/", "--include=*.[ch]", "--include=Kbuild"]
    command = ["rsync", "-a", *by_content, *wanted, "--exclude=*"]
    capture([*command, f"{HARNESS}/", f"{tree}/"])
    return tree


def _user_objects(kernel: Kernel, tree: Path, log: Path, *, engine: bool = False) -> list[Path]:
    """Compiles the part with the C library; with `engine`, what only the fuzzer has as well."""
    objects = []
    for source in sorted((tree / "user").glob("*.c")):
        if source.stem == "engine" and not engine:
            continue
        objects.append(source.with_suffix(".o"))
        command = [_compiler(kernel)[0], *USER_FLAGS, "-c", source, "-o", objects[-1]]
        logged(command, log)
    return objects


def symbols(path: Path, *options: str) -> set[str]:
    """Returns the names in an object file's symbol table."""
    return {line.split()[-1] for line in capture(["nm", *options, str(path)]).splitlines()}


def _missing(joined: Path, user: Iterable[Path]) -> list[str]:
    """Returns the symbols that no object defines."""
    there = set(LIBRARY).union(*(symbols(path, "--defined-only") for path in user))
    there |= {"const_current_task", *(f"__real_{name}" for name in WRAPPED)}
    return sorted(symbols(joined, "-u") - there)


def _missing_table(names: list[str], path: Path) -> None:
    """Writes the table from which a program prints the name of an undefined symbol."""
    text = ["const char *const u_missing[] = {", *(f'\t"{name}",' for name in names), "\t0", "};"]
    text.append(f"const unsigned long u_missing_count = {len(names)};")
    path.write_text("\n".join(text) + "\n")


def _join(
    kernel: Kernel, module: Path, parts: list[Path], target: Path, log: Path, *options: str
) -> None:
    """Links all objects from Kbuild into one object, `target`.

    objtool turns jumps of static keys that are off into no-ops. Kbuild has run it on the module's
    object, but not on the objects that are part of the kernel image.
    """
    base = target.with_suffix(".base.o")
    logged([_linker(kernel), "-r", "-o", base, *parts], log)
    objtool = kernel.obj / "tools/objtool/objtool"
    logged([objtool, "--hacks=jump_label", "--link", base], log)
    logged([_linker(kernel), "-r", *options, "-o", target, module, base], log)
    # These sections are notes for objtool. The linker would warn of them.
    logged(["objcopy", "--remove-section=.discard*", target], log)


@dataclass(frozen=True)
class Recipe:
    """The parts of a program that others do not have."""

    #: Options for the linker that joins the objects of Kbuild.
    joining: tuple[str, ...] = ()
    #: Options and libraries for the link of the program.
    libraries: tuple[str, ...] = ()
    #: The symbols of the libraries.
    known: frozenset[str] = frozenset()


def _link(
    kernel: Kernel,
    name: str,
    parts: list[Path],
    user: list[Path],
    log: Path,
    recipe: Recipe = Recipe(),
) -> Path:
    """Links a program. The first of its parts is the module.

    Each undefined symbol gets an address where nothing is mapped.
    """
    root = user[0].parent.parent.parent
    joined, table, program = root / f"{name}.joined.o", root / f"{name}.missing.c", root / name
    _join(kernel, parts[0], parts[1:], joined, log, *recipe.joining)
    names = [n for n in _missing(joined, user) if n not in recipe.known]
    _missing_table(names, table)
    compiler = _compiler(kernel)
    logged([compiler[0], *USER_FLAGS, "-c", table, "-o", table.with_suffix(".o")], log)
    addresses = [f"-Wl,--defsym={n}={MISSING + i * MISSING_STEP:#x}" for i, n in enumerate(names)]
    response = root / f"{name}.symbols"
    response.write_text("\n".join(addresses) + "\n")
    options = ["-static", "-no-pie", "-Wl,-z,noexecstack"]
    options += [f"-Wl,--wrap={name}" for name in WRAPPED]
    options += ["-Wl,--defsym=const_current_task=current_task", f"@{response}"]
    objects = [joined, *user, table.with_suffix(".o")]
    logged([*compiler, *options, *objects, *recipe.libraries, "-o", program], log)
    return program


#: The coverage that libFuzzer reads, by codegen options that a stable compiler has; and the lines
#: of the source.
COVERAGE = (
    "-Cpasses=sancov-module -Cdebuginfo=line-tables-only"
    " -Cllvm-args=-sanitizer-coverage-level=3"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
    " -Cllvm-args=-sanitizer-coverage-pc-table"
    " -Cllvm-args=-sanitizer-coverage-trace-compares"
)


#: Functions of libFuzzer that instrumented code calls before it compares. user/engine.c has others.
COMPARED = tuple(
    f"__sanitizer_cov_trace_{kind}{size}" for kind in ("cmp", "const_cmp") for size in (1, 2, 4, 8)
)


def _engine(kernel: Kernel) -> tuple[str, ...]:
    """Returns libFuzzer as the compiler's package has it, and the C++ library that it needs.

    # Errors
    `LabError` if the kernel is not compiled by clang, or the package is missing.
    """
    if not kernel.tools.llvm:
        raise LabError("the fuzzer needs a kernel that clang has compiled")
    compiler = _compiler(kernel)[0]
    place = Path(capture([compiler, "-print-resource-dir"]).strip())
    found = sorted(place.glob("lib/**/*fuzzer_no_main*"))
    found = [path for path in found if "i386" not in path.name]
    if not found:
        raise LabError(f"{compiler} has no libFuzzer: make lab-deps")
    return (str(found[0]), "-lstdc++", "-lm", "-lpthread")


def _state(kernel: Kernel, user: list[Path], log: Path) -> list[Path]:
    """Joins those objects of the part with the C library whose variables a snapshot contains."""
    kept = [path for path in user if path.stem in ("memory", "coroutine")]
    joined = user[0].parent / "state.joined.o"
    logged([_linker(kernel), "-r", "-T", HARNESS / "snapshot.lds", "-o", joined, *kept], log)
    return [joined, *(path for path in user if path not in kept)]


def build_fuzzer(kernel: Kernel) -> Program:
    """Builds the program with our module, compiled with coverage, and libFuzzer.

    # Errors
    As for `_engine`, and `LabError` with the end of the build's log.
    """
    log = paths.log_file("harness-fuzz")
    log.unlink(missing_ok=True)
    engine = _engine(kernel)
    with paths.locked(f"harness-{_root(kernel).name}"), step("harness: building the fuzzer", log):
        root = _root(kernel)
        ours = _module(kernel, root / "module-fuzz", log, f"KRUSTFLAGS={COVERAGE}")
        tree = _sources(root)
        stand_ins = _kbuild(kernel, tree / "kernel", "stand_ins.o", log)
        user = _state(kernel, _user_objects(kernel, tree, log, engine=True), log)
        parts = [ours, *(kernel.obj / part for part in RUST_OBJECTS), stand_ins]
        parts += [kernel.obj / part for part in KERNEL_OBJECTS]
        recipe = Recipe(
            joining=("-T", str(HARNESS / "snapshot.lds")),
            libraries=(*(f"-Wl,--wrap={name}" for name in COMPARED), *engine),
            known=frozenset(n for n in symbols(ours, "-u") if "sanitizer" in n or "sancov" in n),
        )
        path = _link(kernel, "fuzzer", parts, user, log, recipe)
    rust = tuple(kernel.obj / part for part in RUST_OBJECTS)
    return Program("fuzzer", path, ours, rust, _versions(kernel))


def build(kernel: Kernel) -> list[Program]:
    """Builds the program with our module, and one with the stock module if the kernel has it."""
    log = paths.log_file("harness")
    log.unlink(missing_ok=True)
    with paths.locked(f"harness-{_root(kernel).name}"), step("harness: building", log):
        root = _root(kernel)
        ours = _module(kernel, root / "module", log)
        tree = _sources(root)
        stand_ins = _kbuild(kernel, tree / "kernel", "stand_ins.o", log)
        user = _user_objects(kernel, tree, log)
        base = [stand_ins, *(kernel.obj / part for part in KERNEL_OBJECTS)]
        rust = [kernel.obj / part for part in RUST_OBJECTS]
        version = _versions(kernel)
        path = _link(kernel, "ours", [ours, *rust, *base], user, log)
        programs = [Program("ours", path, ours, tuple(rust), version)]
        stock = kernel.obj / STOCK_OBJECT
        if stock.exists():
            helpers = [kernel.obj / part for part in STOCK_HELPERS]
            path = _link(kernel, "stock", [stock, *helpers, *base], user, log)
            programs.append(Program("stock", path, stock, tuple(helpers), version))
    return programs


def names(path: Path) -> list[tuple[int, str]]:
    """Returns addresses and names of a program's functions, by address."""
    found = []
    for line in capture(["nm", "-n", "-C", "--defined-only", str(path)]).splitlines():
        address, kind, name = line.split(maxsplit=2)
        if kind in "tTwW":
            found.append((int(address, 16), name))
    return found


def named(program: Program, text: str) -> str:
    """Replaces the addresses in <> that a program prints by names of functions."""
    if "<0x" not in text:
        return text
    all_names = names(program.path)

    def name(match: re.Match[str]) -> str:
        address = int(match.group(1), 16)
        index = bisect.bisect_right(all_names, (address, "~")) - 1
        if index < 0:
            return match.group()
        return f"{all_names[index][1]}+{address - all_names[index][0]:#x}"

    return re.sub("<(0x[0-9a-f]+)>", name, text)


def run(program: Program, *arguments: str) -> tuple[int, str]:
    """Runs a program. Returns its exit status and its output.

    # Errors
    `LabError`: the program has not ended after ten minutes, and does not choose orders at random
    or without end.
    """
    command = [str(program.path), *arguments]
    limit = None if arguments[0] in ("explore-all", "random", "long") else 600
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        raise LabError(f"{' '.join(command)}: not done after ten minutes") from late
    return done.returncode, named(program, done.stdout + done.stderr)
