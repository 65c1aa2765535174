"""A value of a wrong type anywhere in the files of a run is told in one line that names the file."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trevision.files import DEEPEST_JSON, DamagedFile, TrevisionError, read_json
from trevision.runs.run_folder import RunFolder

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file  # noqa: E402

from trevision.cli import main  # noqa: E402
from trevision.report.evidence import Evidence  # noqa: E402
from trevision.report.page import render  # noqa: E402
from trevision.report.run_files import read_run  # noqa: E402
from trevision.training.checkpoint import FolderStore, check_fits  # noqa: E402


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a finished run with its issues; to be copied."""
    folder = tmp_path_factory.mktemp("damaged")
    label = np.arange(60) % 2
    size = np.random.default_rng(0).normal(4 * label, 1).round(3)
    lines = [f"{x},{'cat' if y else 'dog'}" for x, y in zip(size, label, strict=True)]
    (folder / "data.csv").write_text("\n".join(["size,label", *lines]) + "\n")
    run = str(folder / "run")
    main(["fit", str(folder / "data.csv"), "--method", "standard", "--out", run])
    main(["issues", run, "--bootstrap", "10"])
    return folder / "run"


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def read_all(folder: Path) -> None:
    """Read everything that is in the folder, and make the page of it."""
    held = RunFolder(folder)
    for name in ("config", "card", "settings", "reading", "result", "history", "labels", "model"):
        getattr(held, name)
    for name in ("transitions", "preprocessing", "probabilities", "noise", "issues"):
        getattr(held, name)
    record = read_run(folder)
    render(record, record.suspects[:10], Evidence())


def test_the_folder_as_it_was_written_is_read(run):
    read_all(run)


