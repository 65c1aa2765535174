"""A run on the answers of several annotators: what it learns, and the files that tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.files.annotator_files import write_annotators
from trevision.estimation import Annotators, Answers
from trevision.files import write_atomically
from trevision.methods.options import check_choices_for_answers
from trevision.models.names import AUTO
from trevision.runs.run_folder import ANSWERS_FILE
from trevision.runs.settings import Settings

if TYPE_CHECKING:
    from trevision.methods.problem import Learned
    from trevision.runs.prepare import Begun

SOFT = "soft"
"""The correction whose name says what several labels a row are learnt as."""


@dataclass(frozen=True, eq=False)
class Answered:
    """The annotators of a run, and their answers to its rows, numbered as in the source."""

    annotators: Annotators
    answers: Answers
    rows: np.ndarray
    class_names: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """What result.json tells of the annotators."""
        annotators = self.annotators
        return {
            "annotators": len(annotators.names),
            "answers": int(annotators.answers.sum()),
            "rows": len(self.rows),
            "right": float(annotators.right @ annotators.answers / annotators.answers.sum()),
            "least_right": float(annotators.right.min()),
            "most_right": float(annotators.right.max()),
            "counts_as": annotators.counts_as,
            "strength": annotators.strength,
            "converged": annotators.converged,
        }

    def write(self, folder: Path) -> None:
        """Write annotators.json, clean.npz and answers.parquet, each in one step."""
        import pyarrow as pa
        import pyarrow.parquet

        write_annotators(folder, self.annotators, self.rows, self.class_names)
        order = np.lexsort((self.answers.who, self.rows[self.answers.row]))
        columns = {
            "row": self.rows[self.answers.row[order]],
            "annotator": np.array(self.answers.names, dtype=object)[self.answers.who[order]],
            "label": np.array(self.class_names, dtype=object)[self.answers.label[order]],
        }
        table = pa.table(columns)
        write_atomically(folder / ANSWERS_FILE, lambda path: pa.parquet.write_table(table, path))


def check_settings_for_answers(settings: Settings) -> None:
    """Raise a ValueError for a setting that means nothing with several labels a row."""
    check_choices_for_answers(settings.method, Settings.method, settings.options)
    for name in ("noise", "remove_anchors"):
        if getattr(settings, name) is not None:
            raise ValueError(
                f"{name} must be left out with several labels a row, got {getattr(settings, name)}: the "
                "answers are noisy as they are"
            )
    if settings.models.correction not in (AUTO, SOFT):
        raise ValueError(
            f"correction must be left out with several labels a row, got {settings.models.correction}: they "
            "are learnt as P(clean)"
        )


def learn_answered(begun: Begun) -> tuple[Learned, Answered]:
    """Learn from the answers of a run of the network that is set up."""
    from trevision.methods.answered import learn_from_answers  # imports torch

    dataset, data = begun.dataset, begun.problem.data
    assert dataset.answers is not None
    rows = np.concatenate([data.train_rows, data.valid_rows])
    answers = dataset.answers.take(dataset.labels.positions(rows))
    learned, crowd = learn_from_answers(begun.problem, answers)
    return learned, Answered(crowd.annotators, answers, rows, dataset.class_names)
