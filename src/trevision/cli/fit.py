"""`trevision fit`: learn a classifier and the label noise."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import tyro

from trevision.cli.outcome import print_next, print_outcome
from trevision.cli.progress import RichProgress, data_bar, reading_bar
from trevision.cli.terminal import Source, errors
from trevision.data.files.guessing import guess_columns
from trevision.data.read_labels import kind_of_source
from trevision.data.sources import SOURCES
from trevision.runs.fit import fit_source
from trevision.runs.label_issues import can_be_scored, find_run_issues
from trevision.runs.model_choice import UNSAID, settle_model
from trevision.runs.places import place_of
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Hardware, Settings

HARDWARE = Hardware()

FitSettings = tyro.conf.UseAppendAction[tyro.conf.OmitArgPrefixes[Settings]]
FitHardware = tyro.conf.OmitArgPrefixes[Hardware]


def fit(
    source: Source,
    /,
    out: Path | None = None,
    settings: FitSettings = UNSAID,
    hardware: FitHardware = HARDWARE,
    data_dir: Path | None = None,
) -> None:
    """Train a classifier on noisy labels and learn the noise; write both to a run folder.

    SOURCE is a .csv or .parquet file; a folder of images with a folder for each class, or a .csv of their
    paths and labels; an .npz file with arrays x and y (and, if there is a clean test set, x_test and y_test);
    or a named data set (NAMED_SOURCES). Rows that were left out or repaired are printed, and listed in
    result.json as data_notes. The same command continues a run that was stopped.

    Without --out, the run goes to runs/NAME, where NAME is that of the source, or to runs/NAME-2, ... if
    other runs are there; a run of the same settings is found again. Without --label-column, a column named
    like labels is taken, and without --text-column the only one that looks like text; both are said.

    Ends with how many labels are probably wrong, and writes the suspects as `trevision issues` does.

    Tables and texts are learnt by the model (--model) that makes held-out noisy labels likeliest: a network,
    gradient boosting, a random forest or logistic regression. With several labels a row, it is the model that
    makes the answers to held-out rows likeliest. A flag that only the network reads, such as --method, asks
    for the network. Everything else is learnt by the network.

    For example:

    $ trevision fit customers.csv
    $ trevision fit customers.csv --label-column churned --name-column customer --out runs/churn
    $ trevision fit reviews.parquet --label-column stars --text-column review
    $ trevision fit customers.csv --label-column churned --model boosting
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
        out: The run folder to write; runs/NAME if not given.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    run = fitted(source, out, settings, hardware, data_dir)
    if is_first_process():
        print_outcome(run)
        print_next(run)


def fitted(
    source: str, out: Path | None, settings: Settings, hardware: Hardware, data_dir: Path | None
) -> RunFolder:
    """Do the run that a command line asks for, and find its suspects; arguments as for `fit`."""
    settings = _with_guesses(source, settings)
    settings = settle_model(source, settings, hardware)
    folder = place_of(source, settings) if out is None else out
    finished_before = (folder / "result.json").is_file()
    with (
        RichProgress(source, errors) as progress,
        data_bar(errors, source) as reading,
        warnings.catch_warnings(),
    ):
        # Doubts about T are printed below with the result's warnings. Their class would import torch.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"trevision\.")
        fit_source(source, settings, folder, hardware, data_dir, progress, reading)
    run = RunFolder(folder, data_dir)
    if is_first_process():
        if finished_before:
            errors.print(f"note: {folder} was finished before; nothing was trained", soft_wrap=True)
        if can_be_scored(run) and not run.has_issues:
            with reading_bar(errors) as watch:
                find_run_issues(run, watch=watch)
    return run


def is_first_process() -> bool:
    """Of several processes that share a run, only the first prints the result."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def _with_guesses(source: str, settings: Settings) -> Settings:
    """The settings with the columns of a table that the user did not name, which are said aloud."""
    if kind_of_source(source) != "table":
        return settings
    settings.reading.check("table", source)
    guess = guess_columns(source, settings.reading)
    if is_first_process():
        for sentence in guess.said:
            errors.print(sentence, soft_wrap=True)
    return replace(settings, reading=guess.reading)


# The docstring is the help text. The names of data sets come from their declarations.
fit.__doc__ = (fit.__doc__ or "").replace("NAMED_SOURCES", ", ".join(SOURCES))
