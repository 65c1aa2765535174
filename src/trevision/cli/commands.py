"""The commands, their flags and their help."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from trevision.cli.progress import RichProgress, download_bar
from trevision.cli.tables import accuracy, number, table
from trevision.data import available, search_folders
from trevision.experiments import Hardware, Settings, run
from trevision.experiments.demo import METHODS as DEMO_METHODS
from trevision.experiments.demo import NOISE, SEEDS, SOURCE, demonstrate
from trevision.experiments.predict import predict_to_csv

# `rich` would read square brackets in paths and class names as markup.
console = Console(markup=False, highlight=False)
errors = Console(stderr=True, markup=False, highlight=False)

Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
RunFolder = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def demo(out: Path = Path("demo-output")) -> None:
    """Train on scikit-learn's digits with half of the labels wrong, with and without T-Revision.

    Trains `standard` and `reweight-r` (same network, budget and selection) with three seeds, prints
    accuracies on clean test digits and the errors of T, and draws T. Needs no data and no network.

    For example:

    $ trevision demo
    $ trevision demo --out /tmp/demo

    Args:
        out: The folder for the picture and the six runs; what it holds of an earlier demo is replaced.
    """
    _clear_demo(out)
    result = demonstrate(out, lambda title: RichProgress(title, errors))
    rows = [
        (
            method,
            str(seed),
            accuracy(one["test_accuracy"]),
            number(one["initial_transition_error"]),
            number(one["transition_error"]),
        )
        for (method, seed), one in result.results.items()
    ]
    rows += [
        (
            method,
            f"mean of {len(SEEDS)}",
            f"{accuracy(result.mean(method, 'test_accuracy'))} ± "
            f"{100 * result.spread(method, 'test_accuracy'):.2f}",
            number(result.mean(method, "initial_transition_error")),
            number(result.mean(method, "transition_error")),
        )
        for method in DEMO_METHODS
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


def fit(
    source: Source,
    /,
    out: Path,
    settings: tyro.conf.OmitArgPrefixes[Settings],
    hardware: tyro.conf.OmitArgPrefixes[Hardware],
    data_dir: Path | None = None,
) -> None:
    """Train a classifier on noisy labels and learn the noise; write both to a run folder.

    SOURCE is digits, mnist, fashion-mnist, cifar10, cifar100, or an .npz file with arrays x and y (and,
    if there is a clean test set, x_test and y_test). The same command continues a run that was stopped.

    For example:

    $ trevision fit digits --noise sym-50 --out runs/digits
    $ trevision fit mnist --noise pair-45 --method forward-r --seed 3 --out runs/pair
    $ trevision fit my-data.npz --out runs/mine          (labels are noisy as they are)
    $ trevision fit mnist --noise T.csv --revision simplex --lr-transition 1e-3 --out runs/t

    Args:
        source: Where the data comes from.
        out: The run folder to write.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with (
        RichProgress(f"{settings.method} on {source}", errors) as progress,
        download_bar(errors) as downloads,
    ):
        result = run(source, settings, out, hardware, data_dir, progress, downloads)
    if int(os.environ.get("LOCAL_RANK", "0")):
        return  # one of several processes tells the result
    rows = [("method", result["method"]), ("noise", result["noise"] or "as given")]
    if result["test_accuracy"] is not None:
        rows.append(("test accuracy", accuracy(result["test_accuracy"])))
    if result["transition_error"] is not None:
        rows.append(("T error, initial", number(result["initial_transition_error"])))
        rows.append(("T error, learnt", number(result["transition_error"])))
    rows.append(
        (
            "accuracy on noisy validation labels",
            accuracy(result["noisy_validation_accuracy"]),
        )
    )
    rows.append(("epochs, seconds", f"{result['epochs']}, {result['seconds']:.0f}"))
    rows.append(("ended because", result["stopped_because"]))
    console.print(table(["", str(out)], rows))
    for warning in result["warnings"]:
        errors.print(f"warning: {warning}")


def predict(
    run_folder: RunFolder,
    source: Source,
    /,
    out: Path = Path("predictions.csv"),
    data_dir: Path | None = None,
) -> None:
    """Predict clean labels with the model of a run; write them, with their probabilities, to a CSV file.

    Of a named data set, its test rows are predicted; of an .npz file, x_test if it has one, else x.

    For example:

    $ trevision predict runs/a mnist --out mnist-test.csv
    $ trevision predict runs/mine new-data.npz

    Args:
        run_folder: The folder that `trevision fit` or `TRevisionClassifier.save` wrote.
        source: Where the data comes from, as in `trevision fit`.
        out: The CSV file to write.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with download_bar(errors) as downloads:
        done = predict_to_csv(run_folder, source, out, data_dir, downloads)
    console.print(f"{done.rows} predictions written to {out}")
    if done.accuracy is not None:
        console.print(f"accuracy on the labels of {source}: {accuracy(done.accuracy)}")


def data(data_dir: Path | None = None) -> None:
    """List the named data sets, and where each was found.

    For example:

    $ trevision data
    $ trevision data --data-dir ~/datasets

    Args:
        data_dir: Where to look first; then $TREVISION_DATA and the user's cache.
    """
    rows = [
        (
            one.name,
            one.description,
            str(one.found_at) if one.found_at else "not found (fit tries to download it)",
        )
        for one in available(data_dir)
    ]
    console.print(table(["name", "what it is", "where"], rows))
    console.print("Looked in: " + ", ".join(map(str, search_folders(data_dir))))


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "fit": fit,
    "predict": predict,
    "data": data,
}


def run_command(arguments: list[str]) -> None:
    """Parse `arguments` and run the command they name."""
    tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="trevision",
        description="Learn classifiers from noisy labels, and learn the label noise itself.",
        args=arguments,
    )


def _clear_demo(out: Path) -> None:
    """Make room for a demo without touching anything that is not an earlier demo's."""
    ours = {f"{method}-{seed}" for method in DEMO_METHODS for seed in SEEDS} | {"transition.svg"}
    if out.exists() and (not out.is_dir() or any(path.name not in ours for path in out.iterdir())):
        raise ValueError(f"out must be a new folder or that of an earlier demo, got {out}")
    shutil.rmtree(out, ignore_errors=True)
