"""What reading a long and wide table costs: 1,000,000 rows of 100 columns from a .csv file.

Claim: reading takes no more memory at its peak than the rows it ends with, as float32, and 1.2 GB besides,
which holds Python and its libraries, the sample that columns are recognised by, and the blocks under way.

The file (about 0.8 GB) is written to a temporary folder first and removed afterwards. It has 85 columns of
numbers, some of them missing, 10 of categories, 4 of dates or truths, and the labels. Memory is counted in a
process of its own, so that writing the file does not count.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from rich.console import Console
from rich.progress import track

ROWS = 1_000_000
NUMBERS, CATEGORIES = 85, 10
BLOCK = 20_000


def write_table(path: Path, rows: int) -> None:
    """Random columns; of each twentieth row ten numbers are missing."""
    rng = np.random.default_rng(0)
    words = np.array([f"value {i}" for i in range(8)])
    writer = None
    for start in track(range(0, rows, BLOCK), "write the table", console=Console(stderr=True)):
        n = min(BLOCK, rows - start)
        values = rng.normal(size=(n, NUMBERS)).round(4)
        values[rng.random(n) < 0.05, :10] = np.nan
        columns = {f"number {i}": values[:, i] for i in range(NUMBERS)}
        columns |= {f"category {i}": words[rng.integers(len(words), size=n)] for i in range(CATEGORIES)}
        for column in range(2):
            days = rng.integers(0, 5000, size=n)
            columns[f"date {column}"] = np.datetime64("2010-01-01") + days
            columns[f"truth {column}"] = np.where(days % 2, "yes", "no")
        block = pa.table(columns | {"label": rng.integers(5, size=n)})
        writer = writer or pa.csv.CSVWriter(path, block.schema)
        writer.write_table(block)
    if writer is not None:
        writer.close()


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def read(path: str) -> None:
    """Read the table at `path` and print what it took."""
    from trevision.data.load import load

    before, began, computed, moved = peak_gigabytes(), time.perf_counter(), time.process_time(), 0

    def count(done: int, total: int | None) -> None:
        nonlocal moved
        moved += 1

    dataset = load(path, progress=count)
    took, computed = time.perf_counter() - began, time.process_time() - computed
    held = dataset.train_x.numel() * 4 / 2**30
    print(
        f"{tuple(dataset.train_x.shape)} in {took:.0f} s ({computed:.0f} s of one core): "
        f"{held:.2f} GB of rows, {peak_gigabytes():.2f} GB at the peak, {before:.2f} GB before; "
        f"the progress moved {moved} times"
    )
    for note in dataset.notes:
        print(f"note: {note}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, ROWS)
        print(f"{path.stat().st_size / 2**30:.2f} GB of text, {ROWS} rows")
        subprocess.run([sys.executable, "-m", "benchmarks.wide_table", str(path)], check=True)


if __name__ == "__main__":
    read(sys.argv[1])
