"""`trevision demo`: plain training and T-Revision compared, on data that needs no download."""

from __future__ import annotations

import shutil
from pathlib import Path

from trevision.cli.progress import RichProgress
from trevision.cli.terminal import accuracy, console, errors, number, table


def demo(out: Path = Path("demo-output")) -> None:
    """Train on scikit-learn's digits with half of the labels wrong, with and without T-Revision.

    Trains `standard` and `reweight-r` (same network, budget and selection) with three seeds. Prints the
    accuracies on clean test digits and the errors of T, and draws T. Downloads nothing.

    For example:

    $ trevision demo
    $ trevision demo --out demo

    Args:
        out: The folder for the picture and the six runs. An earlier demo in it is replaced.
    """
    from trevision.reproduce.demo import METHODS, NOISE, SEEDS, SOURCE, demonstrate

    _clear_demo(out, {f"{method}-{seed}" for method in METHODS for seed in SEEDS} | {"transition.svg"})
    result = demonstrate(out, lambda title: RichProgress(title, errors))
    rows = [
        (
            method,
            str(seed),
            accuracy(run["test_accuracy"]),
            number(run["initial_transition_error"]),
            number(run["transition_error"]) if run["uses_transition"] else "-",
        )
        for (method, seed), run in result.results.items()
    ]
    rows += [
        (
            method,
            f"mean of {len(SEEDS)}",
            f"{accuracy(result.mean(method, 'test_accuracy'))} ± "
            f"{100 * result.spread(method, 'test_accuracy'):.2f}",
            number(result.mean(method, "initial_transition_error")),
            number(result.mean(method, "transition_error")) if result.uses_transition(method) else "-",
        )
        for method in METHODS
    ]
    title = f"{SOURCE} with {NOISE} label noise"
    console.print(
        table(
            ["method", "seed", "test accuracy", "T error, initial", "T error, learnt"],
            rows,
            title,
        )
    )
    gain = result.mean("reweight-r", "test_accuracy") - result.mean("standard", "test_accuracy")
    console.print(f"reweight-r minus standard: {100 * gain:+.2f} points.")
    console.print(f"Picture of T: {result.picture}", soft_wrap=True)


def _clear_demo(out: Path, ours: set[str]) -> None:
    """Remove an earlier demo. It is an error if the folder holds anything whose name is not in `ours`."""
    if out.exists() and (not out.is_dir() or any(path.name not in ours for path in out.iterdir())):
        raise ValueError(f"out must be a new folder or that of an earlier demo, got {out}")
    shutil.rmtree(out, ignore_errors=True)
