"""`auto`: corrections through T are made only if held-out noisy labels speak for them.

    noisy-posterior -> T-hat -> {plain, forward, reweight, forward through half of T} compete -> revision

A T that is degenerate, not identified or contradicted by the labels is not used at all. Otherwise every
candidate continues stage 1, and its held-out noisy labels are scored through its own T:

    P(noisy = y | x) = (1 - e) (T' g^a(x))_y + e f_y

with a power a and a share e fitted to the other folds (`refit/scoring.py`). The best correction is taken if
it is ahead of plain training by standard errors and hits no fewer labels. Where T tells an uneven pattern of
mistakes, it is taken unless the labels speak against it. Else the result is `standard`.

Small data are compared fold by fold: networks and T are learnt without the fold. Large data are compared on
the validation rows, which are many then. docs/methods/auto.md has the rules and what was measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from trevision.estimation import ProbabilityRows
from trevision.estimation.count import tells_pattern
from trevision.methods.cross_fit import cross_fit, fold_assignment, stage_name
from trevision.methods.guard import PARTS, Validation, revise_guarded
from trevision.methods.method import Method
from trevision.methods.objectives import forward_objective, released_objective, reweight_objective
from trevision.methods.problem import EstimatedTransition, Learned, Objective, Problem
from trevision.methods.schedules import SMALL
from trevision.methods.stages import (
    NOT_CONVERGED,
    TransitionWarning,
    conclude,
    continue_plainly,
    estimate_transition,
    estimated_without,
    fit_noisy_posterior,
    train_classifier,
)
from trevision.methods.trusted_transition import doubt_of_spread, doubt_of_transition
from trevision.noise import FloatArray
from trevision.refit.held_out import (
    CLEAR_ERRORS_OF_MANY,
    HeldOut,
    Labelled,
    Score,
    best_correction,
    score,
    tells_labels,
    why,
)
from trevision.training.loop import StageResult, TrainingDiverged

NONE = "none"


@dataclass(frozen=True)
class Candidate:
    """A way to continue stage 1: how far T goes from the identity to T-hat, and by which loss."""

    name: str
    prefix: str
    share: float
    weighted: bool = False

    @property
    def stage(self) -> str:
        """The stage's name on all training rows. Plain training has that of `standard`, and so its bits."""
        return "classifier" if self.name == NONE else self.prefix

    def through(self, transition: FloatArray) -> FloatArray:
        """The T of this candidate: `share` of the way from the identity to `transition`."""
        shrunk: FloatArray = self.share * transition + (1 - self.share) * np.eye(len(transition))
        return shrunk

    def train(
        self, problem: Problem, posterior: StageResult, transition: FloatArray, stage: str
    ) -> StageResult:
        """Continue stage 1, plainly or through T."""
        if self.name == NONE:
            return continue_plainly(problem, posterior, stage, problem.schedule.classifier)
        objective = reweight_objective(live_weight=False) if self.weighted else forward_objective
        initial = EstimatedTransition(self.through(transition))
        return train_classifier(problem, posterior, initial, objective, weighted=self.weighted, name=stage)

    def revision(self, problem: Problem, initial: EstimatedTransition) -> Objective:
        """The loss of the revision."""
        if not self.weighted:
            return forward_objective
        if problem.schedule.revision_loss == "released":
            return released_objective(problem, initial)
        return reweight_objective(problem.schedule.live_weight)


