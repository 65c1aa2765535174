"""Whether an installation works: what `trevision doctor` tries, on a small table of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from trevision.extras import is_installed

ROWS = 300
"""The rows of the table."""


def tried() -> Iterator[tuple[str, float, str]]:
    """The parts that were tried: what, its seconds, and what went wrong; empty if nothing did."""
    parts: list[tuple[str, Callable[[Path], None]]] = [
        ("estimate how labels go wrong", _try_estimate),
        ("fit a table, list its issues, write the page, apply corrections", _try_table),
    ]
    if is_installed("matplotlib"):
        parts.append(("draw a picture", _try_picture))
    if is_installed("torch") and is_installed("lightning_fabric"):
        parts.append(("train a network", _try_network))
    for name, part in parts:
        began, wrong = time.perf_counter(), ""
        with tempfile.TemporaryDirectory(prefix="trevision-doctor-") as folder:
            try:
                part(Path(folder))
            except Exception as error:  # whatever it is, it is what the report is to say
                wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        yield name, time.perf_counter() - began, wrong


def _expect(right: bool, what: str) -> None:
    if not right:
        raise ArithmeticError(f"{what}: this installation computes something else than it should")


def _try_estimate(_: Path) -> None:
    from trevision.estimation import estimate

    transition = np.array([[0.8, 0.2], [0.1, 0.9]])
    clean = np.repeat([[0.99, 0.01], [0.01, 0.99]], 2000, axis=0)
    noisy = clean @ transition
    labels = (np.random.default_rng(0).random(4000) < noisy[:, 1]).astype(int)
    found = estimate(noisy, labels, bootstrap=0).transition
    _expect(bool(np.abs(found - transition).max() < 0.05), "T of two classes")


def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column that tells two classes apart, the labels, and which rows have the wrong one."""
    rng = np.random.default_rng(0)
    clean = np.arange(ROWS) % 2
    wrong = rng.random(ROWS) < 0.1
    return rng.normal(8 * clean, 1), np.where(wrong, 1 - clean, clean), wrong


def _try_table(folder: Path) -> None:
    from trevision.report.corrections import apply_corrections
    from trevision.report.page import write_report
    from trevision.runs.fit import fit_source
    from trevision.runs.label_issues import find_run_issues
    from trevision.runs.run_folder import RunFolder
    from trevision.runs.settings import Models, Settings

    size, labels, wrong = _table()
    source, run = folder / "data.csv", folder / "run"
    lines = [f"{x:.3f},{'ab'[label]}" for x, label in zip(size, labels, strict=True)]
    source.write_text("\n".join(["size,label", *lines]), encoding="utf-8")
    fit_source(str(source), Settings(method="reweight", models=Models(model="linear")), run)
    found = find_run_issues(RunFolder(run), bootstrap=0).table
    suspects = found[found["suspect"]]
    right = int(wrong[suspects["row"]].sum())
    _expect(right >= max(10, 0.8 * len(suspects)), "the wrong labels of a table")
    write_report(run)
    row, given, other = suspects.iloc[0][["row", "given", "suggested"]]
    corrections = folder / "corrections.csv"
    corrections.write_text(
        f"row,name,given,corrected,decision\n{row},,{given},{other},change\n", encoding="utf-8"
    )
    _expect(apply_corrections(run, corrections, folder / "out.csv").changed == 1, "one correction")


def _try_picture(folder: Path) -> None:
    from trevision.runs.pictures import draw_transitions

    draw_transitions(folder / "t.svg", {"T": np.eye(2)}, ["a", "b"])


def _try_network(_: Path) -> None:
    from trevision.classifier import TRevisionClassifier
    from trevision.methods.schedules import Schedule
    from trevision.training.phase import Phase

    size, labels, wrong = _table()
    quick = Phase(epochs=10, lr=0.01, batch_size=32)
    model = TRevisionClassifier(method="forward", schedule=Schedule(quick, quick, quick), random_state=0)
    clean = np.where(wrong, 1 - labels, labels)
    hits = float(np.mean(model.fit(size[:, None], labels).predict(size[:, None]) == clean))
    _expect(hits > 0.95, f"a network on two classes ({hits:.0%} right)")


def summary(failed: int) -> str:
    """The last line."""
    if failed:
        return f"Failed: {failed}. Please report it to those who gave you trevision, with all of the above."
    return "Everything that is installed works. A report of a bug is best with all of the above."
