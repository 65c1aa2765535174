"""`NoisyLabelClassifier`: any scikit-learn classifier, for labels that are partly wrong."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from trevision.arguments import AnswerTable, answer_table, check_given, check_weights
from trevision.estimation import (
    BOOTSTRAP,
    Annotators,
    Answers,
    Estimator,
    Solution,
    default_estimator,
    find_estimator,
)
from trevision.foreign import Columns, ScoresDataSets, read_labelled, read_rows
from trevision.issues import LabelIssues, find_label_issues, issues_of_answers
from trevision.noise import FloatArray, IntArray, refuse_masked
from trevision.refit.answered import (
    fit_on_targets,
    learn_from_answers,
    reason_for_answers,
    share_of_wrong_answers,
)
from trevision.refit.checks import check_estimator_given, check_folds, check_labels_given
from trevision.refit.choice import Choice, choose
from trevision.refit.correction import Evidence
from trevision.refit.models import FittedModel, averaged, fit_folds, fit_model, make_folds
from trevision.refit.registry import AUTO, CORRECTIONS, find_correction
from trevision.refit.selection import LEAST_FOLDS, Task


# Without type information of scikit-learn, its classes are Any to a type checker.
class NoisyLabelClassifier(ScoresDataSets, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn classifier, fitted on what its noisy labels probably were.

    Models fitted on four fifths of the rows predict P(noisy | x) for the others. From that come
    T[i, j] = P(noisy = j | clean = i), the clean posterior g(x), and for each row

        P(clean = i | x, given = j) = g_i(x) T[i, j] / sum_k g_k(x) T[k, j].

    The model is then fitted again, on labels corrected by it. Whether to correct, and how, is chosen by how
    likely held-out *noisy* labels are through T; no clean label is needed.

    Parameters
    ----------
    estimator : classifier
        A scikit-learn classifier with `predict_proba`: gradient boosting, a forest, logistic regression, a
        Pipeline, ... It is cloned, never fitted itself.
    correction : str, default="auto"
        What the model is fitted on. `soft`: every row as weighted copies, one for each label that it may have
        had. `reweight`: the given label with the weight g_y / (T' g)_y. `prune`: labels that are probably
        wrong are left out. `confident`: labels that the model is sure against are left out, as many as the
        confident joint counts. `none`: the labels as given. `auto` chooses among them.
    transition_estimator : str or None, default=None
        Where T comes from: `latent` (the default up to 100 classes), `latent-unpooled`, `confident-joint`
        (the default beyond), `dual-t`, `hoc`, `anchor` or `counted`.
    revise : bool, default=True
        Whether T is estimated once more from the predictions of corrected models. The step is kept only if
        held-out noisy labels become clearly likelier by it. With several labels a row: whether it is
        estimated how many independent answers an answer counts as.
    average : bool, default=True
        Whether, with `auto`, the models of the chosen correction that were fitted without each fold may have
        half the say in predictions: they have where held-out noisy labels do not speak against it. It costs
        no fit, but their memory, and their time to predict. False predicts by `estimator_` alone.
    cv : int or splitter, default=5
        The number of stratified folds, or a scikit-learn splitter that holds out every row once.
    n_jobs : int or None, default=None
        How many models are fitted at a time, as in scikit-learn.
    random_state : int, RandomState or None, default=None
        Seed of the folds, and of the rows drawn for models that take no weights.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        The labels, sorted. Rows and columns of the matrices follow their order.
    estimator_ : classifier
        The model that was fitted on all rows. Its labels are codes into `classes_`.
    fold_models_ : tuple of FittedModel
        The models that share in predictions; empty if `estimator_` predicts alone.
    transition_matrix_ : ndarray of shape (C, C)
        T, also where no correction was made.
    initial_transition_matrix_ : ndarray of shape (C, C)
        T before the revision.
    class_prior_ : ndarray of shape (C,)
        P(clean).
    noise_rate_ : float
        The estimated share of wrong labels.
    correction_ : str
        The correction that was made.
    correction_reason_ : str
        Why, with the numbers.
    correction_scores_ : dict
        For each correction compared: `log_likelihood` of held-out noisy labels, `gain` over `none` and its
        standard `error`, all in nats a row, and `accuracy`, how often its likeliest class is the held-out
        noisy label. Empty if nothing was compared.
    annotators_ : Annotators or None
        With several labels a row: T of each annotator, how often each is right, and P(clean) of every row.
        `transition_matrix_` is then that of the crowd, and `noise_rate_` the share of wrong answers.
    out_of_sample_ : tuple of ndarray
        P(noisy | x) of every row in `fit`, by a model that was not fitted on it, and the codes of the labels.
        With several labels a row: P(clean | x), and the vote of the annotators.
    history_ : list of dict
        What was done, step by step.
    warnings_ : list of str
        What is doubtful about the result, in sentences.
    n_features_in_ : int
        The number of columns, where X has columns.
    dataset_columns_ : str, list of str or None
        The columns of the Hugging Face data set in `fit`; None for other data.

    Notes
    -----
    `auto` with five folds fits 36 models, and 5 more where held-out labels leave it undecided; a named
    correction with `revise=False` fits 6, and so do several labels a row. In the paper, T and
    a network are revised together by gradient steps. A model without gradients cannot do that: it is fitted
    again instead.

    References
    ----------
    Xia, Liu, Wang, Han, Gong, Niu, Sugiyama, "Are Anchor Points Really Indispensable in Label-Noise
    Learning?", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from trevision import NoisyLabelClassifier, noise
    >>> rng = np.random.default_rng(0)
    >>> clean = np.arange(600) % 3
    >>> x = np.eye(3)[clean] + 0.2 * rng.normal(size=(600, 3))
    >>> noisy = noise.corrupt(clean, noise.pair_flip(3, 0.4), rng)
    >>> model = NoisyLabelClassifier(LogisticRegression(), random_state=0).fit(x, noisy)
    >>> bool(model.score(x, clean) > 0.95), model.correction_ != "none"
    (True, True)
    >>> model.transition_matrix_.round(1)
    array([[0.6, 0.4, 0. ],
           [0. , 0.6, 0.4],
           [0.4, 0. , 0.6]])
    """

    _numeric_rows = False

    def __init__(
        self,
        estimator: Any,
        *,
        correction: str = AUTO,
        transition_estimator: str | None = None,
        revise: bool = True,
        average: bool = True,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.correction = correction
        self.transition_estimator = transition_estimator
        self.revise = revise
        self.average = average
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, columns: Columns = None
    ) -> NoisyLabelClassifier:
        """Learn from rows with noisy labels.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or list of length n
            The rows, as the model takes them. They are only indexed, never converted. The columns of a
            Hugging Face data set are read into memory.
        y : array-like of shape (n,) or (n, annotators), or str
            Their labels, partly wrong, of any values; for a Hugging Face data set, the name of their column.
            With two columns or more, each column holds the answers of an annotator (a frame's columns name
            them), with None, NaN or, among numbers, -1 where there is no answer.
        sample_weight : array-like of shape (n,), optional
            How often each row counts. A model that takes no weights gets rows drawn by them.
        columns : str or list of str, optional
            The columns of a Hugging Face data set that the model takes: the values of one, such as texts, or
            a frame of several. None takes all but y.

        Returns
        -------
        NoisyLabelClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            If a choice is none of those that there are, or the data are unfit.
        """
        check_estimator_given(self.estimator)
        if self.correction != AUTO:
            find_correction(self.correction)
        for name in ("revise", "average"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        X, y, self.dataset_columns_ = read_labelled(X, y, columns, numeric=False)
        check_given(X, y)
        validate_data(self, X, y, skip_check_array=True)
        (X,) = indexable(X)
        self.warnings_: list[str] = []
        self.history_: list[dict[str, Any]] = []
        self.annotators_: Annotators | None = None
        self.fold_models_: tuple[FittedModel, ...] = ()
        table = answer_table(y, _num_samples(X))
        if table is not None:
            return self._fit_answers(X, table, sample_weight)
        self.classes_, labels = check_labels_given(X, y)
        weights = check_weights(sample_weight, len(labels))
        task = self._task(X, labels, weights)
        size = task.num_classes
        solver = self._solver(size)

        # 1. P(noisy | x) out of fold, and T from it.
        probs, plain = fit_folds(self.estimator, X, task.plain, task.folds, size, task.seed, self.n_jobs)
        replaced: list[int] = []
        solution = task.solve(solver, probs, np.flatnonzero(task.row_weights > 0), replaced=replaced)
        if replaced:
            names = ", ".join(str(self.classes_[code]) for code in replaced)
            self.warnings_.append(
                f"the first T had another label than its own as the commonest of class {names}: that row was "
                "replaced by the mean of the others"
            )
        if not solution.converged:
            self.warnings_.append("the search for T stopped before it had arrived")
        self.out_of_sample_ = (probs, labels)
        self.initial_transition_matrix_ = solution.transition
        self.history_.append(
            {"step": "estimate T", "estimator": solver.name, "noise_rate": solution.noise_rate}
        )

        # 2. The correction, and a revision of T for it.
        choice = self._decide(task, solver, probs, solution)
        solution = choice.solution
        self.correction_ = choice.correction.name
        self.correction_reason_ = choice.reason
        self.correction_scores_ = {
            name: {
                "log_likelihood": each.log_likelihood,
                "gain": each.gain.mean,
                "error": each.gain.error,
                "accuracy": each.accuracy,
            }
            for name, each in choice.scores.items()
        }
        self.history_ += choice.records
        if choice.scores:
            self.history_.append(
                {"step": "choose", "correction": self.correction_, "scores": self.correction_scores_}
            )
        self.transition_matrix_ = solution.transition
        self.class_prior_ = solution.class_prior
        self.noise_rate_ = solution.noise_rate

        # 3. The model.
        evidence = Evidence(labels, solution.clean_posterior(probs), solution.transition, probs, weights)
        training = choice.correction.apply(evidence).times(weights)
        self._fitted = fit_model(self.estimator, X, training, size, task.seed)
        self.estimator_ = self._fitted.model
        if self.average and choice.averages and choice.told is not None:
            self.fold_models_ = plain if choice.told == "none" else choice.scores[choice.told].models
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable clean label of each row.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or list
            Rows as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Values of `classes_`.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """The clean posterior g(x) by the model; with the correction `none`, that of the labels given.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or list
            Rows as in `fit`.

        Returns
        -------
        ndarray of shape (n, C)
            Probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = read_rows(X, self.dataset_columns_, numeric=False)
        refuse_masked(X, "X")
        if hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ValueError(
                "X must have rows and columns, as in fit, got one dimension; Reshape your data by [X]"
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        whole = self._fitted.predict_proba(X)
        return averaged(whole, self.fold_models_, X) if self.fold_models_ else whole

    def predict_noisy_proba(self, X: Any) -> FloatArray:
        """The noisy posterior T'g(x): what the labels would be if given with the same noise.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or list
            Rows as in `fit`.

        Returns
        -------
        ndarray of shape (n, C)
            Probabilities, in the order of `classes_`.
        """
        probs = self.predict_proba(X)
        return probs @ self.transition_matrix_ if CORRECTIONS[self.correction_].uses_transition else probs

    def find_label_issues(self, bootstrap: int = BOOTSTRAP, level: float = 0.9) -> LabelIssues:
        """Which of the labels in `fit` are probably wrong, and what they should be.

        Each label is judged by a model that was not fitted on it.

        Parameters
        ----------
        bootstrap : int, default=200
            Replicates that the intervals are made of; 0 for no intervals.
        level : float, default=0.9
            The share of intervals that are to hold the truth.

        Returns
        -------
        LabelIssues
            Rows are numbered as in `fit`; a table of it (`to_frame`) has the labels of `fit`. T is the one
            before any revision. With several labels a row, the vote of the annotators is judged by
            `annotators_.clean_posterior`.
        """
        check_is_fitted(self)
        probs, codes = self.out_of_sample_
        if self.annotators_ is not None:
            crowd = self.annotators_
            return issues_of_answers(crowd, codes, bootstrap, level, classes=self.classes_)
        return find_label_issues(
            probs,
            self.classes_[codes],
            estimator=self.transition_estimator,
            bootstrap=bootstrap,
            level=level,
            classes=self.classes_,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _task(self, x: Any, labels: IntArray, weights: FloatArray | None) -> Task:
        counted = labels if weights is None else labels[weights > 0]
        cv = check_folds(self.cv, counted, self.classes_, self.warnings_)
        # A number is the seed as it stands: folds are those of every other tool that is given it.
        given = self.random_state
        seed = int(
            given if isinstance(given, numbers.Integral) else check_random_state(given).randint(2**31 - 1)
        )
        folds = make_folds(labels, weights, cv, x, seed)
        return Task(self.estimator, x, labels, weights, folds, len(self.classes_), seed, self.n_jobs)

    def _solver(self, num_classes: int) -> Estimator:
        """The estimator of T: the one asked for, the one that the correction goes with, or the default."""
        own = None if self.correction == AUTO else CORRECTIONS[self.correction].estimator
        if own is not None and self.transition_estimator not in (None, own):
            raise ValueError(
                f"transition_estimator must be left out with the correction {self.correction}, which goes "
                f"with {own}, got {self.transition_estimator!r}"
            )
        name = self.transition_estimator or own or default_estimator(num_classes)
        return find_estimator(name, "transition_estimator")

    def _decide(self, task: Task, solver: Estimator, probs: FloatArray, solution: Solution) -> Choice:
        """The correction to make and the T to make it by."""
        asked = None if self.correction == AUTO else self.correction
        given = CORRECTIONS[asked or "none"]
        revises = bool(self.revise) and given.estimator is None
        if asked == "none" or (asked and not revises):
            return Choice(given, solution, f"{asked}: as asked for")
        if len(task.folds) < LEAST_FOLDS:
            folds = len(task.folds)
            doubt = f"to compare takes {LEAST_FOLDS} folds, got {folds}; every class needs a row in each"
            self.warnings_.append(doubt)
            return Choice(given, solution, f"{asked}: as asked for" if asked else f"none: {doubt}")
        return choose(task, solver, probs, solution, asked, revises)

    def _fit_answers(self, x: Any, table: AnswerTable, sample_weight: Any) -> NoisyLabelClassifier:
        """Learn from several labels a row: P(clean), and how often each annotator is right."""
        for name, usual in (("correction", (AUTO, "soft")), ("transition_estimator", (None,))):
            if getattr(self, name) not in usual:
                raise ValueError(
                    f"{name} must be left out with several labels a row, got {getattr(self, name)!r}: they "
                    "are learnt as P(clean), and T comes from the answers"
                )
        weights = check_weights(sample_weight, len(table.codes))
        self.classes_ = table.classes
        answers = Answers.of_table(table.codes, len(table.classes), table.names)
        task = self._task(x, answers.vote(), weights)
        learnt = learn_from_answers(task, answers, discount=bool(self.revise))
        self.annotators_ = learnt.annotators
        for doubt in learnt.annotators.warnings:
            self.warnings_.append(doubt)
            warnings.warn(doubt, UserWarning, stacklevel=3)
        self.initial_transition_matrix_ = learnt.alone.crowd
        self.transition_matrix_ = learnt.annotators.crowd
        self.class_prior_ = learnt.annotators.class_prior
        self.noise_rate_ = share_of_wrong_answers(answers, learnt.annotators.clean_posterior)
        self.correction_ = "soft"
        self.correction_reason_ = reason_for_answers(learnt)
        self.correction_scores_ = {}
        self.out_of_sample_ = (learnt.held_out, answers.vote())
        self.history_ += learnt.history
        self._fitted = fit_on_targets(task, learnt.targets)
        self.estimator_ = self._fitted.model
        return self
