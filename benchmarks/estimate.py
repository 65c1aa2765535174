"""What `trevision estimate` costs: 200,000 rows by 1,000 classes of probabilities in an .npz file of 0.8 GB.

Claims, measured on the command in a process of its own:
1. its memory (largest resident set, the interpreter and all libraries included) stays under 2 GB;
2. it ends within two minutes on two cores.

The file is made in pieces from a planted T (70% of a class labelled rightly, 20% as the next class, 10% as
any) and clean posteriors with most of their mass on one class; labels are drawn from the noisy posterior.
Before that, `estimate_speed` prints what estimates from arrays cost.

Printed: memory, wall and processor time, and the noise rate found beside the planted one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import estimate_speed

ROWS, CLASSES = 200_000, 1_000
ROWS_AT_ONCE = 2_000
RIGHT, NEXT = 0.7, 0.2


def noisy_posteriors(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """P(noisy | x), some rows at a time."""
    each = np.arange(ROWS_AT_ONCE)
    for _ in track(range(ROWS // ROWS_AT_ONCE), "making the file", console=Console(stderr=True)):
        clean = np.zeros((ROWS_AT_ONCE, CLASSES), dtype=np.float32)
        sureness = rng.beta(20, 1, size=ROWS_AT_ONCE)
        clean[each, rng.integers(CLASSES, size=ROWS_AT_ONCE)] += sureness
        clean[each, rng.integers(CLASSES, size=ROWS_AT_ONCE)] += 1 - sureness
        yield RIGHT * clean + NEXT * np.roll(clean, 1, axis=1) + np.float32((1 - RIGHT - NEXT) / CLASSES)


def make_file(path: Path) -> None:
    """An uncompressed .npz file with arrays probs and labels, never held whole."""
    rng = np.random.default_rng(0)
    labels = []
    header = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, CLASSES)}
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("probs.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for probs in noisy_posteriors(rng):
                member.write(probs.tobytes())
                drawn = probs.cumsum(axis=1) < rng.random((len(probs), 1), dtype=np.float32)
                labels.append(drawn.sum(axis=1).clip(max=CLASSES - 1))
        with archive.open("labels.npy", "w") as member:
            np.lib.format.write_array(member, np.concatenate(labels))


def main() -> None:
    estimate_speed.main()
    with tempfile.TemporaryDirectory() as name:
        path, out = Path(name) / "probs.npz", Path(name) / "noise"
        make_file(path)
        began = time.perf_counter()
        command = [sys.executable, "-m", "trevision", "estimate", str(path), "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads((out / "estimate.json").read_text(encoding="utf-8"))
    # Kilobytes on Linux, bytes on macOS.
    memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    table = Table(title=f"trevision estimate, {ROWS:,} x {CLASSES:,}, {os.cpu_count()} cores")
    for column in ("memory (<= 2 GB)", "wall (<= 120 s)", "processor", "noise rate", "planted"):
        table.add_column(column, justify="right")
    rate = found["noise_rate"]
    planted = 1 - RIGHT - (1 - RIGHT - NEXT) / CLASSES
    table.add_row(
        f"{memory / 2**30:.2f} GB",
        f"{wall:.0f} s",
        f"{used.ru_utime + used.ru_stime:.0f} s",
        f"{rate['estimate']:.3f} [{rate['low']:.3f}, {rate['high']:.3f}]",
        f"{planted:.3f}",
    )
    Console().print(table)
