"""The kinds of faults. Each ends in the same bits, or in a clear error with everything finished kept."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

from faults.children import Ended, children_of, kill_group, run, start, wait
from faults.commands import COMMANDS, Command, content, fresh


@dataclass
class Tally:
    """A line of the table. `hit` counts the faults that met a command at work."""

    kind: str
    tried: int = 0
    hit: int = 0
    survived: int = 0
    lost: list[str] = field(default_factory=list)

    def add(self, hit: bool, wrong: str | None) -> None:
        self.tried += 1
        self.hit += hit
        if wrong is None:
            self.survived += 1
        else:
            self.lost.append(wrong)


_MADE: dict[Callable[[Path], None], Path] = {}
"""What several commands need is made once."""


class Place:
    """A command, the folder it begins with, what it leaves if nothing happens, and how long that takes."""

    def __init__(self, command: Command, scratch: Path) -> None:
        self.command = command
        home = scratch / command.name.replace(" ", "-")
        self.template, self.folder = home / "template", home / "work"
        made = _MADE.setdefault(command.ready, self.template)
        if made is self.template:
            self._make()
        else:
            shutil.copytree(made, self.template)
        for _ in range(2):  # the second time with everything imported, which is as the faults find it
            fresh(self.template, self.folder)
            began = time.monotonic()
            done = wait(start(self.folder, command.words, modules=home / "modules"), began)
            if done.status:
                raise SystemExit(f"{command.name} fails without a fault: {done.said[-2000:]}")
            for name in (home / "modules").read_text().splitlines():
                with contextlib.suppress(Exception):  # some are names within another module
                    import_module(name)
        self.expected, self.seconds = content(self.folder, command.left_out), done.seconds
        self.before = content(self.template, command.left_out)

    def _make(self) -> None:
        """Make what the command needs, in a child."""
        self.template.mkdir(parents=True)
        child = os.fork()
        if not child:
            status = 1
            try:
                os.chdir(self.template)
                with open(os.devnull, "w") as nothing:
                    os.dup2(nothing.fileno(), 1)
                    self.command.ready(self.template)
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{self.command.name}: what it needs could not be made")

    def wrong(self, ended: Ended, may_be_silent: bool = False) -> str | None:
        """What was lost: None if the same command now gives the same bits, and its end was clear."""
        if not may_be_silent and not ended.is_clear:
            return f"ended with {ended.status}: {ended.told[:300]}"
        for name, value in content(self.folder, self.command.left_out).items():
            known = (self.before.get(name), self.expected.get(name))
            if name in self.before and value not in known and not name.startswith("results/"):
                return f"{name} is neither as before nor as it should be"
        again = run(self.folder, self.command.words)
        if again.status:
            return f"the same command then ended with {again.status}: {again.told[:300]}"
        now = content(self.folder, self.command.left_out)
        differ = [name for name in now.keys() | self.expected if now.get(name) != self.expected.get(name)]
        return f"other bits in {', '.join(sorted(differ))}" if differ else None

    def moment(self, rng: random.Random) -> float:
        return rng.uniform(0, self.seconds)


def signalled(place: Place, rng: random.Random, tally: Tally, number: int) -> None:
    """A signal at a random moment. Nothing but SIGKILL may end without a word."""
    fresh(place.template, place.folder)
    began = time.monotonic()
    child = start(place.folder, place.command.words)
    time.sleep(place.moment(rng))
    killed = number == signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        (kill_group if killed else os.kill)(child, number)
    ended = wait(child, began)
    kill_group(child)
    hit = ended.status != 0
    if hit and not killed and ended.status not in (128 + number,):
        tally.add(hit, f"{signal.Signals(number).name} ended with {ended.status}: {ended.told[:300]}")
    else:
        tally.add(hit, place.wrong(ended, may_be_silent=killed))


PATIENCE = 60.0
"""Seconds after which a command without memory is killed."""


def limited(place: Place, rng: random.Random, tally: Tally, what: int) -> None:
    """Too little disk (a limit on a file's size stands for it) or too little memory.

    Where no memory is left, the compiled parts of others end the process without a word (safetensors), in
    their own words (OpenBLAS of numpy), or ask for memory for ever (OpenBLAS of scipy), until somebody kills
    it. It is then as after SIGKILL: nothing may be lost.
    """
    fresh(place.template, place.folder)
    if what == resource.RLIMIT_AS:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + int(2 ** rng.uniform(20, 29))
    else:
        limit = int(2 ** rng.uniform(0, 16))
    began = time.monotonic()
    set_limit = partial(resource.setrlimit, what, (limit, limit))
    ended = wait(start(place.folder, place.command.words, set_limit), began, PATIENCE)
    by_others = ended.status < 0 or ended.told.startswith("OpenBLAS error")
    died = what == resource.RLIMIT_AS and by_others
    tally.add(ended.status != 0, place.wrong(ended, may_be_silent=died))


def read_only(place: Place, rng: random.Random, tally: Tally) -> None:
    """A folder that must not be written to, for one who is not root."""
    fresh(place.template, place.folder)
    folders = [place.folder, *(path for path in place.folder.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)

    def give_up_rights() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)

    ended = run(place.folder, place.command.words, give_up_rights)
    for folder in folders:
        folder.chmod(0o755)
    tally.add(ended.status != 0, place.wrong(ended))


def removed(place: Place, rng: random.Random, tally: Tally) -> None:
    """The folder that is written to is removed at a random moment, by someone else."""
    fresh(place.template, place.folder)
    began = time.monotonic()
    child = start(place.folder, place.command.words)
    time.sleep(place.moment(rng))
    gone = place.folder / "run"
    was_there = gone.exists()
    shutil.rmtree(gone, ignore_errors=True)
    ended = wait(child, began)
    wrong = None if ended.is_clear else f"ended with {ended.status}: {ended.told[:300]}"
    if ended.status == 0 and gone.exists():  # it went on: then all must be there
        wrong = wrong or place.wrong(ended)
    elif wrong is None:
        fresh(place.template, place.folder)
        wrong = place.wrong(ended)
    tally.add(was_there, wrong)


def clock_back(place: Place, rng: random.Random, tally: Tally) -> None:
    """A clock that jumps back by years, again and again, and a source that was written in the future."""
    fresh(place.template, place.folder)
    for path in place.folder.rglob("*"):
        os.utime(path, (2e9, 2e9))
    real = time.time

    def set_back() -> None:
        time.time = lambda: real() - rng.uniform(0, 1e9)  # type: ignore[assignment]
        time.time_ns = lambda: int(time.time() * 1e9)  # type: ignore[assignment]

    ended = run(place.folder, place.command.words, set_back)
    tally.add(
        True, place.wrong(ended) if ended.status == 0 else f"ended with {ended.status}: {ended.told[:300]}"
    )


def two_writers(place: Place, rng: random.Random, tally: Tally) -> None:
    """The same command twice at once, and one of another seed: one run, and the others are told."""
    fresh(place.template, place.folder)
    began = time.monotonic()
    first = start(place.folder, place.command.words)
    time.sleep(rng.uniform(0, place.seconds / 2))
    other = (*place.command.words, "--seed", "5") if rng.random() < 0.5 else place.command.words
    second = start(place.folder, other)
    ends = wait(first, began), wait(second, began)
    unclear = [end for end in ends if not end.is_clear]
    if unclear:
        tally.add(True, f"ended with {unclear[0].status}: {unclear[0].told[:300]}")
    elif ends[0].status != 0 and ends[1].status != 0:
        tally.add(True, "both were refused")
    elif ends[0].status == 0:
        tally.add(True, place.wrong(ends[0]))
    else:  # the second came first: the folder holds its run, whole
        tally.add(True, None if (place.folder / "run" / "result.json").exists() else "no result")


def worker_killed(place: Place, rng: random.Random, tally: Tally) -> None:
    """A worker of a grid dies: its run failed, the others are kept, and the same command goes on."""
    fresh(place.template, place.folder)
    began = time.monotonic()
    child = start(place.folder, place.command.words)
    time.sleep(place.moment(rng))
    workers = children_of(child)
    for one in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    ended = wait(child, began)
    kill_group(child)
    clear = ended.status in (0, 1) and "Traceback" not in ended.said
    tally.add(
        bool(workers),
        place.wrong(ended, may_be_silent=True) if clear else f"ended with {ended.status}: {ended.told[:300]}",
    )


Fault = Callable[[Place, random.Random, Tally], None]

OTHERS: dict[str, tuple[Fault, tuple[str, ...], int]] = {
    "disk full": (
        partial(limited, what=resource.RLIMIT_FSIZE),
        ("fit", "issues", "apply", "audit", "report"),
        20,
    ),
    "out of memory": (partial(limited, what=resource.RLIMIT_AS), ("fit", "fit a model"), 8),
    "read-only": (read_only, ("fit", "apply", "audit", "report"), 4),
    "folder removed": (removed, ("fit", "fit a model"), 12),
    "clock set back": (clock_back, ("fit", "fit a model", "apply"), 3),
    "two writers": (two_writers, ("fit", "fit a model"), 6),
    "SIGINT": (partial(signalled, number=signal.SIGINT), ("fit", "fit a model", "report", "apply"), 12),
    "SIGTERM": (partial(signalled, number=signal.SIGTERM), ("fit", "issues", "audit"), 12),
    "SIGHUP": (partial(signalled, number=signal.SIGHUP), ("fit", "fit a model", "report"), 6),
    "a worker killed": (worker_killed, ("grid",), 3),
}
"""Each fault, the commands that it meets in turn, and how often in the long mode."""


def planned(kills: int, others: float, slow: bool) -> Iterator[tuple[str, Fault, str]]:
    """The faults to try: `kills` by SIGKILL, and the others as in the long mode, times `others`."""
    chosen = [one for one in COMMANDS.values() if slow or not one.slow]
    shares = sum(one.share for one in chosen)
    kill = partial(signalled, number=signal.SIGKILL)
    for one in chosen:
        for _ in range(round(kills * one.share / shares) or (kills >= len(chosen))):
            yield f"SIGKILL, {one.name}", kill, one.name
    for kind, (fault, names, times) in OTHERS.items():
        usable = [name for name in names if slow or not COMMANDS[name].slow]
        for number in range(round(times * others + 0.49) if usable else 0):
            yield kind, fault, usable[number % len(usable)]
