"""Where a command may write: not over the files of a run, nor over what it reads."""

from __future__ import annotations

from pathlib import Path

from trevision.files import TrevisionError

RUN_FILES = (
    *("config.json", "result.json", "metrics.jsonl", "transition.csv", "model.safetensors", "model.skops"),
    *("labels.parquet", "preprocessing.skops", "probabilities.npz"),
    *("answers.parquet", "annotators.json", "clean.npz"),
    *("issues.csv", "issues.parquet", "noise.json", "audit-plan.parquet", "audit.json", ".lock"),
)
"""The files of a run folder. Its pages, which commands write again, are not among them."""


def check_output(out: Path, *inputs: Path | str | None) -> None:
    """Raise an error for a file to write that is one of a run folder, or one of `inputs`.

    Of an input that is a folder, only its images count: a list of them may be written beside them.
    """
    folder = out.absolute().parent
    if is_run(folder):
        same = [name for name in RUN_FILES if name == out.name or _is_same(out, folder / name)]
        if same:
            raise TrevisionError(
                f"out must not be {same[0]} of the run in {folder}, which would be lost, got {out}", path=out
            )
    if folder.name == "checkpoints" and is_run(folder.parent):
        raise TrevisionError(f"out must not lie among the checkpoints of a run, got {out}", path=out)
    for each in inputs:
        read = None if each is None else Path(each).expanduser()
        if read is None or not read.exists() or not out.exists():
            continue
        if read.is_dir():
            from trevision.data.files.image_lists import (
                is_image,
            )  # imports pyarrow, which `estimate` needs not

            lost = is_image(out.name) and out.resolve().is_relative_to(read.resolve())
        else:
            lost = _is_same(out, read)
        if lost:
            raise TrevisionError(f"out must not be what is read, got {out}; choose another file", path=out)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or a part of one."""
    return (folder / "config.json").is_file()


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
