"""scikit-learn's handwritten digits: small, and always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sklearn.datasets
import torch
from sklearn.model_selection import train_test_split

from trevision.data.dataset import Dataset

DIGITS_FOLDER = Path(sklearn.datasets.__file__).parent


def load_digits() -> Dataset:
    """1,797 grey images of digits, 8 x 8, values in [0, 16]; a fixed, stratified 20 % is the test part."""
    x, y = sklearn.datasets.load_digits(return_X_y=True)
    images = x.reshape(-1, 1, 8, 8).astype(np.uint8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, y.astype(np.int64), test_size=0.2, stratify=y, random_state=0
    )
    return Dataset(
        name="digits",
        train_x=torch.from_numpy(train_x),
        train_y=torch.from_numpy(train_y),
        test_x=torch.from_numpy(test_x),
        test_y=torch.from_numpy(test_y),
        class_names=tuple("0123456789"),
    )
