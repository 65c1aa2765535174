"""The suspect labels of a run, scored out of sample, as files in its folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trevision.data.files.shown import shown
from trevision.data.progress import Progress as ReadingProgress
from trevision.data.row_labels import RowLabels
from trevision.estimation import BOOTSTRAP, Finding, RowSource, diagnose
from trevision.files import DataError, write_atomically, write_json
from trevision.issues import LabelIssues, find_label_issues, issues_of_answers
from trevision.runs.issue_files import ISSUES_CSV, ISSUES_PARQUET, NOISE_JSON
from trevision.runs.noise_estimate import Watch, WatchedRows, listed, of_replicates
from trevision.runs.run_folder import OUT_OF_SAMPLE_FILE, RunFolder
from trevision.spreadsheets import shown_as_text
from trevision.training.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

SCORED_BY = (
    "Each row was scored by {model} that was not trained on it: the rows were divided into {folds} parts, "
    "and for each part {model} was trained on the others {how}. T and the clean posterior were then fitted "
    "to these predictions by maximum likelihood."
)
HOW_NETWORKS_ARE_TRAINED = "with plain cross-entropy, for the few epochs of the first stage"

SCORED_BY_ANSWERS = (
    "A row's label is the vote of its annotators, the first of those with equal votes. It was judged by "
    "P(clean) from all answers to the row, each by its annotator's own T, and by {models} that were not "
    "trained on the row. T is that of the votes, counted by it; an annotator's own T is in annotators.json."
)
TOGETHER = (
    "Answers to a hard row go wrong together: judged by the classifier, an answer counts as {counts_as:.2g} "
    "independent ones. The intervals reach from there to answers that are independent. "
)
APART = "Annotators seem to err independently, judged by the classifier. "
ALIKE = "Mistakes that all annotators make alike cannot be seen, and are in no number here."


@dataclass(frozen=True, eq=False)
class RunIssues:
    """The labels of a run: a table of all rows, most suspicious first, and the noise behind it."""

    table: pd.DataFrame
    issues: LabelIssues
    findings: list[Finding]
    class_names: tuple[str, ...]


def find_run_issues(
    folder: Path | RunFolder,
    bootstrap: int = BOOTSTRAP,
    level: float = 0.9,
    data_dir: Path | None = None,
    reading: ReadingProgress | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    top: int | None = None,
) -> RunIssues:
    """Score every label that a run learnt from, and write issues.csv, issues.parquet and noise.json.

    Uses the out-of-sample predictions of `fit`. If `fit` made none, networks are trained for them now.

    Parameters
    ----------
    folder
        The folder of a finished run.
    bootstrap
        Number of bootstrap replicates for the intervals.
    level
        Confidence of the intervals.
    data_dir
        Where to look for a named data set first.
    reading, progress, watch
        Called with the progress of reading the source, of training and of estimating.
    top
        How many labels to list as suspects; None lists as many as seem wrong.

    Raises
    ------
    ValueError
        If the folder holds no finished run, or its source has changed since.
    """
    run = folder if isinstance(folder, RunFolder) else RunFolder(folder, data_dir, reading)
    class_names, settings = run.card.class_names, run.settings
    if run.has_annotators:
        return _issues_of_answers(run, bootstrap, level, top)
    if not run.has_probabilities and not run.card.is_network:
        raise ValueError(f"{run.path} has lost {OUT_OF_SAMPLE_FILE}; fit again into another folder")
    if not run.has_probabilities:
        from trevision.runs.out_of_sample import predict_out_of_sample  # imports torch

        predict_out_of_sample(run, progress)
    predicted = run.probabilities
    watched: RowSource = predicted.probs if watch is None else WatchedRows(predicted.probs, watch)
    on_replicate = of_replicates(watch)
    issues = find_label_issues(
        watched,
        predicted.labels,
        bootstrap=bootstrap,
        level=level,
        random_state=settings.seed,
        progress=on_replicate,
        top=top,
        other_disagreements=_disagreements_of_others(run, len(predicted.labels)),
    )
    findings = diagnose(
        predicted.probs, predicted.labels, issues.estimate, class_names, settings.seed, issues.count
    )
    table = _table(issues, predicted.rows, class_names, run.labels)
    scored = RunIssues(table, issues, findings, class_names)
    model, how = "a network", HOW_NETWORKS_ARE_TRAINED
    if not run.card.is_network:
        model, how = f"a model ({run.card.network})", "with the labels as given"
    _write(run.path, scored, SCORED_BY.format(model=model, folds=predicted.folds, how=how))
    return scored


def can_be_scored(run: RunFolder) -> bool:
    """Whether the labels of a finished run can be scored without training anything for it."""
    return run.has_annotators or run.has_probabilities


def _disagreements_of_others(run: RunFolder, rows: int) -> float | None:
    """With how many labels the best model that was not chosen disagrees, if several were compared."""
    others = [each for each in run.result.get("models") or () if "error" not in each and not each["chosen"]]
    return min((rows * (1 - each["accuracy"]) for each in others), default=None)


def _issues_of_answers(run: RunFolder, bootstrap: int, level: float, top: int | None) -> RunIssues:
    """The votes of a run's annotators, judged by P(clean | answers, x)."""
    class_names, labels, rows = run.card.class_names, run.labels, run.clean_rows
    crowd = run.annotators
    positions = labels.positions(rows)
    if (positions < 0).any() or crowd.clean_posterior.shape != (len(rows), len(class_names)):
        raise DataError(f"{run.path}: its files tell of different rows or classes; fit again")
    issues = issues_of_answers(crowd, labels.codes[positions], bootstrap, level, run.settings.seed, top=top)
    findings = [
        Finding("annotators", "caution", None, f"{doubt[0].upper()}{doubt[1:]}.") for doubt in crowd.warnings
    ]
    judged = TOGETHER.format(counts_as=crowd.counts_as) if crowd.counts_as < 1 else APART
    findings.append(Finding("independence", "caution", None, judged + ALIKE))
    scored = RunIssues(_table(issues, rows, class_names, labels), issues, findings, class_names)
    models = "networks" if run.card.is_network else f"models ({run.card.network})"
    _write(run.path, scored, SCORED_BY_ANSWERS.format(models=models))
    return scored


