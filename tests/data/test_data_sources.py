"""Named data sets declare themselves: a new one is a new file, and every list is derived."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from trevision.cli import main
from trevision.data import named, sources
from trevision.data.dataset import AUGMENTATIONS
from trevision.data.load import load
from trevision.data.source import Source
from trevision.declared import declared_in
from trevision.estimation import ESTIMATORS
from trevision.files import DataError
from trevision.methods.schedules import schedule_for

NEW_FILE = """
import numpy as np

from trevision.data.source import Source, SourceData


def read_dots(data_dir=None, progress=None):
    x, y = np.arange(40, dtype=np.uint8).reshape(10, 1, 2, 2), np.arange(10) % 2
    return SourceData(x[:6], y[:6], x[6:], y[6:], ("odd", "even"))


DOTS = Source("NAME", "10 dots, 2 x 2 grey, 2 classes", read_dots, shape=(1, 2, 2), augmentation="affine")
"""


@pytest.fixture
def add_file(tmp_path, monkeypatch):
    """Adds a file to the folder of named data sets, for as long as the test lasts."""

    def add(name: str) -> None:
        (tmp_path / "dots.py").write_text(NEW_FILE.replace("NAME", name))
        monkeypatch.setattr(named, "__path__", [*named.__path__, str(tmp_path)])

    yield add
    sys.modules.pop("trevision.data.named.dots", None)
    if hasattr(named, "dots"):
        del named.dots


def test_the_data_sets_are_listed_from_small_to_large_samples():
    assert list(sources.SOURCES) == [
        "digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "cifar10n", "clothing1m",
    ]  # fmt: skip


def test_a_new_data_set_is_one_new_file(add_file, monkeypatch, capsys):
    add_file("dots")
    found = declared_in("trevision.data.named", Source, order=lambda source: source.sample_size)
    assert list(found)[:2] == ["dots", "digits"]
    dataset = found["dots"].load()
    assert (dataset.name, dataset.augmentation, dataset.class_names) == ("dots", "affine", ("odd", "even"))
    assert np.array_equal(dataset.train_x.numpy().ravel(), np.arange(24))
    # What is listed anywhere comes from `SOURCES`; an interpreter that starts now has the new one in it.
    monkeypatch.setitem(sources.SOURCES, "dots", found["dots"])
    assert load("dots").train_y.tolist() == [0, 1, 0, 1, 0, 1]
    with pytest.raises(DataError, match=r"clothing1m, dots, or a .*did you mean dots\?"):
        load("dotz")
    assert schedule_for("quick", "dots", 6, 2).estimator == "anchor"
    main(["data"])
    assert "10 dots, 2 x 2 grey" in capsys.readouterr().out


def test_two_data_sets_of_one_name_are_refused(add_file):
    add_file("mnist")
    with pytest.raises(ValueError, match="the name 'mnist' is declared twice"):
        declared_in("trevision.data.named", Source)


@pytest.mark.parametrize("source", sources.SOURCES.values(), ids=lambda source: source.name)
def test_a_declaration_is_whole(source: Source):
    assert source.description
    assert source.augmentation in AUGMENTATIONS
    assert source.distortion in (None, *AUGMENTATIONS)
    assert source.estimator in ESTIMATORS
    assert (source.files is None) == (source.folder is not None)
    assert source.files is None or source.files.name == source.name


def test_samples_have_the_shape_that_is_declared():
    digits = sources.SOURCES["digits"]
    data = digits.read(None, None)
    assert data.train_x.shape[1:] == data.test_x.shape[1:] == digits.shape


def test_the_help_of_fit_names_every_data_set(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    words = capsys.readouterr().out.replace("│", " ").split()
    assert ", ".join(sources.SOURCES) in " ".join(words)
