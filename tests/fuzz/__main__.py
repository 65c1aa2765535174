"""Give every reader many damaged files: `make fuzz N=100000`.

An escape is anything but success or a `TrevisionError`: a traceback, a crash, more than 20 seconds of the
processor (or ten times as long on the clock), or more than 1 GB of memory beyond what the imports take.
What escapes is kept in `tests/fuzz/corpus`, which the tests replay. Every reader gets at least 1,000 inputs,
unless --least says otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.mutate import mutated
from fuzz.readers import READERS, escaped

CORPUS = Path(__file__).parent / "corpus"
MOST_SECONDS = 20
"""Of the processor: on a busy machine the clock says nothing of an input."""
LEAST_INPUTS = 1000
"""For each reader, however few are asked for over all."""
MOST_BYTES = 2**30
LARGEST_KEPT = 100_000


def work(name: str, folder: Path, seed: int, start: int, stop: int) -> None:
    """In a child: give one reader its inputs, and print the number of each before it is read."""
    reader = READERS[name]
    files = [Path(line) for line in (folder / "files").read_text().splitlines()]
    contents = {path: path.read_bytes() for path in files}
    for path in files:  # imports what reading needs, so that the limit counts what a file takes
        if problem := escaped(reader, path):
            raise SystemExit(f"{name}: the valid file {path.name} is not read: {problem}")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))
    for number in range(start, stop):
        rng = random.Random(f"{seed} {name} {number}")
        path = rng.choice(files)
        path.write_bytes(mutated(contents[path], path.name, rng))
        print(number, path, flush=True)
        problem = escaped(reader, path)
        if problem is not None:
            print("escaped", problem.replace("\n", " "), flush=True)
        path.write_bytes(contents[path])
    os._exit(0)  # what an interpreter does at its end, on a busy machine, is no input's time


def keep(name: str, path: Path) -> Path:
    """Copy an input that escaped into the corpus, if it is small."""
    content = path.read_bytes()
    kept = CORPUS / name / f"{hashlib.sha256(content).hexdigest()[:12]}-{path.name}"
    if len(content) <= LARGEST_KEPT:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(content)
    return kept


def fuzz(name: str, count: int, seed: int) -> list[str]:
    """The escapes of one reader."""
    escapes: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with contextlib.redirect_stdout(sys.stderr):
            files = READERS[name].make(folder)
        (folder / "files").write_text("\n".join(map(str, files)))
        valid = {path: path.read_bytes() for path in files}
        (folder / "valid").mkdir()
        for path, content in valid.items():
            (folder / "valid" / path.name).write_bytes(content)
        number = 0
        while number < count:
            number = _one_child(name, folder, seed, number, count, escapes)
            for path, content in valid.items():
                path.write_bytes(content)
    return escapes


def _one_child(name: str, folder: Path, seed: int, start: int, count: int, escapes: list[str]) -> int:
    """Run a child until it ends or escapes; returns the number to go on from."""
    command = [sys.executable, __file__, "--child", name, str(folder), str(seed), str(start), str(count)]
    log = folder / "log"
    with log.open("w") as out, (folder / "errors").open("w") as errors:
        child = subprocess.Popen(command, stdout=out, stderr=errors)
        seen, since, used = "", time.monotonic(), 0.0
        while child.poll() is None:
            time.sleep(0.2)
            lines = log.read_text().splitlines()
            last = next((line for line in reversed(lines) if not line.startswith("escaped")), "")
            if last != seen:
                seen, since, used = last, time.monotonic(), processor_seconds(child.pid)
            elif seen and (
                processor_seconds(child.pid) - used > MOST_SECONDS
                or time.monotonic() - since > 10 * MOST_SECONDS
            ):
                child.kill()
                child.wait()
    number, path = start, None
    for line in log.read_text().splitlines():
        if line.startswith("escaped"):
            content = mutated_again(name, folder, seed, number)
            escapes.append(f"{name} {number}: {line} -> {keep(name, content)}")
        else:
            number, path = int(line.split(" ", 1)[0]), Path(line.split(" ", 1)[1])
    if child.returncode == 0:
        return count
    if path is None:
        raise SystemExit((folder / "errors").read_text()[-2000:])
    content = mutated_again(name, folder, seed, number)
    escapes.append(f"{name} {number}: the process ended with {child.returncode} -> {keep(name, content)}")
    return number + 1


def processor_seconds(process: int) -> float:
    """The seconds that a process has computed, all its threads together; 0 once it has ended."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def mutated_again(name: str, folder: Path, seed: int, number: int) -> Path:
    """The input of this number, as a file."""
    rng = random.Random(f"{seed} {name} {number}")
    path = rng.choice([Path(line) for line in (folder / "files").read_text().splitlines()])
    again = folder / "again" / path.name
    again.parent.mkdir(exist_ok=True)
    again.write_bytes(mutated((folder / "valid" / path.name).read_bytes(), path.name, rng))
    return again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=13_000, help="inputs over all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=int, default=LEAST_INPUTS, help="inputs for each reader, at least")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        name, folder, seed, start, stop = chosen.child
        work(name, Path(folder), int(seed), int(start), int(stop))
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    each, found = max(-(-chosen.count // len(chosen.readers)), chosen.least), 0
    for name in chosen.readers:
        began = time.monotonic()
        escapes = fuzz(name, each, chosen.seed)
        found += len(escapes)
        print(
            f"{name:<14} {each:>8,} inputs  {len(escapes):>4} escapes  {time.monotonic() - began:6.0f} s",
            flush=True,
        )
        for escape in escapes[:20]:
            print("   ", escape)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
