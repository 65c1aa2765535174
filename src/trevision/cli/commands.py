"""The commands, their flags and their help."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from trevision.cli.estimate import estimate
from trevision.cli.issues import issues
from trevision.cli.progress import RichProgress, data_bar
from trevision.cli.reproduce import reproduce
from trevision.cli.tables import accuracy, number, table
from trevision.data import available, search_folders
from trevision.data.labels import counted
from trevision.experiments import Hardware, Settings, run
from trevision.experiments.bound import bound_of_run
from trevision.experiments.demo import METHODS as DEMO_METHODS
from trevision.experiments.demo import NOISE, SEEDS, SOURCE, demonstrate
from trevision.experiments.label_issues import has_issues
from trevision.experiments.predict import predict_to_csv
from trevision.methods.stages import TransitionWarning
from trevision.report import apply_corrections, write_report

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
    $ trevision demo --out demo

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
            number(one["transition_error"]) if one["uses_transition"] else "-",
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
            number(result.mean(method, "transition_error")) if result.uses_transition(method) else "-",
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
    settings: tyro.conf.UseAppendAction[tyro.conf.OmitArgPrefixes[Settings]],
    hardware: tyro.conf.OmitArgPrefixes[Hardware],
    data_dir: Path | None = None,
) -> None:
    """Train a classifier on noisy labels and learn the noise; write both to a run folder.

    SOURCE is a .csv or .parquet file; a folder of images with a folder for each class, or a .csv of their
    paths and labels; an .npz file with arrays x and y (and, if there is a clean test set, x_test and y_test);
    or digits, mnist, fashion-mnist, cifar10, cifar100, clothing1m. What reading it had to leave out or repair
    is printed, and is data_notes in result.json. The same command continues a run that was stopped.

    For example:

    $ trevision fit customers.csv --label-column churned --name-column customer --out runs/churn
    $ trevision fit reviews.parquet --label-column stars --text-column review --out runs/reviews
    $ trevision fit photos/ --image-size 32 --out runs/photos      (photos/cat/1.jpg, photos/dog/2.jpg, ...)
    $ trevision fit my-data.npz --out runs/mine                    (labels are noisy as they are)
    $ trevision fit digits --noise sym-50 --out runs/digits
    $ trevision fit mnist --noise pair-45 --method forward-r --seed 3 --out runs/pair
    $ trevision fit mnist --noise T.csv --revision simplex --lr-transition 1e-3 --out runs/t
    $ trevision fit mnist --noise pair-45 --prior support=mask.csv+sparse=0.1 --out runs/known

    Args:
        source: Where the data comes from.
        out: The run folder to write.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with (
        RichProgress(f"{settings.method} on {source}", errors) as progress,
        data_bar(errors, source) as reading,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", TransitionWarning)  # told below, among the result's warnings
        finished_before = (out / "result.json").is_file()
        result = run(source, settings, out, hardware, data_dir, progress, reading)
    if int(os.environ.get("LOCAL_RANK", "0")):
        return  # one of several processes tells the result
    rows = [("method", result["method"]), ("noise", result["noise"] or "as given")]
    if result["test_accuracy"] is not None:
        rows.append(("test accuracy", accuracy(result["test_accuracy"])))
    if result["transition_error"] is not None:
        rows.append(("T error, initial", number(result["initial_transition_error"])))
        if result.get("uses_transition", True):  # older results do not say
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
    if finished_before:
        errors.print("note: this run was finished before; nothing was trained", soft_wrap=True)
    for note in result.get("data_notes", []):
        errors.print(f"note: {note}", soft_wrap=True)
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

    All rows of a table and all images of a folder are predicted; of an .npz file, x_test if it has one, else
    x; of a named data set, its test rows. A table is read as the training table was: its columns must be
    there, others are ignored. Where there are labels too, it prints how many of them were predicted.

    For example:

    $ trevision predict runs/churn new-customers.csv --out churn.csv
    $ trevision predict runs/photos new-photos/
    $ trevision predict runs/mine new-data.npz
    $ trevision predict runs/a mnist --out mnist-test.csv

    Args:
        run_folder: The folder that `trevision fit` or `TRevisionClassifier.save` wrote.
        source: Where the data comes from, as in `trevision fit`.
        out: The CSV file to write.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, source) as reading:
        done = predict_to_csv(run_folder, source, out, data_dir, reading)
    console.print(f"{done.rows} predictions written to {out}", soft_wrap=True)
    for note in done.notes:
        errors.print(f"note: {note}", soft_wrap=True)
    if done.accuracy is not None:
        console.print(f"accuracy on the labels of {source}: {accuracy(done.accuracy)}", soft_wrap=True)