CANDIDATES = (
    Candidate(NONE, "plain", 0.0),
    Candidate("forward", "forward", 1.0),
    Candidate("reweight", "reweight", 1.0, weighted=True),
    Candidate("forward through half of T", "half", 0.5),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The scores of the candidates, and what was trained for them.

    `doubt` says why T is not identified after all; empty if it is. A correction that diverged has no score.
    `trained` has the candidates that were trained on all training rows.
    """

    task: Labelled
    scores: dict[str, Score]
    history: list[dict[str, Any]]
    doubt: str = ""
    trained: dict[str, StageResult] = field(default_factory=dict)


def fit(problem: Problem) -> Learned:
    problem.schedule.check()
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    doubt = _doubt(problem, initial)
    if doubt:
        return _refused(problem, posterior, initial, doubt)
    compare = _by_folds if by_folds(problem) else _by_validation
    compared = compare(problem, posterior, initial)
    if compared.doubt:
        return _refused(problem, posterior, initial, compared.doubt, compared)
    chosen, reason = choose(compared.task, compared.scores, _tells_pattern(problem, initial))
    return _finish(problem, posterior, initial, chosen, reason, compared)


def by_folds(problem: Problem) -> bool:
    """Whether candidates are trained without each fold: the data are small and T comes from folds."""
    return problem.out_of_sample is not None and len(problem.data.train_x) < SMALL


def choose(task: Labelled, scores: dict[str, Score], pattern_told: bool = False) -> tuple[str, str]:
    """The candidate to take, and why, from the scores of all.

    `pattern_told` says that mistakes go to few labels and T explains them well enough for their count to be
    told. Then the correction through T itself that is likeliest is taken unless held-out labels refute it.
    """
    if len(scores) == 1:
        return NONE, "none: no correction could be trained, the loss was not finite"
    best = best_correction(scores)
    reason = why(scores, best)
    if not tells_labels(task, scores[NONE]):
        told = "none: the network predicts held-out noisy labels no better than their frequencies do"
        return NONE, f"{told}; {reason}"
    if pattern_told and (likeliest := _likeliest_through_all_of_t(scores)):
        told = f"{likeliest}: T explains most mistakes, they are uneven, and held-out labels do not refute it"
        return likeliest, reason if likeliest == best and scores[best].is_clear else f"{told}; {reason}"
    return (best if scores[best].is_clear else NONE), reason


def _likeliest_through_all_of_t(scores: dict[str, Score]) -> str:
    """The correction through T itself that makes held-out labels likeliest and is not refuted; else empty."""
    names = [each.name for each in CANDIDATES if each.share == 1 and each.name in scores]
    likeliest = max(names, key=lambda name: scores[name].log_likelihood, default="")
    return likeliest if likeliest and scores[likeliest].is_not_refuted else ""


def _tells_pattern(problem: Problem, initial: EstimatedTransition) -> bool:
    if problem.out_of_sample is None or initial.solution is None:
        return False
    return tells_pattern(ProbabilityRows(*problem.out_of_sample.rows(problem.data)), initial.solution)


def _scored(
    task: Labelled, probs: FloatArray, transitions: list[FloatArray | None], none: Score | None
) -> Score:
    """The score of a candidate. One standard error, as for scikit-learn's models, would let chance correct
    clean labels: a network is not the same twice.
    """
    return replace(score(task, probs, transitions, none), clear_errors=CLEAR_ERRORS_OF_MANY)


def _doubt(problem: Problem, initial: EstimatedTransition) -> str:
    """Why T-hat is not to be used; empty if it may be."""
    if NOT_CONVERGED in initial.warnings and not by_folds(problem):
        return "the search for it stopped before it had arrived"
    rows = None
    if problem.out_of_sample is not None:
        rows = ProbabilityRows(*problem.out_of_sample.rows(problem.data))
    return doubt_of_transition(initial.matrix, initial.solution, rows)


def _by_validation(problem: Problem, posterior: StageResult, initial: EstimatedTransition) -> Comparison:
    """Candidates trained on all training rows, compared on the validation rows.

    Without Reweight: large data cost much, and its gain over Forward is small there.
    """
    valid = Validation.of(problem)
    scores: dict[str, Score] = {}
    trained: dict[str, StageResult] = {}
    for candidate in (each for each in CANDIDATES if not each.weighted):
        with _left_out_if_diverged(candidate):
            done = candidate.train(problem, posterior, initial.matrix, candidate.stage)
            matrix = None if candidate.name == NONE else candidate.through(initial.matrix)
            trained[candidate.name] = done
            scores[candidate.name] = _scored(
                valid.task, valid.probs(done), [matrix] * PARTS, scores.get(NONE)
            )
    history = [record for done in trained.values() for record in done.history]
    return Comparison(valid.task, scores, history, trained=trained)


def _by_folds(problem: Problem, posterior: StageResult, initial: EstimatedTransition) -> Comparison:
    """Candidates trained without each fold, through a T estimated without it, and compared on all rows."""
    data, folds = problem.data, problem.schedule.folds
    assigned = np.concatenate(fold_assignment(problem, folds))
    parts = [assigned == number for number in range(folds)]
    transitions = [estimated_without(problem, part, initial) for part in parts]
    doubt = doubt_of_spread(transitions, converged=NOT_CONVERGED not in initial.warnings)
    weights = np.ones(len(assigned)) if data.weights is None else data.weights
    labels = np.concatenate([data.train_y.cpu().numpy(), data.valid_y.cpu().numpy()])
    task = HeldOut(labels, weights, parts, data.num_classes)
    scores: dict[str, Score] = {}
    history: list[dict[str, Any]] = []
    if doubt:
        return Comparison(task, scores, history, doubt)
    begun: dict[int, StageResult] = {}  # the folds' stage 1, from which every candidate goes on

    def train(candidate: Candidate, part: Problem, stage: str) -> StageResult:
        number = numbers[stage]
        if number not in begun:
            begun[number] = fit_noisy_posterior(part, stage_name(number))
        return candidate.train(part, begun[number], transitions[number], stage)

    for candidate in CANDIDATES:
        numbers = {stage_name(number, candidate.prefix): number for number in range(folds)}
        with _left_out_if_diverged(candidate):
            predicted = cross_fit(problem, partial(train, candidate), folds, candidate.prefix)
            history += predicted.history
            probs, _ = predicted.rows(data)
            through = [
                None if candidate.name == NONE else candidate.through(matrix) for matrix in transitions
            ]
            scores[candidate.name] = _scored(task, probs.astype(np.float64), through, scores.get(NONE))
    return Comparison(task, scores, history)


@contextmanager
def _left_out_if_diverged(candidate: Candidate) -> Iterator[None]:
    """A correction whose first epoch has no finite loss takes no part; plain training must."""
    try:
        yield
    except TrainingDiverged as diverged:
        if candidate.name == NONE:
            raise
        warnings.warn(f"{candidate.name} was left out: {diverged}", RuntimeWarning, stacklevel=4)


def _refused(
    problem: Problem,
    posterior: StageResult,
    initial: EstimatedTransition,
    doubt: str,
    compared: Comparison | None = None,
) -> Learned:
    """Plain training, because T is not to be used."""
    message = f"T was not used, and training was plain: {doubt}"
    warnings.warn(message, TransitionWarning, stacklevel=3)
    reason = f"none: T is not to be used, because {doubt}"
    learned = _finish(problem, posterior, initial, NONE, reason, compared)
    return replace(learned, warnings=[*learned.warnings, message])


def _finish(
    problem: Problem,
    posterior: StageResult,
    initial: EstimatedTransition,
    chosen: str,
    reason: str,
    compared: Comparison | None,
) -> Learned:
    """The chosen candidate on all training rows, then its revision, or fine-tuning for plain training."""
    candidate = next(each for each in CANDIDATES if each.name == chosen)
    before = [] if compared is None else compared.history
    trained = None if compared is None else compared.trained.get(chosen)
    if trained is None:
        trained = candidate.train(problem, posterior, initial.matrix, candidate.stage)
    else:
        before = [record for record in before if record["stage"] != candidate.stage]
    if chosen == NONE:
        phase = problem.schedule.revision
        tuned = continue_plainly(problem, trained, "fine-tuning", phase, record_start=True)
    else:
        initial = replace(initial, matrix=candidate.through(initial.matrix))
        tuned = revise_guarded(problem, trained, initial, candidate.revision(problem, initial))
    learned = conclude(problem, initial, [posterior, trained, tuned])
    first = len(posterior.history)
    history = learned.history[:first] + before + learned.history[first:]
    scores = {} if compared is None else compared.scores
    told = {
        name: {
            "log_likelihood": each.log_likelihood,
            "gain": each.gain.mean,
            "standard_error": each.gain.error,
            "changed": each.changed,
            "more_hits": each.most_hits.mean,
            "accuracy": each.accuracy,
        }
        for name, each in scores.items()
    }
    choice = {"correction": chosen, "reason": reason, "scores": told}
    return replace(learned, history=history, choice=choice)


AUTO = Method(
    "auto",
    fit,
    options=("revision", "reweight_gradient", "lr_revision", "lr_transition", "revision_loss", "prior"),
)
