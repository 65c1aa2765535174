"""A run folder: its config, result, model, labels and suspect labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trevision.data.files.annotator_files import has_annotators, read_annotators, read_clean_rows
from trevision.data.files.reading import Reading
from trevision.data.progress import Progress
from trevision.data.row_labels import RowLabels
from trevision.files import DamagedFile, DataError, TrevisionError, parse_json, read_json, write_atomically
from trevision.forms import NUMBER, check_form, from_json
from trevision.runs.issue_files import ISSUES_PARQUET, NOISE_JSON, FoundNoise, read_issues, read_noise
from trevision.runs.named_files import check_files, check_unchanged, located
from trevision.runs.settings import Settings, canonical, settings_of
from trevision.training.model_card import (
    CLASSIFIER_FILE,
    MODEL_FILE,
    ModelCard,
    checked_transition,
    read_card,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from trevision.data.files.columns import Column
    from trevision.data.files.preprocessing import Preprocessing
    from trevision.data.noisy import NoisyData
    from trevision.estimation import Annotators
    from trevision.methods.problem import OutOfSample
    from trevision.models.files import SavedClassifier
    from trevision.training.model_files import SavedModel

OUT_OF_SAMPLE_FILE = "probabilities.npz"
ANSWERS_FILE = "answers.parquet"
LABELS_FILE = "labels.parquet"
PREPROCESSING_FILE = "preprocessing.skops"
LOCK_FILE = ".lock"
ALWAYS_TOLD = ("method", "seed", "noise", "epochs", "seconds")
"""Keys that every result.json has."""
MEASURED = NUMBER | None
RESULT = {
    **{"method": str, "seed": int, "noise": str | None, "epochs": int, "seconds": NUMBER},
    **{"schedule?": str | None, "warnings?": [str], "data_notes?": [str], "versions?": dict},
    **{"selected_stage?": str, "selected_epoch?": int, "stopped_because?": str},
    **{"noisy_validation_accuracy?": MEASURED, "test_accuracy?": MEASURED, "noise_rate?": MEASURED},
    **{"initial_transition_error?": MEASURED, "transition_error?": MEASURED, "transition_floor?": MEASURED},
    **{"starts_from_estimate?": bool, "uses_transition?": bool, "transition_ran_away?": bool},
    **{"correction?": str, "correction_reason?": str, "choice?": dict, "annotators?": dict},
    "models?": [{"name": str, "chosen?": bool, "accuracy?": MEASURED, "log_likelihood?": MEASURED}],
}
"""The types in a result.json."""
EPOCH = {
    **{"stage": str, "epoch": int, "seconds?": NUMBER, "train_loss?": NUMBER},
    **{"noisy_validation_error?": MEASURED, "noisy_validation_loss?": MEASURED, "test_accuracy?": MEASURED},
    **{"test_error?": MEASURED, "transition_error?": MEASURED},
}
"""The types in a line of metrics.jsonl."""


@dataclass(frozen=True, eq=False)
class OutOfSampleRows:
    """probabilities.npz: P(noisy | x) of each row of the run, by a model that was not trained on it.

    `labels` are codes of the noisy labels, `rows` the numbers of the rows in the source.
    """

    probs: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    folds: int


class RunFolder:
    """The folder of one run. Its files are read when they are asked for, each once.

    Only `model` imports torch: it is the network of a run, `classifier` the scikit-learn model of one.

    Parameters
    ----------
    path
        The folder.
    data_dir
        Where a named data set is looked for first, if the run's source has to be read again.
    progress
        Called with the progress of this reading.
    """

    def __init__(
        self, path: Path | str, data_dir: Path | None = None, progress: Progress | None = None
    ) -> None:
        self.path = Path(path)
        self.data_dir = data_dir
        self.progress = progress

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json."""
        path = self.path / "config.json"
        if not path.is_file():
            raise DataError(
                f"{self.path} must be the folder of a run or a saved classifier: it has no config.json"
            )
        return read_json(path)

    @cached_property
    def card(self) -> ModelCard:
        """Network, shape of a sample and classes of the finished model."""
        return read_card(self.path, self.config)

    @cached_property
    def _source_and_settings(self) -> tuple[str, Settings]:
        if "source" not in self.config:
            raise DataError(
                f"{self.path} does not say what it was trained on: only runs of `trevision fit` do"
            )
        return settings_of(self.config, self.path / "config.json")

    @property
    def source(self) -> str:
        """The source of the run. Raises a ValueError if it has changed since."""
        return self._source_and_settings[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files and folders that the run was made from, where they are now."""
        files = self.config.get("files", {})
        check_files(files, self.path / "config.json")
        return tuple(located(name, files) for name in files)

    @property
    def settings(self) -> Settings:
        """The settings of the run. Raises a ValueError if its source has changed since."""
        return self._source_and_settings[1]

    @property
    def reading(self) -> Reading:
        """How the source was read. Works even if the source is no longer there."""
        return from_json(Reading, self.config.get("reading", {}), self.path / "config.json", "reading")

    @cached_property
    def result(self) -> dict[str, Any]:
        """result.json of a finished run."""
        path = self._written_by_fit("result.json")
        result = read_json(path)
        if lacking := [key for key in ALWAYS_TOLD if key not in result]:
            raise DamagedFile(
                f"{path} must be the result of a run, but lacks {', '.join(lacking)}; was it edited?",
                path=path,
            )
        check_form(result, RESULT, path)
        return result

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """metrics.jsonl: one record per epoch."""
        path = self._written_by_fit("metrics.jsonl")
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except ValueError as error:
            raise DamagedFile(f"{path} must be text in UTF-8, but is not ({error})", path=path) from None
        records = []
        for number, line in enumerate(lines, start=1):
            record = parse_json(line, path, f"line {number}", diverged=True)
            check_form(record, EPOCH, path, f"line {number}")
            records.append(record)
        return records

    @cached_property
    def labels(self) -> RowLabels:
        """The rows that the run learnt from, with their names and given labels.

        Without labels.parquet they are read from the source: then all rows, with labels before any noise.
        """
        path = self.path / LABELS_FILE
        if path.is_file():
            return _read_labels_file(path)
        from trevision.data.read_labels import read_labels

        return read_labels(self.source, self.settings.reading, self.data_dir, self.progress)

    @cached_property
    def model(self) -> SavedModel:
        """The trained model."""
        from trevision.training.model_files import load_model

        return load_model(self.path)

    @cached_property
    def classifier(self) -> SavedClassifier:
        """The scikit-learn model of a run whose model is no network."""
        from trevision.models.files import load_classifier

        _ = self.card  # raises if there is no finished model
        return load_classifier(self.path / CLASSIFIER_FILE)

    @cached_property
    def transitions(self) -> tuple[np.ndarray, np.ndarray]:
        """T before and after its revision."""
        if not self.card.is_network:
            from trevision.models.files import load_transitions

            return load_transitions(self.path / CLASSIFIER_FILE)
        from safetensors import SafetensorError, safe_open

        path = self.path / MODEL_FILE
        _ = self.card  # raises if there is no finished model
        try:
            with safe_open(path, framework="numpy") as file:
                found = file.get_tensor("transition.initial"), file.get_tensor("transition.matrix")
            size = len(self.card.classes)
            return checked_transition(path, found[0], size), checked_transition(path, found[1], size)
        except (SafetensorError, OSError, TypeError) as error:  # TypeError: of a type that numpy has not
            raise DamagedFile(
                f"{path} is no model that a run wrote, or is damaged ({error})", path=path
            ) from None

    @cached_property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing of a table's columns; None if the source is not a table."""
        path = self.path / PREPROCESSING_FILE
        if not path.is_file():
            return None
        from trevision.data.files.preprocessing import load_preprocessing

        return load_preprocessing(path)

    @cached_property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a table as they were learnt from; None if the source is not a table."""
        path = self.path / PREPROCESSING_FILE
        if not path.is_file():
            return None
        from trevision.data.files.saved_columns import read_columns

        return read_columns(path)

    @property
    def has_probabilities(self) -> bool:
        """Whether there are out-of-sample predictions for every row."""
        return (self.path / OUT_OF_SAMPLE_FILE).is_file()

    @cached_property
    def probabilities(self) -> OutOfSampleRows:
        """Out-of-sample predictions for every row."""
        from trevision.data.files.arrays import npz_members

        path = self.path / OUT_OF_SAMPLE_FILE
        arrays = npz_members(path)
        needed = ("probs", "labels", "rows", "folds")
        if lacking := [name for name in needed if name not in arrays]:
            raise DataError(f"{path}: lacks {', '.join(lacking)}; remove it to have it made again")
        size = len(self.card.classes)
        probs, labels, rows, folds = (arrays[name] for name in needed)
        fit = (
            *(probs.dtype.kind == "f", probs.shape == (labels.size, size), labels.size == rows.size > 0),
            *(labels.ndim == rows.ndim == 1, labels.dtype.kind in "iu", rows.dtype.kind in "iu"),
            *(folds.ndim == 0, folds.dtype.kind in "iu"),
        )
        if not all(fit) or labels.min() < 0 or labels.max() >= size or rows.min() < 0:
            raise DamagedFile(
                f"{path}: must hold P(noisy | x) of {size} classes, a label and a number of each row, and "
                "the number of folds; remove it to have it made again",
                path=path,
            )
        if not (np.isfinite(probs).all() and (probs >= 0).all()):
            raise DamagedFile(f"{path}: must hold probabilities; remove it to have it made again", path=path)
        return OutOfSampleRows(probs, labels, rows, int(folds))

    @property
    def has_annotators(self) -> bool:
        """Whether the run learnt from several labels a row."""
        return has_annotators(self.path)

    @cached_property
    def annotators(self) -> Annotators:
        """annotators.json, with P(clean) of the rows."""
        return read_annotators(self.path)

    @cached_property
    def clean_rows(self) -> np.ndarray:
        """The number in the source of each row of P(clean)."""
        return read_clean_rows(self.path)

    @cached_property
    def answers(self) -> pa.Table:
        """answers.parquet: row, annotator and label of every answer, by row."""
        import pyarrow as pa

        from trevision.data.files.parquet_files import read_columns

        types = {"row": pa.int64(), "annotator": pa.string(), "label": pa.string()}
        return read_columns(self._written_by_fit(ANSWERS_FILE), types, "fit again")

    @property
    def has_issues(self) -> bool:
        """Whether `trevision issues` has scored the labels."""
        return (self.path / ISSUES_PARQUET).is_file() and (self.path / NOISE_JSON).is_file()

    @cached_property
    def noise(self) -> FoundNoise:
        """noise.json."""
        noise = read_noise(self._written_by_issues(NOISE_JSON))
        classes = self.card.class_names
        if noise.classes != classes:
            raise DamagedFile(
                f"{self.path / NOISE_JSON} must have the {len(classes)} classes of the run, got "
                f"{len(noise.classes)} that are not the same; run `trevision issues {self.path}` again"
            )
        return noise

    @cached_property
    def issues(self) -> pa.Table:
        """issues.parquet: one line per label, most suspicious first."""
        return read_issues(self._written_by_issues(ISSUES_PARQUET))

    def _written_by_fit(self, name: str) -> Path:
        if (self.path / name).is_file():
            return self.path / name
        raise DataError(
            f"{self.path} must be a finished run of `trevision fit`: it has no {name}; "
            "the command that started the run continues it"
        )

    def _written_by_issues(self, name: str) -> Path:
        if (self.path / name).is_file():
            return self.path / name
        raise DataError(f"{self.path} has no {name}; run `trevision issues {self.path}` first")

    @property
    def _holds_anything(self) -> bool:
        # A name that begins with a dot is the lock, or a file that a kill left half written.
        return any(not each.name.startswith(".") for each in self.path.iterdir())

    def finished_result(self, config: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a finished run of this config, or None.

        Raises a ValueError if the folder holds another run.
        """
        if not (self.path / "config.json").exists():
            if self.path.exists() and (not self.path.is_dir() or self._holds_anything):
                raise TrevisionError(f"out must be a new folder or that of an earlier run, got {self.path}")
            return None
        held = read_json(self.path / "config.json")
        known, wanted = canonical(held), canonical(config)
        if known != wanted:
            changed = sorted(key for key in known | wanted if known.get(key) != wanted.get(key))
            raise TrevisionError(
                f"{self.path} holds a run with another {', '.join(changed) or 'configuration'}; "
                "choose another folder, or remove it"
            )
        check_unchanged(held.get("files", {}), self.path / "config.json")
        return self.result if (self.path / "result.json").exists() else None

    def write_metrics(self, history: Sequence[dict[str, Any]]) -> None:
        """Write metrics.jsonl, one line per epoch."""
        lines = "".join(json.dumps(record) + "\n" for record in history)
        write_atomically(self.path / "metrics.jsonl", lambda path: path.write_text(lines, encoding="utf-8"))

    def save_out_of_sample(self, predictions: OutOfSample, data: NoisyData) -> None:
        """Write probabilities.npz: P(noisy | x), noisy label and row number in the source, for every row."""
        probs, labels = predictions.rows(data)
        rows = np.concatenate([data.train_rows, data.valid_rows])
        self.write_out_of_sample(OutOfSampleRows(probs, labels, rows, predictions.folds))

    def write_out_of_sample(self, predicted: OutOfSampleRows) -> None:
        """Write probabilities.npz."""

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **vars(predicted))

        write_atomically(self.path / OUT_OF_SAMPLE_FILE, write)

    def save_labels(self, source_labels: RowLabels, data: NoisyData) -> None:
        """Write labels.parquet: number, name and noisy label of every row that the run learnt from.

        Parameters
        ----------
        source_labels
            The rows of the source, for their names.
        data
            The rows that the run learnt from, with their noisy labels.
        """
        rows = np.concatenate([data.train_rows, data.valid_rows])
        self.write_labels(
            source_labels, rows, np.concatenate([data.train_y.cpu().numpy(), data.valid_y.cpu().numpy()])
        )

    def write_labels(self, source_labels: RowLabels, rows: np.ndarray, codes: np.ndarray) -> None:
        """Write labels.parquet: the noisy labels `codes` of the rows with these numbers."""
        import pyarrow as pa
        import pyarrow.parquet

        order = np.argsort(rows, kind="stable")
        rows, codes = rows[order], codes[order]
        columns = {"row": rows, "label": np.array(source_labels.class_names, dtype=object)[codes]}
        if source_labels.names is not None:
            names = source_labels.names[source_labels.positions(rows)]
            columns["name"] = np.array([str(name) for name in names], dtype=object)
        # All classes are stored in order, because a class may have no row here.
        classes = json.dumps(list(source_labels.class_names))
        table = pa.table(columns).replace_schema_metadata({"classes": classes})
        write_atomically(self.path / LABELS_FILE, lambda path: pa.parquet.write_table(table, path))


def _read_labels_file(path: Path) -> RowLabels:
    import pyarrow as pa

    from trevision.data.files.parquet_files import read_columns

    repair = "remove it to read them from the source"
    types = {"row": pa.int64(), "label": pa.string(), "name": pa.string()}
    table = read_columns(path, types, repair, optional=("name",))
    try:
        class_names = parse_json((table.schema.metadata or {})[b"classes"].decode(), path, "its classes")
        check_form(class_names, [str], path, "its classes")
        code_of = {name: code for code, name in enumerate(class_names)}
        codes = np.array([code_of[label] for label in table.column("label").to_pylist()], dtype=np.int64)
    except (KeyError, UnicodeDecodeError) as error:
        raise DamagedFile(
            f"{path}: must be the labels that a run wrote ({error}); {repair}", path=path
        ) from None
    rows, names = table.column("row").to_numpy(), None
    if not len(rows) or rows.min() < 0:
        raise DamagedFile(f"{path}: must hold rows by their numbers, 0 or more; {repair}", path=path)
    if "name" in table.column_names:
        names = np.array(table.column("name").to_pylist(), dtype=object)
    return RowLabels(rows, codes, tuple(class_names), names)
