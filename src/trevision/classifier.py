"""The scikit-learn estimator: its choices, and how it is fitted."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, column_or_1d, validate_data
from torch import nn

from trevision.arguments import answer_table, check_given, check_weights
from trevision.callbacks import Callback, Several, check_callbacks
from trevision.data.files.arrays import codes_in, encode_labels
from trevision.data.noisy import split, vanished
from trevision.data.rows import Rows
from trevision.estimation import Answers
from trevision.fitted import FittedClassifier, Network, rows_to_learn_from
from trevision.foreign import Columns, has_columns, read_labelled
from trevision.methods.answered import learn_from_answers
from trevision.methods.cross_fit import with_out_of_sample
from trevision.methods.options import ANSWERS_METHOD, Options, check_choices_for_answers
from trevision.methods.problem import Learned, network_seed
from trevision.methods.registry import check_options, find_method, pose, schedule_of
from trevision.methods.schedules import Schedule
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.prior import Prior
from trevision.training.inputs import NetworkMaker, standardise_for
from trevision.training.precision import settled_precision
from trevision.training.progress import LineProgress
from trevision.training.runtime import Runtime, launch

DEFAULT_METHOD = "auto"


class TRevisionClassifier(FittedClassifier):
    """A classifier for partly wrong labels, which also learns how they go wrong.

    T[i, j] = P(noisy = j | clean = i) is estimated from the noisy labels and a network is trained through it.
    Then both are revised together (Xia et al. 2019, Algorithm 1).

    Parameters
    ----------
    method : str, default="auto"
        The learning method: `auto`, `standard`, `decoupling`, `mentornet`, `co-teaching`, `gce`, `sce`,
        `volminnet`, `tv`, `forward`, `backward`, `reweight`, `rent`, `forward-gce`, `forward-sce`, `unlabel`,
        `forward-r`, `reweight-r` or `recursive`. `auto` corrects by T only where held-out noisy labels speak
        for it, and else trains plainly.
    network : None, str, nn.Module or callable, default=None
        None chooses by the shape of the data and, for small colour images on a CPU, by the schedule.
        A str is a name: `lenet`, `resnet8`, `resnet18`, `resnet34`, `resnet50`, `narrow`, `wide` or `mlp`.
        Your own module, or a function that makes it, must map a batch to logits (n, C).
    schedule : str or Schedule, default="quick"
        How long and how fast to train: `quick`, `strong`, `paper`, or a `Schedule` of your own.
    revision : str or None, default=None
        How Delta T may move: `slack`, `projected`, `simplex` or `frozen`. For this and all choices below,
        None keeps the schedule's value, and `fit` refuses a choice that the method does not use.
    reweight_gradient : str or None, default=None
        Whether the revision's gradient flows through the weight g / (T'g): `live` or `detached`.
    lr_revision, lr_transition : float or None, default=None
        Learning rates of the network and of Delta T in the revision.
    noise_rate : float or None, default=None
        The share of wrong labels, for `mentornet` and `co-teaching`; None estimates it from T.
    mentor : str, default="self-paced"
        How `mentornet` weights samples: `self-paced` or `learned`.
    estimator : str or None, default=None
        How T is estimated. `latent` (the default), `latent-unpooled`, `confident-joint`, `dual-t`, `hoc` and
        `counted` use predictions for rows that a network was not trained on. `anchor` uses the paper's anchor
        points, without that extra training. A `Schedule` of your own names its estimator.
    prior : Prior or None, default=None
        What is known of T. Its classes are numbered in the order of `classes_`.
    validation_share : float, default=0.1
        The share of rows held out, with their noisy labels, to select the epoch.
    standardise : bool, default=True
        Whether inputs are shifted and scaled by the training rows' mean and standard deviation: images by
        channel, tables by column.
    accelerator, devices, precision
        Handed to Lightning Fabric. The precision `auto` is `bf16-mixed` for the networks `narrow` and `wide`
        on a CPU that is faster by it, else `32-true`.
    random_state : int, RandomState or None, default=None
        Seed of the split, initial weights and batches.
    verbose : int, default=0
        1 shows progress on standard error.
    callbacks : list of Callback or None, default=None
        What is told of every stage and epoch: `trevision.callbacks.TensorBoard(folder)`, `MLflow()`,
        `WandB()`, or a `Callback` of your own.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The labels, sorted. Rows and columns of the matrices follow their order.
    transition_matrix_ : ndarray of shape (C, C)
        The learnt T.
    initial_transition_matrix_ : ndarray of shape (C, C)
        T before the revision; for `volminnet` and `tv`, its start.
    noise_rate_ : float or None
        The share of wrong labels that the method assumed; None if it needs none.
    history_ : list of dict
        One record per epoch.
    stopped_because_ : str
        Why the training ended.
    warnings_ : list of str
        Doubts about the result, in sentences.
    correction_reason_ : str
        For `auto`: which correction was made, and why, with numbers; else empty.
    annotators_ : Annotators or None
        With several labels a row: T of each annotator, how often each is right, and P(clean) of every row.
        `transition_matrix_` is then that of the crowd.
    rows_ : ndarray of int
        The rows of `fit` that took part: those of a positive weight.
    dataset_columns_ : str, list of str or None
        The columns of the Hugging Face data set in `fit`; None for other data.
    out_of_sample_ : tuple of ndarray, or None
        P(noisy | x) of these rows, by a network that was not trained on them, and the codes of the noisy
        labels. With several labels a row: P(clean | x), and the vote of the annotators. None if T was
        estimated without these predictions, and after `load`.

    References
    ----------
    Xia, Liu, Wang, Han, Gong, Niu, Sugiyama, "Are Anchor Points Really Indispensable in Label-Noise
    Learning?", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from trevision import TRevisionClassifier, noise
    >>> rng = np.random.default_rng(0)
    >>> clean = np.arange(300) % 3
    >>> x = np.eye(3)[clean] + 0.2 * rng.normal(size=(300, 3))
    >>> noisy = noise.corrupt(clean, noise.pair_flip(3, 0.3), rng)
    >>> model = TRevisionClassifier(random_state=0).fit(x, noisy)
    >>> model.transition_matrix_.shape, bool(model.score(x, clean) > 0.9)
    ((3, 3), True)
    """

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        network: Network | None = None,
        schedule: str | Schedule = "quick",
        revision: str | None = None,
        reweight_gradient: str | None = None,
        lr_revision: float | None = None,
        lr_transition: float | None = None,
        noise_rate: float | None = None,
        mentor: str = "self-paced",
        estimator: str | None = None,
        prior: Prior | None = None,
        validation_share: float = 0.1,
        standardise: bool = True,
        accelerator: str = "auto",
        devices: int = 1,
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.method = method
        self.network = network
        self.schedule = schedule
        self.revision = revision
        self.reweight_gradient = reweight_gradient
        self.lr_revision = lr_revision
        self.lr_transition = lr_transition
        self.noise_rate = noise_rate
        self.mentor = mentor
        self.estimator = estimator
        self.prior = prior
        self.validation_share = validation_share
        self.standardise = standardise
        self.accelerator = accelerator
        self.devices = devices
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        columns: Columns = None,
        clean_X: Any = None,
        clean_y: Any = None,
    ) -> TRevisionClassifier:
        """Learn from rows with noisy labels.

        Parameters
        ----------
        X : array-like of shape (n, features) or (n, channels, height, width)
            The rows: a table, or images. A table may be a scipy sparse matrix or array: each batch is made
            dense when it is needed, the whole table never. A torch data set of pairs (row, label), a
            DataLoader of one and a Hugging Face data set are read into memory first.
        y : array-like of shape (n,) or (n, annotators), or str
            Their labels, partly wrong, of any values. With two columns or more, each column holds the answers
            of an annotator (a frame's columns name them), with None, NaN or, among numbers, -1 where there is
            no answer. P(clean) is then learnt by cross-entropy, and choices about T must be left out. For a
            Hugging Face data set, the name of the labels' column; None if the samples of a torch data set
            hold them.
        sample_weight : array-like of shape (n,), optional
            How often each row counts, in training, in selecting the epoch and in estimating T. Only ratios
            matter. A row of weight 0 takes no part at all.
        columns : str or list of str, optional
            The columns of a Hugging Face data set to learn from: one of arrays, or several of numbers. None
            takes all but y.
        clean_X, clean_y : array-like, optional
            Rows with right labels, and these labels, or a data set as above. They select the epoch instead of
            the noisy validation labels.

        Returns
        -------
        TRevisionClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            If a choice is invalid or unused by the method, or the data cannot be used.
        """
        method = find_method(self.method)
        options = Options(
            revision=self.revision,
            reweight_gradient=self.reweight_gradient,
            lr_revision=self.lr_revision,
            lr_transition=self.lr_transition,
            noise_rate=self.noise_rate,
            mentor=self.mentor,
            estimator=self.estimator,
        )
        if not isinstance(self.prior, Prior | None):
            raise TypeError(f"prior must be a Prior or None, got {self.prior!r}; write Prior(symmetric=True)")
        callbacks = check_callbacks(self.callbacks)
        X, y, self.dataset_columns_ = read_labelled(X, y, columns, numeric=True)
        check_given(X, y)
        table = answer_table(y, _num_samples(X)) if hasattr(X, "__len__") or issparse(X) else None
        if table is None:
            check_options(options, self.method)
            _refuse_missing(y)
            X, y = validate_data(
                self, X, y, accept_sparse="csr", allow_nd=True, ensure_min_samples=2, multi_output=True
            )
            y = column_or_1d(y, warn=True)
            _refuse_fractions(y)
            check_classification_targets(y)
        else:
            check_choices_for_answers(self.method, DEFAULT_METHOD, options, self.prior)
            X = validate_data(self, X, accept_sparse="csr", allow_nd=True, ensure_min_samples=2)
        weights = check_weights(sample_weight, X.shape[0])
        self.rows_ = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
        weights = None if weights is None else weights[self.rows_]
        x = rows_to_learn_from(X if weights is None else X[self.rows_], "X")
        answers = None
        if table is None:
            self.classes_, labels = encode_labels(y if weights is None else y[self.rows_])
        else:
            self.classes_ = table.classes
            answers = Answers.of_table(table.codes[self.rows_], len(table.classes), table.names)
            labels = answers.vote()
        seed = int(check_random_state(self.random_state).randint(2**31))
        data = split(
            x,
            labels,
            self.validation_share,
            num_classes=len(self.classes_),
            random_state=np.random.default_rng([seed, 2]),
            weights=weights,
        )
        data = replace(data, **self._trusted_set(clean_X, clean_y))
        schedule, network = self.schedule, self._network_name(tuple(x.shape[1:]))
        if isinstance(schedule, str):
            schedule = schedule_of(
                schedule, self.method, "arrays", len(data.train_x), data.num_classes, network
            )
        precision = settled_precision(self.precision, network, self.accelerator)
        fabric = launch(self.accelerator, self.devices, precision)
        watch = Several([LineProgress()] if self.verbose else [])
        watch.observers += callbacks if fabric.is_global_zero else []
        problem = pose(
            self.method if answers is None else ANSWERS_METHOD,
            data,
            make_network=self._network_maker(tuple(x.shape[1:]), seed),
            standardise=self._standardiser(data.train_x),
            schedule=schedule,
            seed=seed,
            runtime=Runtime(fabric, progress=watch),
            options=options,
            prior=self.prior,
        )
        self.out_of_sample_, self.annotators_ = None, None
        placed = np.concatenate([data.train_rows, data.valid_rows])
        order = np.argsort(placed)
        try:
            if answers is not None:
                learned, crowd = learn_from_answers(problem, answers.take(placed))
                for doubt in crowd.annotators.warnings:
                    warnings.warn(doubt, UserWarning, stacklevel=2)
                self._keep(learned)
                self.annotators_ = replace(
                    crowd.annotators, clean_posterior=crowd.annotators.clean_posterior[order]
                )
                self.out_of_sample_ = (crowd.held_out[order], labels)
            else:
                problem = with_out_of_sample(problem)
                self._keep(method(problem))
                if problem.out_of_sample is not None:
                    probs, codes = problem.out_of_sample.rows(data)
                    self.out_of_sample_ = (probs[order], codes[order])
        except BaseException:
            watch.end(None)
            raise
        self.warnings_ = [*self.warnings_, *vanished(data, self.classes_)]
        watch.end(self._summary())
        self.shape_ = tuple(x.shape[1:])
        return self

    def _keep(self, learned: Learned) -> None:
        self._keep_model(learned.model, learned.initial_transition, learned.transition)
        self.history_ = learned.history
        self.stopped_because_ = learned.stopped_because
        self.warnings_ = learned.warnings
        self.correction_reason_ = "" if learned.choice is None else learned.choice["reason"]
        self.noise_rate_ = learned.noise_rate

    def _summary(self) -> dict[str, Any]:
        """What callbacks are told at the end."""
        return {
            "transition": self.transition_matrix_,
            "initial_transition": self.initial_transition_matrix_,
            "noise_rate": self.noise_rate_,
            "stopped_because": self.stopped_because_,
            "warnings": self.warnings_,
            "parameters": {
                name: value
                for name, value in self.get_params(deep=False).items()
                if isinstance(value, str | int | float | None)
            },
        }

    def _trusted_set(self, clean_X: Any, clean_y: Any) -> dict[str, Any]:
        if clean_X is None and clean_y is None:
            return {}
        if clean_X is not None:
            columns = self.dataset_columns_ if has_columns(clean_X) else None
            clean_X, clean_y, _ = read_labelled(
                clean_X, clean_y, columns, numeric=True, names=("clean_X", "clean_y")
            )
        if clean_X is None or clean_y is None:
            raise ValueError("clean_X and clean_y must be given together: trusted rows and their labels")
        rows = self._checked_rows(clean_X, "clean_X")
        codes = codes_in(clean_y, self.classes_, "clean_y")
        if len(rows) != len(codes):
            raise ValueError(f"clean_X and clean_y must be of one length, got {len(rows)} and {len(codes)}")
        return {"trusted_x": rows, "trusted_y": torch.from_numpy(codes)}

    def _network_maker(self, shape: tuple[int, ...], seed: int) -> NetworkMaker:
        network, classes = self.network, len(self.classes_)
        if network is None or isinstance(network, str):
            name = self._network_name(shape)
            return lambda number=0: build(name, shape, classes, network_seed(seed, number))
        if isinstance(network, nn.Module):
            return lambda number=0: copy.deepcopy(network)

        def make(number: int = 0) -> nn.Module:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(network_seed(seed, number))
                return network()

        return make

    def _standardiser(self, x: Rows) -> nn.Module:
        return standardise_for(x) if self.standardise else Standardise.identity(tuple(x.shape[1:]))


def _refuse_missing(y: Any) -> None:
    """A ValueError for a label that is None; scikit-learn's own checks would fail to sort it."""
    values = np.asarray(y)
    if y is None or values.dtype != object:
        return  # numbers and strings hold no None
    missing = [row for row, value in enumerate(values.ravel()) if value is None]
    if missing:
        raise ValueError(f"y must hold a label in every row, got None in row {missing[0]}; drop such rows")


def _refuse_fractions(y: np.ndarray) -> None:
    """A ValueError for measurements where classes should be."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y != np.floor(y)).any():
        first = y[y != np.floor(y)][0]
        raise ValueError(
            f"Unknown label type: y must hold classes, got fractions such as {first:g}; measurements must be "
            "put into classes first"
        )
