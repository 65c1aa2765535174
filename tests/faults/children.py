"""Commands in forked children, so that a fault costs no start of Python: what is imported stays imported.

The parent never computes anything, so that no threads are left behind by a fork.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST = 300.0
"""Seconds after which a child counts as hanging, on a machine that has nothing else to do."""


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status (negative: by this signal), its words, and its seconds."""

    status: int
    said: str
    seconds: float

    @property
    def told(self) -> str:
        """Its last line."""
        return self.said.strip().splitlines()[-1] if self.said.strip() else ""

    @property
    def is_clear(self) -> bool:
        """Whether it ended well, or in one line of its own with a status that says so."""
        if self.status == 0:
            return True
        ours = self.told.startswith("trevision: ") and "this is a bug" not in self.told
        return self.status in (2, 129, 130, 143) and ours and "Traceback" not in self.said


_HEARD: dict[int, int] = {}
"""The pipe of each child's words. A file of them would meet the limit on files' sizes."""


def start(
    folder: Path,
    words: Sequence[str],
    before: Callable[[], None] | None = None,
    modules: Path | None = None,
) -> int:
    """Run a command in a child, in a process group of its own; returns its number.

    What it imported is written to `modules`, so that the parent can import it for the next ones.
    """
    heard, said = os.pipe()
    os.set_blocking(heard, False)
    child = os.fork()
    if child:
        os.close(said)
        _HEARD[child] = heard
        return child
    status = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.dup2(said, 1)
        os.dup2(said, 2)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if before is not None:
            before()
        from trevision.cli import main

        main(list(words))
        status = 0
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def wait(child: int, began: float, patience: float | None = None) -> Ended:
    """Wait for a child; one that hangs is killed, and ends with the status of that."""
    said = b""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        with contextlib.suppress(BlockingIOError):
            said += os.read(_HEARD[child], 2**20)
        seconds = time.monotonic() - began
        if done:
            break
        if seconds > (patience or LONGEST * crowding()):
            kill_group(child)
        time.sleep(0.005)
    os.close(_HEARD.pop(child))
    return Ended(os.waitstatus_to_exitcode(status), said.decode(errors="replace"), seconds)


def crowding() -> float:
    """How many processes share a processor here: on a busy machine everything takes so many times longer."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def run(folder: Path, words: Sequence[str], before: Callable[[], None] | None = None) -> Ended:
    """Run a command in a child and wait for it."""
    began = time.monotonic()
    return wait(start(folder, words, before), began)


def kill_group(child: int, number: int = signal.SIGKILL) -> None:
    """A signal for a child and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, number)


def children_of(parent: int) -> list[int]:
    """The processes that a process started, as Linux lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(path.parent.name))
    return found
