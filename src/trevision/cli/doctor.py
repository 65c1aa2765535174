"""`trevision doctor`: what is installed, on what machine, and whether it works."""

from __future__ import annotations

import sys
from pathlib import Path

from trevision.cli.self_test import summary, tried
from trevision.cli.terminal import console
from trevision.runs.machine import described


def doctor(data_dir: Path | None = None, self_test: bool = True) -> None:
    """Say what is installed, on what machine, and whether it works: one paste for the report of a bug.

    Tells versions, devices, threads, free memory and disk, and the data sets that were found. The self-test
    takes about ten seconds and learns from a small table; its files are removed. Works without torch. Your
    home folder is written ~; look through the rest before you give it away. Exit status 1 if something fails.

    For example:

    $ trevision doctor
    $ trevision doctor --no-self-test
    $ trevision doctor > doctor.txt

    Args:
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
        self_test: Try whether it works.
    """
    for name, value in described(data_dir):
        console.print(f"{name + ':':<18} {value}", soft_wrap=True)
    failed = 0
    for what, seconds, wrong in tried() if self_test else ():
        failed += bool(wrong)
        told = f"FAILED: {wrong}" if wrong else "ok"
        console.print(f"{'self-test:':<18} {what}: {told} ({seconds:.1f} s)", soft_wrap=True)
    if self_test:
        console.print(summary(failed), soft_wrap=True)
    if failed:
        sys.exit(1)