def report(
    run_folder: RunFolder,
    /,
    out: Path | None = None,
    suspects: int | None = None,
    data_dir: Path | None = None,
) -> None:
    """Write one HTML page about a run: what was learnt, how labels go wrong, the suspect labels to review.

    The page is one file that opens from disk and needs no network. Its review ends in a CSV file of
    corrections for `trevision apply`. What `trevision issues RUN` writes is made first, if it is not there.

    For example:

    $ trevision report runs/mine
    $ trevision report runs/mine --out page.html --suspects 500

    Args:
        run_folder: The folder that `trevision fit` wrote.
        out: The page to write; RUN/report.html if not given.
        suspects: List this many of the most suspicious labels; those that are probably wrong if not given.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    if not has_issues(run_folder):
        issues(run_folder, data_dir=data_dir)
    with data_bar(errors, "the run's source") as reading:
        done = write_report(run_folder, out, suspects, data_dir, reading)
    console.print(
        f"the {done.listed} most suspicious of {done.labels} labels are listed in {done.path}", soft_wrap=True
    )


def apply(
    run_folder: RunFolder,
    corrections: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CORRECTIONS")],
    /,
    out: Path,
    data_dir: Path | None = None,
) -> None:
    """Write the run's labels again, with the corrections that were downloaded from its report.

    Every line of CORRECTIONS is checked against the source; if one does not fit, nothing is written.

    For example:

    $ trevision apply runs/mine corrections-mine.csv --out cleaned.csv

    Args:
        run_folder: The folder that `trevision fit` wrote.
        corrections: The CSV file with columns row, name, given, corrected and decision.
        out: The cleaned file to write, for `trevision fit`; of the source's kind.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, "the run's source") as reading:
        done = apply_corrections(run_folder, corrections, out, data_dir, reading)
    changed = counted(done.changed, "label")
    console.print(f"{changed} changed ({done.decided} reviewed), written to {out}", soft_wrap=True)


def bound(run_folder: RunFolder, /, delta: float = 0.05, data_dir: Path | None = None) -> None:
    """Print the bound of Theorem 1 for the model of a run, term by term, beside the gap that it bounds.

    The rows the run was trained on are made again from its config.json. For plain feed-forward networks
    (lenet, mlp) only. The bound is loose by orders of magnitude; docs/bound.md says why.

    For example:

    $ trevision bound runs/a
    $ trevision bound runs/a --delta 0.01

    Args:
        run_folder: The folder that `trevision fit` wrote.
        delta: The probability with which the bound may fail.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    with data_bar(errors, "the run's source") as reading:
        found = bound_of_run(run_folder, delta, data_dir, reading)
    theorem, gap = found.bound, found.gap
    rows = [
        (
            f"M_{place}, {layer.name}",
            f"{layer.norm:.4g}",
            f"{layer.kernel_norm:.4g}",
            f"{layer.bias_norm:.4g}",
        )
        for place, layer in enumerate(theorem.layers, start=1)
    ]
    console.print(table(["Frobenius norm", "matrix", "as stored", "bias"], rows))
    rows_of_terms = [
        ("d, layers", f"{theorem.depth}"),
        ("B, largest norm of a training row", f"{theorem.input_norm:.4g}"),
        ("C, classes", f"{theorem.num_classes}"),
        ("L, Lipschitz constant", f"{theorem.lipschitz:g}"),
        ("M, largest training loss", f"{theorem.loss_bound:.4g}"),
        ("n, training rows", f"{theorem.rows}"),
        ("delta", f"{theorem.delta:g}"),
        ("first term, complexity", f"{theorem.complexity:.4g}"),
        ("second term, chance", f"{theorem.chance:.4g}"),
        ("bound", f"{theorem.total:.4g}"),
        ("bound with biases as weights", f"{theorem.total_with_biases:.4g}"),
        ("weighted risk, noisy training rows", f"{gap.training_risk:.4g}"),
        (f"weighted risk, {gap.validation_rows} noisy validation rows", f"{gap.validation_risk:.4g}"),
        ("empirical gap", f"{gap.gap:.4g}"),
    ]
    console.print(table(["", str(run_folder)], rows_of_terms))
    if not found.transition_is_valid:
        errors.print(
            "warning: T has an entry below zero or a diagonal entry that is not its row's largest; "
            "the theorem assumes neither"
        )


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
            str(one.found_at or _how_to_get(one.on_request)),
        )
        for one in available(data_dir)
    ]
    console.print(table(["name", "what it is", "where"], rows))
    console.print("Looked in: " + ", ".join(map(str, search_folders(data_dir))))


def _how_to_get(on_request: bool) -> str:
    return f"not found ({'given out on request' if on_request else 'fit tries to download it'})"


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "fit": fit,
    "predict": predict,
    "estimate": estimate,
    "issues": issues,
    "report": report,
    "apply": apply,
    "bound": bound,
    "data": data,
    "reproduce": reproduce,
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