def _table(
    issues: LabelIssues, rows: np.ndarray, class_names: tuple[str, ...], row_labels: RowLabels
) -> pd.DataFrame:
    """One line per row, most suspicious first, with the source's names."""
    import pandas as pd

    order = issues.order
    numbers, names = rows[order], np.array(class_names)
    row_names = numbers.astype(str)
    if row_labels.names is not None:
        positions = row_labels.positions(numbers)
        if (positions < 0).any():
            raise DataError("the source has lost rows since the run read it; fit again")
        row_names = np.array([shown(name) for name in row_labels.names[positions]], dtype=object)
    return pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "row": numbers,
            "name": row_names,
            "given": names[issues.given[order]],
            "suggested": names[issues.suggested[order]],
            "p_given": issues.p_given[order],
            "p_suggested": issues.p_suggested[order],
            "suspect": issues.suspect[order],
            "score": issues.score[order],
        }
    )


def _write(folder: Path, scored: RunIssues, scored_by: str) -> None:
    table, estimate = scored.table, scored.issues.estimate
    texts = ("name", "given", "suggested")
    cells = table.assign(**{column: [*map(shown_as_text, table[column])] for column in texts})
    write_atomically(folder / ISSUES_CSV, lambda path: cells.to_csv(path, index=False, float_format="%.6g"))
    write_atomically(folder / ISSUES_PARQUET, lambda path: table.to_parquet(path, index=False))
    wrong, low, high = scored.issues.wrong
    count = scored.issues.count
    write_json(
        folder / NOISE_JSON,
        {
            "classes": list(scored.class_names),
            "rows": estimate.rows,
            "level": estimate.level,
            "wrong": {"estimate": wrong, "low": low, "high": high},
            "count": None if count is None else count.to_json(),
            "class_prior": estimate.class_prior.tolist(),
            "transition": estimate.transition.tolist(),
            "low": listed(estimate.transition_low),
            "high": listed(estimate.transition_high),
            "joint": estimate.joint.tolist(),
            "diagnosis": [asdict(finding) for finding in scored.findings],
            "estimator": estimate.estimator,
            "converged": estimate.converged,
            "resampling": estimate.resampling,
            "scored_by": scored_by,
        },
    )
