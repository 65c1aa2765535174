"""scikit-learn's handwritten digits: small, and always available."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from trevision.data.progress import Progress
from trevision.data.source import Source, SourceData


def read_digits(data_dir: Path | None = None, progress: Progress | None = None) -> SourceData:
    """1,797 grey images of digits, 8 x 8, values in [0, 16]; a fixed, stratified 20 % is the test part."""
    # Imported here, because many commands list the data sets without reading this one.
    import sklearn.datasets
    from sklearn.model_selection import train_test_split

    x, y = sklearn.datasets.load_digits(return_X_y=True)
    images = x.reshape(-1, 1, 8, 8).astype(np.uint8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, y.astype(np.int64), test_size=0.2, stratify=y, random_state=0
    )
    return SourceData(train_x, train_y, test_x, test_y, tuple("0123456789"))


def _scikit_learn_data() -> Path | None:
    spec = find_spec("sklearn")  # found without being imported
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "datasets"


DIGITS = Source(
    "digits",
    "1,797 handwritten digits, 8 x 8 grey, 10 classes",
    read_digits,
    shape=(1, 8, 8),
    folder=_scikit_learn_data(),
)
