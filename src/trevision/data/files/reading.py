"""How to read the user's own file or folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trevision.files import DataError

Kind = Literal["npz", "table", "folder", "named"]

TEXT_SUFFIXES = (".csv", ".tsv")
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES)

LARGEST_IMAGE_SIZE = 1024


@dataclass(frozen=True)
class Reading:
    """What the user says about their own file. Named data sets use the defaults."""

    label_column: str | None = None
    """The label column of a .csv or .parquet file; if not given, the column named label or y. `trevision fit`
    guesses other names and says so."""
    text_column: tuple[str, ...] = ()
    """A column of free text, turned into numbers by TF-IDF and truncated SVD; may be given several times. If
    not given, `trevision fit` takes the only column that looks like text."""
    ignore_column: tuple[str, ...] = ()
    """A column to ignore; may be given several times."""
    name_column: str | None = None
    """A column that names the rows; it is shown in results and not learnt from."""
    clean_column: str | None = None
    """A column that says (true/false, yes/no, 1/0) which labels are known to be right. These rows are learnt
    from or select epochs, and are never suspects."""
    clean_source: str | None = None
    """A second file or folder of the same form as SOURCE, whose labels are known to be right."""
    path_column: str | None = None
    """A column of image paths, relative to the table's folder; recognised by its values if not given."""
    paths_anywhere: bool = False
    """Let the paths of a table of images lead out of its folder: absolute ones, and those with .. in them."""
    annotator_column: str | None = None
    """Several labels a row: a column that says who gave the label. Each line of SOURCE is then one answer."""
    id_column: str | None = None
    """Several labels a row: a column that says which row was labelled."""
    rows_source: str | None = None
    """Several labels a row: a second table with the rows, joined by id_column; if not given, the rows are in
    SOURCE itself, repeated for every answer."""
    image_size: int | None = None
    """Resize images to this many pixels per side; if not given, their own size or 64."""
    labels_as_written: bool = False
    """Take every different label as a class of its own: cat, Cat and "CAT " are not joined, and lists such as
    a;c;f or numbers with many levels are not refused."""
    noise_set: str | None = None
    """Which of the noisy labels that come with a named data set: worse, aggre, random1, random2 or random3 of
    cifar10n; worse if not given."""

    @property
    def trusts_rows(self) -> bool:
        """Whether some labels are said to be right."""
        return self.clean_column is not None or self.clean_source is not None

    def check(self, kind: Kind, source: str) -> None:
        """Raise a DataError for a value that is invalid, or does not apply to a `source` of that kind."""
        columns = (
            *("label_column", "text_column", "ignore_column", "name_column", "clean_column"),
            "annotator_column",
        )
        serves: dict[str, tuple[Kind, ...]] = {
            **dict.fromkeys(
                (*columns, "path_column", "paths_anywhere", "id_column", "rows_source"), ("table",)
            ),
            "clean_source": ("npz", "table", "folder"),
            "image_size": ("table", "folder"),
            "labels_as_written": ("npz", "table", "folder"),
            "noise_set": ("named",),
        }
        for name, kinds in serves.items():
            if getattr(self, name) != getattr(Reading, name) and kind not in kinds:
                meant = {
                    "table": "a .csv or .parquet file",
                    "npz": "an .npz file",
                    "folder": "a folder of images",
                    "named": "a named data set",
                }
                fits = " or ".join(meant[fitting] for fitting in kinds)
                raise DataError(f"{name} is a choice for {fits}, got source {source!r}; leave it out")
        if self.image_size is not None and not 4 <= self.image_size <= LARGEST_IMAGE_SIZE:
            raise DataError(f"image_size must lie in [4, {LARGEST_IMAGE_SIZE}] pixels, got {self.image_size}")
        if self.clean_column is not None and self.clean_source is not None:
            raise DataError("clean_column and clean_source must not both be given; leave one out")
        self._check_answers()
        used: dict[str, str] = {}
        for role in (*columns, "path_column"):
            given = getattr(self, role)
            for column in (given,) if isinstance(given, str) else given or ():
                if column in used:
                    raise DataError(f"{role} and {used[column]} must be different columns, got {column!r}")
                used[column] = role

    def _check_answers(self) -> None:
        """Raise a DataError unless what is said about several labels a row fits together."""
        if (self.annotator_column is None) != (self.id_column is None):
            given = "id_column" if self.annotator_column is None else "annotator_column"
            raise DataError(
                "annotator_column and id_column must be given together: who gave a label, and to which row; "
                f"got {given} alone"
            )
        if self.annotator_column is None:
            if self.rows_source is not None:
                raise DataError("rows_source must go with annotator_column and id_column; leave it out")
            return
        if self.clean_column is not None:
            raise DataError("clean_column must be left out with annotator_column; use clean_source")
        if self.id_column in (self.annotator_column, self.label_column):
            raise DataError(
                f"id_column must differ from annotator_column and label_column, got {self.id_column!r}"
            )
        if self.rows_source is not None and kind_of(self.rows_source) != "table":
            raise DataError(f"rows_source must be a .csv or .parquet file, got {self.rows_source!r}")


def kind_of(source: str | Path) -> Kind:
    """The kind of a source, by its name: arrays, a table, a folder of images, or a named data set."""
    suffix = Path(source).suffix.lower()
    if suffix == ".npz":
        return "npz"
    if suffix in TABLE_SUFFIXES:
        return "table"
    # A folder called mnist must be written as a path, such as ./mnist.
    return "folder" if Path(source).expanduser().is_dir() else "named"


def listed(values: list[str], most: int = 8) -> str:
    """A few of `values` for a message, and how many more there are."""
    shown = ", ".join(values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"
