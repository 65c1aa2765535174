"""Which model `trevision fit --model auto` picks, and how good each model is with its labels corrected.

Claims:
1. what `auto` picks is, on average, within a point of the best of the four models;
2. correcting the labels costs no model more than half a point on average, and gains where T is far from I.
docs/own-data.md has what was measured, and where a claim failed.

Texts whose labels come from rules or people are read from $TREVISION_DATA/real-noise/NAME/{train,test}.csv
(columns id, text, label; the test labels are clean), where that folder exists. Tables are those of
`own_data`: digits and `make_classification` with sym-40 and pair-40. `fit` and `predict` are called as the
commands call them. A seed draws a table's held-out rows and noise, the folds and the models' randomness.
*plain* is the same model on the labels as given: `--correction none`, for the network `--method standard`.

    python -m benchmarks models                              # seeds 0 to 2
    TREVISION_CASES=sms,digits python -m benchmarks models   # some of the texts and tables
    TREVISION_RUNS=FOLDER python -m benchmarks models        # keeps its runs there, and continues

Printed: accuracy on clean held-out rows in per cent, mean ± standard deviation over seeds, as Markdown.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks.own_data import NOISES, TABLES, make_case, print_row, spread, write_table
from trevision.files import read_json
from trevision.models.names import AUTO, MODELS, NETWORK
from trevision.runs.fit import fit_source
from trevision.runs.predict import predict_to_csv
from trevision.runs.settings import Models, Reading, Settings

SEEDS = (0, 1, 2)
TEXTS = ("sms", "semeval", "sentiment")
TEXT = Reading(text_column=("text",), ignore_column=("id",))


def files_of(case: str, seed: int, folder: Path) -> tuple[Path, Path, Reading]:
    """The files to learn from and to judge by, and how they are read."""
    texts = Path(os.environ.get("TREVISION_DATA", "data")) / "real-noise" / case
    if case in TEXTS:
        return texts / "train.csv", texts / "test.csv", TEXT
    table, noise_name = case.split(", ")
    made = make_case(table, noise_name, seed)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = folder / "train.csv", folder / "test.csv"
    write_table(train, made.train_x, made.noisy)
    write_table(test, made.test_x, made.test_y)
    return train, test, Reading()


def measure(case: str, seed: int, folder: Path) -> tuple[str, dict[str, float]]:
    """What auto picks, and the accuracy of every model, corrected and plain."""
    train, test, reading = files_of(case, seed, folder)

    def accuracy(name: str, settings: Settings) -> float:
        fit_source(str(train), settings, folder / name)
        predicted = predict_to_csv(folder / name, str(test), folder / f"{name}.csv")
        if predicted.accuracy is None:
            raise RuntimeError("the held-out file has labels, so there is an accuracy")
        return predicted.accuracy

    found = {AUTO: accuracy(AUTO, Settings(seed=seed, reading=reading, models=Models(AUTO)))}
    picked = read_json(folder / AUTO / "result.json")["model"]
    for model in MODELS[1:]:
        settings = Settings(seed=seed, reading=reading, models=Models(model))
        # The run of a model that auto picked is that run again.
        found[model] = found[AUTO] if model == picked else accuracy(model, settings)
        plain = Settings(seed=seed, reading=reading, models=Models(model, "none"))
        if model == NETWORK:
            plain = Settings(seed=seed, reading=reading, method="standard")
        found[f"{model}, plain"] = accuracy(f"{model}-plain", plain)
    return picked, found


def main() -> None:
    real = [name for name in TEXTS if (files_of(name, 0, Path())[0]).is_file()]
    if not real:
        print("no folder $TREVISION_DATA/real-noise: only tables are measured", file=sys.stderr)
    cases = [*real, *(f"{table}, {noise}" for table in TABLES for noise in NOISES)]
    if asked := os.environ.get("TREVISION_CASES"):
        cases = [case for case in cases if case.split(", ")[0] in asked.split(",")]
    measured: dict[str, list[tuple[str, dict[str, float]]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("TREVISION_RUNS", temporary))
        jobs = [(case, seed) for case in cases for seed in SEEDS]
        for case, seed in track(jobs, console=Console(stderr=True), disable=not sys.stderr.isatty()):
            measured[case].append(measure(case, seed, folder / case.replace(", ", "-") / str(seed)))
            print(case, seed, *measured[case][-1], file=sys.stderr, flush=True)
    print_row("", *cases)
    print_row("---", *("---:" for _ in cases))
    for name in measured[cases[0]][0][1]:
        print_row(name, *(spread([found[name] for _, found in measured[case]], 2, 100) for case in cases))
    picks = [Counter(picked for picked, _ in measured[case]) for case in cases]
    print_row("picked", *(", ".join(f"{name} {count}x" for name, count in each.items()) for each in picks))


if __name__ == "__main__":
    main()
