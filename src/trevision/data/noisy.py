"""The data that a method may see, and the truth that only the evaluation may see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trevision.data.files.reading import listed
from trevision.data.rows import Rows, joined_rows, select_rows
from trevision.files import DataError


@dataclass(frozen=True, eq=False)
class NoisyData:
    """Everything that a method sees: rows with noisy labels, for training and for selecting an epoch.

    `trusted_x` and `trusted_y` are rows whose labels the user trusts. They select epochs; with
    `trusted_is_learnt`, a stage that goes on from stage 1 learns from them instead. `train_known` (n,) then
    marks them among the training rows. `label_pairs` are clean and noisy labels of samples for which both are
    known. `train_rows` and `valid_rows` are row numbers in the source. `train_weights` and `valid_weights`
    say how often a row counts; None: once. `train_targets` and `valid_targets` (n, C) are P(clean), if it is
    known from the answers of several annotators: it then takes the place of the labels in cross-entropy.
    """

    train_x: Rows
    train_y: Tensor
    valid_x: Rows
    valid_y: Tensor
    num_classes: int
    train_rows: np.ndarray
    valid_rows: np.ndarray
    augmentation: str = "none"
    trusted_x: Rows | None = None
    trusted_y: Tensor | None = None
    trusted_is_learnt: bool = False
    label_pairs: tuple[np.ndarray, np.ndarray] | None = None
    train_weights: Tensor | None = None
    valid_weights: Tensor | None = None
    train_targets: Tensor | None = None
    valid_targets: Tensor | None = None
    train_known: Tensor | None = None

    @property
    def weights(self) -> np.ndarray | None:
        """How often each row counts, training rows first; None if every row counts once."""
        if self.train_weights is None or self.valid_weights is None:
            return None
        return torch.cat([self.train_weights, self.valid_weights]).double().numpy()

    def with_targets(self, clean_posterior: np.ndarray) -> NoisyData:
        """The data with P(clean) as targets: (n, C) of all rows, training rows first."""
        targets = torch.from_numpy(clean_posterior).float()
        count = len(self.train_y)
        return replace(self, train_targets=targets[:count], valid_targets=targets[count:])

    def with_trusted_rows(self) -> NoisyData:
        """The data with the trusted rows behind the training rows, if they are to be learnt from."""
        if not self.trusted_is_learnt or self.trusted_x is None or self.trusted_y is None:
            return self
        labels = self.trusted_y.to(self.train_y)
        known = torch.cat([torch.zeros(len(self.train_y)), torch.ones(len(labels))]).bool()

        def followed(values: Tensor | None, others: Tensor) -> Tensor | None:
            return None if values is None else torch.cat([values, others.to(values)])

        return replace(
            self,
            train_x=joined_rows(self.train_x, self.trusted_x),
            train_y=torch.cat([self.train_y, labels]),
            train_rows=np.concatenate([self.train_rows, np.full(len(labels), -1)]),
            train_weights=followed(self.train_weights, torch.ones(len(labels))),
            train_targets=followed(self.train_targets, one_hot(labels, self.num_classes)),
            train_known=known,
        )

    def only(self, kept: Tensor) -> NoisyData:
        """The data with some of the training rows; the validation rows stay."""
        here = kept.to(self.train_y.device)

        def taken(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[kept]

        return replace(
            self,
            train_x=select_rows(self.train_x, kept),
            train_y=self.train_y[here],
            train_weights=taken(self.train_weights),
            train_targets=taken(self.train_targets),
        )


@dataclass(frozen=True, eq=False)
class Truth:
    """What only the evaluation sees: the T of the added noise, and clean test rows.

    If noise was added, `true_train_y` and `true_valid_y` are the labels before it, row by row as in
    `NoisyData`.
    """

    transition: np.ndarray | None
    test_x: Rows | None
    test_y: Tensor | None
    true_train_y: Tensor | None = None
    true_valid_y: Tensor | None = None


def vanished(data: NoisyData, class_names: Iterable[object]) -> tuple[str, ...]:
    """A sentence for each part of the split that has no row of some class."""
    told = []
    for part, labels, what in (
        ("learnt from", data.train_y, "such a class cannot be learnt"),
        ("validated on", data.valid_y, "epochs are selected without such a class"),
    ):
        counts = torch.bincount(labels.cpu(), minlength=data.num_classes).tolist()
        if gone := [str(name) for name, count in zip(class_names, counts, strict=True) if not count]:
            told.append(f"none of the {len(labels):,} rows {part} is labelled {listed(gone)}: {what}")
    return tuple(told)


def split_rows(
    noisy_labels: Tensor | np.ndarray,
    validation_share: float = 0.1,
    *,
    random_state: int | np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Divide rows at random: ascending row numbers for training and for validation.

    round(validation_share * n) rows, at least 1 and at most n - 1, go to validation. Each class gives its
    share of them, rounded down or up so that the total fits, and keeps a row in training. Where that is
    impossible (there are more validation rows than rows to spare), the split ignores the classes.

    Parameters
    ----------
    noisy_labels
        (n,) integer codes.
    validation_share
        Fraction of the rows for validation.
    random_state
        A seed or a generator.

    Raises
    ------
    DataError
        If there are fewer than two rows.
    """
    labels = np.asarray(noisy_labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"noisy_labels must be integer codes (n,), got {labels.dtype} of shape {labels.shape}"
        )
    if not 0 < validation_share < 1:
        raise ValueError(
            f"validation_share must lie strictly between 0 and 1, got {validation_share}; "
            "a percentage such as 10 is written 0.10"
        )
    n = len(labels)
    if n < 2:
        raise DataError(f"a split needs at least 2 rows, one to train and one to validate, got {n}")
    rng = np.random.default_rng(random_state)
    n_valid = min(max(round(validation_share * n), 1), n - 1)

    shuffled = rng.permutation(n)
    _, codes, counts = np.unique(labels[shuffled], return_inverse=True, return_counts=True)
    if n_valid <= n - len(counts):
        quotas = _quotas(counts, n_valid, rng)
        # The rank of each shuffled row within its class; the first of each class are for validation.
        by_class = np.argsort(codes, kind="stable")
        rank = np.empty(n, dtype=np.int64)
        rank[by_class] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = rank < quotas[codes]
    else:
        chosen = np.arange(n) < n_valid
    return np.sort(shuffled[~chosen]), np.sort(shuffled[chosen])


