"""Make small mistakes in a module, one at a time, and see whether its tests notice: `make mutants`.

Each mutant is imported in a forked child, in place of the module, and only the tests of its room are run,
until the first failure. Prints how many were killed, and each that survived; those that change nothing which
could be noticed are listed in `equal.txt` with the reason, and are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import random
import signal
import sys
import tempfile
import time
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

from mutants.change import Mutant, mutants

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "trevision"
ROOMS = {
    "noise": (["noise.py"], ["test_noise.py"]),
    "losses": (["losses/*.py"], ["test_losses*.py"]),
    "transition": (["transition.py"], ["test_transition*.py"]),
    "prior": (["prior.py"], ["test_prior.py"]),
    "stages": (["methods/stages.py"], ["methods/test_stages.py"]),
}
"""The modules of a room, and the tests that must notice their mistakes."""
EQUAL = Path(__file__).with_name("equal.txt")


class _Loader(SourceFileLoader):
    """Imports a mutant in place of the module."""

    def __init__(self, name: str, path: str, mutant: Mutant):
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.mutant.tree, self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, path: Path, mutant: Mutant):
        name = ".".join(("trevision", *path.relative_to(SOURCE).with_suffix("").parts))
        self.name, self.path, self.mutant = name.removesuffix(".__init__"), path, mutant

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        loader = _Loader(name, str(self.path), self.mutant)
        return importlib.util.spec_from_file_location(
            name,
            self.path,
            loader=loader,
            submodule_search_locations=[str(self.path.parent)] if self.path.name == "__init__.py" else None,
        )


def tested(tests: list[Path], scratch: Path, found: _Finder | None, longest: float) -> tuple[bool, float]:
    """Whether the tests pass in a child, and how many seconds of the processor they took.

    A child that computes for longer than `longest` has not passed.
    """
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setpgid(0, 0)
            with (scratch / "said").open("w") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            if found is not None:
                sys.meta_path.insert(0, found)  # type: ignore[arg-type]
            import pytest

            words = [
                "-x",
                "-q",
                "--assert=plain",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:doctest",
                "-o",
                "addopts=",
            ]
            status = int(pytest.main([*words, *map(str, tests)]))
            if found is None:
                (scratch / "modules").write_text("\n".join(filter(_is_foreign, sys.modules)))
        finally:
            os._exit(status)
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status) == 0, used.ru_utime + used.ru_stime
        if _processor_seconds(child) > longest:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _is_foreign(name: str) -> bool:
    """Whether a module is neither ours nor a test of ours: it may be imported once for all children."""
    first = name.partition(".")[0]
    return first not in ("trevision", "tests", "conftest") and not first.startswith("test_")


def _processor_seconds(process: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def equal_ones() -> set[str]:
    """The mutants that are equal to what they were made from: `module: before -> after in line  # why`."""
    return {line.rpartition("  # ")[0] for line in EQUAL.read_text().splitlines() if line.strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each room; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--containing", default="", help="only mutants whose description contains this")
    chosen = parser.parse_args()
    equal, survivors = equal_ones(), 0
    with tempfile.TemporaryDirectory(prefix="trevision-mutants-") as name:
        scratch = Path(name)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(scratch / "hypothesis")
        os.environ["TREVISION_OFFLINE"] = "1"
        for room in chosen.rooms:
            survivors += _room(room, chosen, equal, scratch)
    sys.exit(1 if survivors else 0)


def _room(room: str, chosen: argparse.Namespace, equal: set[str], scratch: Path) -> int:
    """Try the mutants of one room; returns how many survived."""
    modules, patterns = ROOMS[room]
    tests = [path for pattern in patterns for path in sorted(TESTS.glob(pattern))]
    passed, _ = tested(tests, scratch, None, 1e9)
    if not passed:
        raise SystemExit(
            f"{room}: the tests fail without a mistake: {(scratch / 'said').read_text()[-2000:]}"
        )
    for name in (scratch / "modules").read_text().splitlines():
        with contextlib.suppress(BaseException):  # some are names within another module
            importlib.import_module(name)
    assert not any(name.startswith("trevision") for name in sys.modules), "a mutant would not be imported"
    _, alone = tested(tests, scratch, None, 1e9)
    all_of_them = [
        (path, mutant)
        for pattern in modules
        for path in sorted(SOURCE.glob(pattern))
        for mutant in mutants(path.read_text())
        if chosen.containing in f"{path.relative_to(SOURCE)}: {mutant}"
    ]
    rng, began = random.Random(f"{chosen.seed} {room}"), time.monotonic()
    picked = (
        all_of_them if not chosen.sample else rng.sample(all_of_them, min(chosen.sample, len(all_of_them)))
    )
    killed, skipped, survived = 0, 0, []
    for path, mutant in picked:
        where = f"{path.relative_to(SOURCE)}: {mutant}"
        if where in equal:
            skipped += 1
            continue
        if tested(tests, scratch, _Finder(path, mutant), 10 + 3 * alone)[0]:
            survived.append(f"   line {mutant.line} of {where}")
            print(survived[-1], flush=True)
        else:
            killed += 1
    total = killed + len(survived)
    print(
        f"{room:<12} {killed} of {total} killed, {100 * killed / max(total, 1):.1f}%, "
        f"of {len(all_of_them)} mutants ({skipped} equal ones left out); "
        f"{(time.monotonic() - began) / 60:.0f} minutes",
        flush=True,
    )
    return len(survived)


if __name__ == "__main__":
    main()
