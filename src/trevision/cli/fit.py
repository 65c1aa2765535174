"""`trevision fit`: learn a classifier and the label noise."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import tyro
from rich.table import Table

from trevision.cli.progress import RichProgress, data_bar
from trevision.cli.terminal import Source, accuracy, console, errors, number, table
from trevision.data.sources import SOURCES
from trevision.models.names import NETWORK
from trevision.runs.fit import fit_source
from trevision.runs.model_choice import UNSAID, settle_model
from trevision.runs.settings import Hardware, Settings

HARDWARE = Hardware()


def fit(
    source: Source,
    /,
    out: Path,
    settings: tyro.conf.UseAppendAction[tyro.conf.OmitArgPrefixes[Settings]] = UNSAID,
    hardware: tyro.conf.OmitArgPrefixes[Hardware] = HARDWARE,
    data_dir: Path | None = None,
) -> None:
    """Train a classifier on noisy labels and learn the noise; write both to a run folder.

    SOURCE is a .csv or .parquet file; a folder of images with a folder for each class, or a .csv of their
    paths and labels; an .npz file with arrays x and y (and, if there is a clean test set, x_test and y_test);
    or a named data set (NAMED_SOURCES). Rows that were left out or repaired are printed, and listed in
    result.json as data_notes. The same command continues a run that was stopped.

    Tables and texts are learnt by the model (--model) that makes held-out noisy labels likeliest: a network,
    gradient boosting, a random forest or logistic regression. With several labels a row, it is the model that
    makes the answers to held-out rows likeliest. A flag that only the network reads, such as --method, asks
    for the network. Everything else is learnt by the network.

    For example:

    $ trevision fit customers.csv --label-column churned --name-column customer --out runs/churn
    $ trevision fit reviews.parquet --label-column stars --text-column review --out runs/reviews
    $ trevision fit customers.csv --label-column churned --model boosting --out runs/boosted
    $ trevision fit answers.csv --label-column label --id-column id --annotator-column who
        --rows-source texts.csv --text-column text --out runs/crowd    (several labels a row)
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
    settings = settle_model(source, settings, hardware)
    title = f"{settings.method if settings.models.model == NETWORK else settings.models.model} on {source}"
    with (
        RichProgress(title, errors) as progress,
        data_bar(errors, source) as reading,
        warnings.catch_warnings(),
    ):
        # Doubts about T are printed below with the result's warnings. Their class would import torch.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"trevision\.")
        finished_before = (out / "result.json").is_file()
        result = fit_source(source, settings, out, hardware, data_dir, progress, reading)
    if int(os.environ.get("LOCAL_RANK", "0")):
        return  # of several processes, only the first prints the result
    if result.get("models"):
        compared_by = "noisy labels" if result.get("annotators") is None else "rows' answers"
        console.print(_models_table(result["models"], compared_by))
    rows = [("method", result["method"])]
    if "correction" in result:
        rows.append(("correction", result["correction"]))
    rows.append(("noise", result["noise"] or "as given"))
    if result["test_accuracy"] is not None:
        rows.append(("test accuracy", accuracy(result["test_accuracy"])))
    if result["transition_error"] is not None:
        rows.append(("T error, initial", number(result["initial_transition_error"])))
        if result.get("uses_transition", True):  # older results do not say
            rows.append(("T error, learnt", number(result["transition_error"])))
    crowd = result.get("annotators")
    if crowd is not None:
        rows.append(
            ("annotators, answers, rows", f"{crowd['annotators']}, {crowd['answers']}, {crowd['rows']}")
        )
        rows.append(("right answers", accuracy(crowd["right"])))
        least, most = accuracy(crowd["least_right"]), accuracy(crowd["most_right"])
        rows.append(("of one annotator", f"{least} to {most}"))
    judged = "noisy validation labels"
    if crowd is not None:
        judged = "held-out rows, by P(clean)"
    elif "correction" in result:
        judged = "held-out noisy labels"
    rows.append((f"accuracy on {judged}", accuracy(result["noisy_validation_accuracy"])))
    if "correction" in result:
        rows.append(("seconds", f"{result['seconds']:.0f}"))
    else:
        rows.append(("epochs, seconds", f"{result['epochs']}, {result['seconds']:.0f}"))
        rows.append(("ended because", result["stopped_because"]))
    console.print(table(["", str(out)], rows))
    if "choice" in result:
        console.print(f"Correction: {result['choice']['reason']}.", soft_wrap=True)
    if "correction" in result:
        console.print(f"Correction: {result['correction_reason']}.", soft_wrap=True)
    if finished_before:
        errors.print("note: this run was finished before; nothing was trained", soft_wrap=True)
    for note in result.get("data_notes", []):
        errors.print(f"note: {note}", soft_wrap=True)
    for warning in result["warnings"]:
        errors.print(f"warning: {warning}")


def _models_table(models: list[dict[str, Any]], judged: str) -> Table:
    """How the models did on held-out noisy labels, or held-out rows' answers, the best first."""
    rows = []
    for each in models:
        if "error" in each:
            rows.append((each["name"], "could not be fitted", "-", "-", "-"))
            continue
        setting = "".join(f" ({key} {value:g})" for key, value in each["settings"].items())
        behind = "chosen" if each["chosen"] else f"{each['behind']:.4f} ± {each['behind_error']:.4f}"
        likelihood = f"{each['log_likelihood']:.4f}"
        rows.append(
            (each["name"] + setting, likelihood, behind, accuracy(each["accuracy"]), f"{each['seconds']:.0f}")
        )
    header = ["model", "log-likelihood", "behind", "accuracy", "seconds"]
    return table(header, rows, title=f"How likely held-out {judged} are, in nats a row")


# The docstring is the help text. The names of data sets come from their declarations.
fit.__doc__ = (fit.__doc__ or "").replace("NAMED_SOURCES", ", ".join(SOURCES))