def _quotas(counts: np.ndarray, n_valid: int, rng: np.random.Generator) -> np.ndarray:
    """Validation rows of each class: largest remainders, ties by lot, at least one row left in training."""
    ideal = n_valid * counts / counts.sum()
    # Rounding down a share below 1 always leaves a row; only the remainders need a limit.
    quotas: np.ndarray = n_valid * counts // counts.sum()
    while (lacking := n_valid - int(quotas.sum())) > 0:
        lot = rng.permutation(len(counts))
        open_classes = lot[quotas[lot] < counts[lot] - 1]
        neediest = open_classes[np.argsort((quotas - ideal)[open_classes], kind="stable")]
        quotas[neediest[:lacking]] += 1
    return quotas


def split(
    x: Rows,
    noisy_labels: Tensor | np.ndarray,
    validation_share: float = 0.1,
    *,
    num_classes: int,
    random_state: int | np.random.Generator,
    augmentation: str = "none",
    weights: np.ndarray | None = None,
) -> NoisyData:
    """Split rows with noisy labels into a training and a validation part; see `split_rows`.

    Parameters
    ----------
    x, noisy_labels
        The rows, and their labels as codes.
    validation_share, random_state
        As for `split_rows`.
    num_classes
        Number of classes. It cannot be counted here: noise may leave a class without rows.
    augmentation
        What the training rows are augmented with.
    weights
        How often each row counts, (n,), all positive; only their ratios matter. None: once.
    """
    labels = torch.as_tensor(noisy_labels)
    if len(x) != len(labels):
        raise DataError(
            f"x and noisy_labels must have the same number of rows, got {len(x)} and {len(labels)}"
        )
    train, valid = split_rows(labels.cpu().numpy(), validation_share, random_state=random_state)
    if int(labels.min()) < 0 or int(labels.max()) >= num_classes:
        raise DataError(
            f"noisy_labels must lie in [0, {num_classes - 1}], got {int(labels.min())} to {int(labels.max())}"
        )
    labels = labels.long()
    train_rows, valid_rows = torch.from_numpy(train), torch.from_numpy(valid)
    counted = None if weights is None else torch.from_numpy(weights / weights.mean()).float()
    return NoisyData(
        train_x=select_rows(x, train_rows),
        train_y=labels[train_rows.to(labels.device)],
        valid_x=select_rows(x, valid_rows),
        valid_y=labels[valid_rows.to(labels.device)],
        num_classes=num_classes,
        train_rows=train,
        valid_rows=valid,
        augmentation=augmentation,
        train_weights=None if counted is None else counted[train_rows],
        valid_weights=None if counted is None else counted[valid_rows],
    )
