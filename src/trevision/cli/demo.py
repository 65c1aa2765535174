"""`trevision demo`: wrong labels found and reviewed, methods compared, on data that needs no download."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from trevision.cli.progress import RichProgress
from trevision.cli.terminal import accuracy, console, errors, number, table

if TYPE_CHECKING:
    from trevision.reproduce.demo import Comparison, Review


def demo(out: Path = Path("demo-output")) -> None:
    """Find digits in wrong folders; compare T-Revision to plain training.

    First, scikit-learn's digits are written as a folder of images, a tenth of them in the wrong class. They
    are learnt, the wrong ones are listed, and a page to review them on is written. Then half of the labels
    are made wrong, and three methods learn from them with three seeds: plain training, T-Revision, and the
    correction by our own estimate of T. Prints accuracies on clean test digits and the errors of T, and draws
    T.

    For example:

    $ trevision demo
    $ trevision demo --out demo

    Args:
        out: The folder for images, runs, page and picture. An earlier demo in it is replaced.
    """
    from trevision.reproduce.demo import compare, find_misfiled, names_written

    _clear_demo(out, names_written())
    _print_review(find_misfiled(out, lambda title: RichProgress(title, errors)))
    _print_comparison(compare(out, lambda title: RichProgress(title, errors)))


def _print_review(found: Review) -> None:
    from trevision.report.page import write_report

    rows = len(found.issues.table)
    console.print(f"1. Digits in wrong folders: {found.misfiled} of {rows:,} images, and nothing says which")
    page = write_report(found.run_folder)
    console.print(found.issues.issues.headline(), soft_wrap=True)
    console.print(
        f"listed are {found.listed}; in truth {found.rightly_listed} of these are in the wrong folder",
        soft_wrap=True,
    )
    console.print(f"to review them, open {page.path}", soft_wrap=True)


def _print_comparison(result: Comparison) -> None:
    from trevision.reproduce.demo import METHODS, NOISE, SEEDS, SOURCE

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
            "-",
        )
        for method in METHODS
    ]
    console.print()
    console.print(f"2. {SOURCE} with {NOISE} label noise: half of the labels are wrong")
    console.print(table(["method", "seed", "test accuracy", "T error, initial", "T error, learnt"], rows))
    for method in list(METHODS)[1:]:
        gain = result.mean(method, "test_accuracy") - result.mean("standard", "test_accuracy")
        console.print(f"{method} minus standard: {100 * gain:+.2f} points")
    console.print(f"picture of T (seed {result.picture_seed}): {result.picture}", soft_wrap=True)


def _clear_demo(out: Path, ours: set[str]) -> None:
    """Remove an earlier demo. It is an error if the folder holds anything whose name is not in `ours`."""
    if out.exists() and (not out.is_dir() or any(path.name not in ours for path in out.iterdir())):
        raise ValueError(f"out must be a new folder or that of an earlier demo, got {out}")
    shutil.rmtree(out, ignore_errors=True)
