"""A model on disk predicts what it predicted; a file that is none of ours is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.neighbors import KNeighborsClassifier

from trevision.files import DataError
from trevision.models.candidates import CANDIDATES
from trevision.models.corrected import Corrected
from trevision.models.files import MODEL_MEMBER, load_classifier, load_transitions, save_classifier
from trevision.refit.models import FittedModel

SWAPPED = np.array([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0], [0.0, 0.2, 0.8]])


def learnt(blobs, name: str, scaled: bool = True, classes: int = 2) -> Corrected:
    """A model of classes 0 and 2 (and 1) out of three, with a T that is not symmetric."""
    present = np.array([0, 2]) if classes == 2 else np.arange(3)
    x, y = blobs.x[:300], blobs.clean[:300] % classes
    model = CANDIDATES[name].model(CANDIDATES[name].values[0], 0, scaled).fit(x, y)
    fitted = FittedModel(model, present, 3)
    return Corrected(fitted, np.eye(3), SWAPPED, np.empty((0, 3)), 0.9, 0.1, "none", "as asked for", {})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", CANDIDATES)
def test_a_model_on_disk_predicts_the_same_bits(blobs, tmp_path, name, scaled, classes):
    corrected = learnt(blobs, name, scaled, classes)
    save_classifier(tmp_path / "model.skops", corrected, takes_words=False)
    read = load_classifier(tmp_path / "model.skops")
    probs = read.fitted.predict_proba(blobs.test_x)
    assert np.array_equal(probs, corrected.fitted.predict_proba(blobs.test_x))
    assert (probs[:, 1] == 0).all() == (classes == 2)
    assert not read.takes_words
    initial, transition = load_transitions(tmp_path / "model.skops")
    assert np.array_equal(initial, np.eye(3))
    assert np.array_equal(transition, SWAPPED)


def rewritten(path: Path, member: str, content: bytes) -> None:
    """Put another content into the archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, old in members.items():
            archive.writestr(name, content if name == member else old)


def test_a_type_that_is_no_model_of_ours_is_refused(blobs, tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(KNeighborsClassifier().fit(blobs.x[:50], blobs.clean[:50]), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(MODEL_MEMBER, json.dumps({"present": [0, 1], "classes": 2, "takes_words": False}))
    with pytest.raises(
        DataError, match=r"names sklearn\.neighbors\S+KNeighborsClassifier, which is not trusted"
    ):
        load_classifier(path)


def test_a_function_in_the_schema_is_refused_and_not_called(blobs, tmp_path):
    path = tmp_path / "model.skops"
    save_classifier(path, learnt(blobs, "linear"), takes_words=False)
    with zipfile.ZipFile(path) as archive:
        schema = json.loads(archive.read("schema.json"))
    schema |= {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}
    rewritten(path, "schema.json", json.dumps(schema).encode())
    with pytest.raises(DataError, match=r"names os\.system, which is not trusted and is not loaded"):
        load_classifier(path)


@pytest.mark.parametrize("name", ["boosting", "forest"])
@pytest.mark.parametrize("number", [10**6, 0], ids=["out of bounds", "a circle"])
def test_a_tree_that_leads_astray_is_refused(blobs, tmp_path, name, number):
    """scikit-learn follows such indices without a look: out of memory, or forever."""
    corrected = learnt(blobs, name)
    model = corrected.fitted.model
    if name == "boosting":
        nodes = model._predictors[0][0].nodes
        assert not nodes["is_leaf"][0]
        nodes["left"][0] = number
    else:
        model.estimators_[0].tree_.children_left[0] = number
    save_classifier(tmp_path / "model.skops", corrected, takes_words=False)
    with pytest.raises(DataError, match=r"model\.skops: is no model that a run wrote, or is damaged"):
        load_classifier(tmp_path / "model.skops")


@pytest.mark.parametrize(
    "described",
    [b"[]", b"{}", b"{", b'{"present": [0, 5], "classes": 3, "takes_words": false}',
     b'{"present": [0, 1, 2], "classes": 3, "takes_words": false}'],
)  # fmt: skip
def test_a_damaged_description_is_told_in_one_line(blobs, tmp_path, described):
    path = tmp_path / "model.skops"
    save_classifier(path, learnt(blobs, "linear"), takes_words=False)
    rewritten(path, MODEL_MEMBER, described)
    with pytest.raises(DataError, match=r"model\.skops: (cannot be read|is no model)") as told:
        load_classifier(path)
    assert len(str(told.value).splitlines()) == 1


def test_a_torn_file_is_told(blobs, tmp_path):
    path = tmp_path / "model.skops"
    save_classifier(path, learnt(blobs, "linear"), takes_words=False)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match=r"model\.skops: cannot be read"):
        load_classifier(path)
