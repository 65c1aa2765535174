"""What is equal to the bit, and what is not: one run each way, compared with the first.

Claim: the same command, seed and number of threads give the same bits on one machine, however often the run
was stopped and whichever workers did it; other threads or another kind of processor may not. Other processors
are stood for by this one without its newer instructions, which is what most of the difference is made of.
Each comparison is one run (n = 1) on a table of 600 rows, and a grid on 300 of the digits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

UNTOLD = ("seconds", "date", "commit", "clean", "cpu", "threads")
"""What of a result depends on the clock, the checkout or the machine, as its name says."""
OLDER = {
    "ATEN_CPU_CAPABILITY": "default",
    "OPENBLAS_CORETYPE": "Prescott",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX2 FMA3 AVX512_SPR AVX512_ICL AVX512_CLX",
}
"""The settings of torch, OpenBLAS, MKL, oneDNN and numpy that leave out newer instructions."""

NETWORK = ("fit", "data.csv", "--method", "forward")
MODELS = {name: ("fit", "data.csv", "--model", name) for name in ("linear", "forest", "boosting")}
GRID = ("reproduce", "table3", "--dataset", "digits", "--methods", "standard", "forward")
GRID += ("--noise", "sym-20", "--seeds", "1", "--train-size", "300")


def write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=600)
    x = 2 * np.eye(3, 6)[clean] + rng.normal(size=(600, 6))
    label = np.where(rng.random(600) < 0.25, (clean + 1) % 3, clean)
    lines = [
        ",".join([*(f"{value:.4f}" for value in row), "abc"[code]])
        for row, code in zip(x, label, strict=True)
    ]
    path.write_text("\n".join(["a,b,c,d,e,f,label", *lines, ""]))


def command(folder: Path, words: tuple[str, ...], **environment: str) -> None:
    program = [sys.executable, "-m", "trevision", *words]
    done = subprocess.run(
        program, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")


def timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in UNTOLD}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def results(run: Path) -> list[object]:
    """What runs in a folder found, and the weights of their networks."""
    found = [timeless(json.loads(path.read_text())) for path in sorted(run.rglob("result.json"))]
    assert found, run
    return [*found, *(path.read_bytes() for path in sorted(run.rglob("model.safetensors")))]


def probabilities(run: Path) -> np.ndarray | None:
    """P(noisy | x) of held-out rows, if there is one run."""
    files = list(run.rglob("probabilities.npz"))
    if len(files) != 1:
        return None
    with np.load(files[0]) as stored:
        return np.asarray(stored["probs"])


def told(what: str, how: str, one: Path, other: Path) -> None:
    """A line of the table."""
    equal = results(one) == results(other)
    before, after = probabilities(one), probabilities(other)
    most = "" if before is None or after is None else f"{np.abs(before - after).max():.1g}"
    print(f"| {what} | {how} | {'yes' if equal else 'no'} | {most} |", flush=True)


def main() -> None:
    print("| what | the other run | equal to the bit | largest difference of a probability |")
    print("|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="trevision-bits-") as name:
        folder = Path(name)
        write_table(folder / "data.csv")
        ways = {
            "again": ("1", {}),
            "2 threads in place of 1": ("2", {}),
            "without AVX instructions": ("1", OLDER),
        }
        for what, words in {"a network": NETWORK, **{f"model {one}": MODELS[one] for one in MODELS}}.items():
            first = f"{what.replace(' ', '-')}-first"
            command(folder, (*words, "--threads", "1", "--out", first))
            for number, (how, (threads, environment)) in enumerate(ways.items()):
                out = f"{first}-{number}"
                command(folder, (*words, "--threads", threads, "--out", out), **environment)
                told(what, how, folder / first, folder / out)
        command(folder, (*GRID, "--workers", "1", "--results", "one"))
        for how, where in (("2 workers in place of 1", ("--workers", "2")), ("Ray", ("--ray", "local"))):
            command(folder, (*GRID, *where, "--results", where[1]))
            told("a grid of 4 runs", how, folder / "one", folder / where[1])


if __name__ == "__main__":
    main()