def places(value: Any, place: tuple = ()) -> list[tuple]:
    """The places of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, each in inner for found in places(each, (*place, key)))]


def put(value: Any, place: tuple, new: Any) -> Any:
    if not place:
        return new
    key, *others = place
    value[key] = put(value[key], tuple(others), new)
    return value


STRANGE = (None, True, -1, 1e300, "x", "", [], [1], {}, {"a": 1}, [[]], [{}], 2**62)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_strange_value_anywhere_is_read_or_named_in_one_line(finished, tmp_path_factory, data):
    name = data.draw(st.sampled_from(["config.json", "result.json", "noise.json", "metrics.jsonl"]))
    folder = Path(shutil.copytree(finished, tmp_path_factory.mktemp("strange") / "run"))
    path = folder / name
    first, *others = path.read_text().splitlines() if name == "metrics.jsonl" else [path.read_text()]
    value = json.loads(first)
    place = data.draw(st.sampled_from(places(value)))
    value = put(value, place, data.draw(st.sampled_from(STRANGE)))
    path.write_text("\n".join([json.dumps(value), *others]) + "\n")
    said = ""
    try:
        read_all(folder)
    except TrevisionError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 1000


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-Infinity", "1e400", "1" + "0" * 400, "1" * 5000])
@pytest.mark.parametrize("name", ["config.json", "result.json", "noise.json"])
def test_a_number_that_json_has_not_is_refused(run, name, number):
    value = read_json(run / name) | {"new": 0}
    (run / name).write_text(json.dumps(value).replace('"new": 0', f'"new": {number}'))
    with pytest.raises(DamagedFile, match=name) as refused:
        read_json(run / name)
    assert refused.value.path == run / name
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("depth", [DEEPEST_JSON + 1, 10**5])
def test_deep_nesting_is_refused(tmp_path, depth):
    (tmp_path / "config.json").write_text('{"a":' * depth + "1" + "}" * depth)
    with pytest.raises(DamagedFile, match=r"config\.json .*nested too deeply"):
        read_json(tmp_path / "config.json")


def test_a_loss_that_diverged_is_a_number_of_metrics(run):
    path = run / "metrics.jsonl"
    first, *others = path.read_text().splitlines()
    record = json.loads(first) | {"train_loss": math.inf, "noisy_validation_loss": math.nan}
    path.write_text("\n".join([json.dumps(record), *others]))
    assert RunFolder(run).history[0]["train_loss"] == math.inf


def tensors(run: Path, **changes: Any) -> None:
    held = load_file(run / "model.safetensors")
    for name, value in changes.items():
        name = name.replace("_", ".", 1)
        if value is None:
            del held[name]
        else:
            held[name] = value
    save_file(held, run / "model.safetensors")


@pytest.mark.parametrize(
    "changes",
    [
        {"transition_matrix": torch.tensor(1.0)},
        {"transition_initial": torch.zeros(2, 3)},
        {"transition_matrix": torch.full((2, 2), math.nan)},
        {"transition_matrix": torch.eye(2, dtype=torch.int64)},
        {"transition_matrix": None},
        {"standardise_mean": None},
        {"standardise_scale": torch.zeros(1)},
        {"standardise_mean": torch.zeros(7), "standardise_scale": torch.ones(7)},
        {"network_strange": torch.zeros(1)},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_weights_of_another_form_are_named_in_one_line(run, changes):
    tensors(run, **changes)
    with pytest.raises(DamagedFile, match=r"model\.safetensors is no model that a run wrote") as refused:
        _ = RunFolder(run).model
    assert "\n" not in str(refused.value)
    if any(name.startswith("transition") for name in changes):
        with pytest.raises(DamagedFile, match=r"model\.safetensors"):
            _ = RunFolder(run).transitions


def test_a_t_in_bfloat16_is_read_or_refused_but_never_a_traceback(run):
    tensors(run, transition_matrix=torch.eye(2, dtype=torch.bfloat16))
    assert np.array_equal(RunFolder(run).model.transition, np.eye(2))
    with pytest.raises(DamagedFile, match=r"model\.safetensors"):
        _ = RunFolder(run).transitions


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", "abc"), ("classes", ["a"]), ("classes", ["a", "a"]), ("classes", [1, 2]),
        ("shape", [10**12]),
        ("shape", []), ("shape", [-1]), ("shape", "x"), ("class_type", "U99999999"), ("class_type", "object"),
        ("network", "vgg"), ("network", 5), ("network", "resnet18"),
    ],
)  # fmt: skip
def test_a_card_of_another_model_is_named_in_one_line(run, key, value):
    config = read_json(run / "config.json")
    config["model"][key] = value
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(TrevisionError, match=r"config\.json|model\.safetensors"):
        _ = RunFolder(run).model


TABLES = {
    "labels.parquet": "labels",
    "issues.parquet": "issues",
}


@pytest.mark.parametrize(("name", "read"), TABLES.items())
@pytest.mark.parametrize("column", ["row", "label", "given", "p_given", "suspect"])
@pytest.mark.parametrize("damage", ["missing", "null", "strange"])
def test_columns_of_other_types_are_named_in_one_line(run, name, read, column, damage):
    table = pq.read_table(run / name)
    if column not in table.column_names:
        return
    place = table.column_names.index(column)
    if damage == "missing":
        table = table.remove_column(place)
    else:
        new = [None] * len(table) if damage == "null" else [["a"]] * len(table)
        table = table.set_column(place, column, pa.array(new))
    pq.write_table(table, run / name)
    with pytest.raises(DamagedFile, match=name):
        getattr(RunFolder(run), read)


@pytest.mark.parametrize(
    "change",
    [{"probs": np.zeros(3)}, {"labels": np.array(["a"] * 60)}, {"folds": np.zeros(2)},
     {"rows": np.zeros((2, 2))},
     {"labels": np.full(60, 7)}, {"probs": np.full((60, 2), np.nan)}],
)  # fmt: skip
def test_probabilities_of_another_form_are_named_in_one_line(run, change):
    path = run / "probabilities.npz"
    np.savez(path, **dict(np.load(path)) | change)
    with pytest.raises(DamagedFile, match=r"probabilities\.npz"):
        _ = RunFolder(run).probabilities


def test_a_checkpoint_of_another_model_is_refused_before_anything_is_trained(tmp_path):
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(4, 2)
    good = {"best": model.state_dict(), "selected": {"epoch": 1}, "history": [{"epoch": 1}], "done": "yes"}
    check_fits(good, model, "classifier")
    for bad in (
        good | {"best": other.state_dict()},
        good | {"best": 3},
        good | {"history": None},
        good | {"done": ""},
        {},
    ):
        with pytest.raises(DamagedFile, match="the checkpoint of the stage classifier is damaged"):
            check_fits(bad, model, "classifier")
    torch.save([1, 2], tmp_path / "classifier.pt")
    with pytest.raises(DamagedFile, match=r"classifier\.pt is damaged"):
        FolderStore(tmp_path).load("classifier")
