"""The stages that methods are made of (Algorithm 1 of the paper).

    fit_noisy_posterior -> estimate_transition -> train_classifier -> revise

A stage starts from the selected state of the one before it and returns its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trevision import losses
from trevision.admissible import penalty
from trevision.data.rows import Rows, select_rows
from trevision.estimation import Anchor, ProbabilityRows, Solution, counted_transition, trusted_transition
from trevision.methods.objectives import forward_objective
from trevision.methods.options import IN_SAMPLE
from trevision.methods.problem import EstimatedTransition, Learned, Objective, Problem
from trevision.prior import Parameterisation, Prior
from trevision.training.evaluate import Evaluation, class_probs
from trevision.training.loop import (
    ALL_EPOCHS_DONE,
    Batch,
    Stage,
    StageResult,
    Step,
    run_stage,
    start_unless_likelier,
)
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.training.tracker import cpu_copy
from trevision.transition import Transition

# Rows of a transition matrix sum to 1. An unconstrained Delta T that has moved a row's sum by more than
# this is no longer correcting an estimate.
RUNAWAY = 0.1

# An estimated entry of T that a prior lowers by more than this speaks against the prior, or the estimate.
CONTRADICTION = 0.1

NOT_CONVERGED = "T is doubtful: the search for it stopped before it had arrived"

# Maximum number of trainings of a fresh network, each at half the rate of the one before.
ATTEMPTS = 3

# If one label has a larger share than this, always predicting it may be right.
MAJORITY = 2 / 3

# Training rows used to check whether a network predicts more than one class.
ROWS_LOOKED_AT = 2000


class TransitionWarning(UserWarning):
    """The learnt transition matrix should not be trusted."""


def fit_noisy_posterior(problem: Problem, name: str = "noisy-posterior") -> StageResult:
    """Stage 1: plain cross-entropy on noisy labels, so that g estimates P(noisy | x) (Algorithm 1, line 1).

    Parameters
    ----------
    problem : Problem
        The problem.
    name : str, default="noisy-posterior"
        The stage's name in checkpoints and progress.

    Returns
    -------
    StageResult
        The selected epoch of a fresh network.
    """
    model = NoisyLabelModel(problem.standardise, problem.make_network(), None)
    phase = problem.schedule.noisy_posterior
    return run_problem_stage(
        problem, name, model, _plain_step, phase, evaluation=problem.evaluation(trusting=False)
    )


def estimate_transition(problem: Problem, posterior: StageResult) -> EstimatedTransition:
    """Estimate T-hat after stage 1, and project it to the prior if there is one (Algorithm 1, line 2).

    Warns if the search for T did not converge, or if the labels contradict the prior.

    Parameters
    ----------
    problem : Problem
        The problem. Its out-of-sample predictions are used if it has any.
    posterior : StageResult
        The result of stage 1.

    Returns
    -------
    EstimatedTransition
        T-hat, the seconds it took, and doubts about it.
    """
    began = time.perf_counter()
    estimate = _estimated(problem, posterior)
    initial, doubts = estimate.transition, [] if estimate.converged else [NOT_CONVERGED]
    prior = problem.prior
    if prior is not None and prior.constrains:
        initial = prior.project(_estimated(problem, posterior, prior).transition)
        doubts += _contradictions(problem, estimate.transition, initial)
    seconds = time.perf_counter() - began
    for message in doubts:
        warnings.warn(message, TransitionWarning, stacklevel=3)
    return EstimatedTransition(initial, seconds, tuple(doubts), estimate)


def _contradictions(problem: Problem, estimate: np.ndarray, initial: np.ndarray) -> Iterator[str]:
    """Sentences about how the labels contradict the prior, from T-hat without it and with it."""
    lowered = estimate - initial
    i, j = np.unravel_index(lowered.argmax(), lowered.shape)
    if lowered[i, j] > CONTRADICTION:
        yield (
            f"the labels contradict the prior, or T is badly estimated: class {i} seems to be labelled {j} "
            f"with probability {estimate[i, j]:.2f}, and the prior makes that {initial[i, j]:.2f}"
        )
    counts = np.bincount(problem.data.train_y.cpu().numpy(), minlength=len(initial))
    for label in np.flatnonzero((counts > 0) & (initial.max(axis=0) == 0)):
        yield (
            f"label {label} occurs {counts[label]} times, though by the prior no class is labelled so; "
            "nothing is learnt from these rows"
        )


def _estimated(problem: Problem, posterior: StageResult, knowledge: Prior | None = None) -> Solution:
    """T-hat from the first of these that there is:

    1. out-of-sample predictions. A trusted set then only selects epochs: its few rows per class say less
       about T than all noisy labels do.
    2. rows with both labels, counted (the paper's start for Clothing1M), unless the user chose an estimator.
    3. a trusted set, unless the user chose an estimator.
    4. predictions for the training rows, for anchor points and where the user chose them. Any other estimator
       is replaced by anchor points here: there are too few rows for folds.
    """
    data, chosen = problem.data, problem.options.estimator is not None
    if problem.out_of_sample is not None:
        rows = ProbabilityRows(*problem.out_of_sample.rows(data))
        return _filled(problem.estimator.solve(rows, data.weights, knowledge=knowledge), rows)
    if data.label_pairs is not None and not chosen:
        return _known(counted_transition(*data.label_pairs, data.num_classes))
    if data.trusted_x is not None and data.trusted_y is not None and not chosen:
        probs = predicted_probs(problem, posterior, data.trusted_x)
        return _known(trusted_transition(probs, data.trusted_y.numpy()))
    probs = predicted_probs(problem, posterior, data.train_x).astype(np.float64)
    rows = ProbabilityRows(probs, data.train_y.cpu().numpy())
    weights = None if data.train_weights is None else data.train_weights.double().numpy()
    estimator = problem.estimator
    if not estimator.needs_out_of_sample:
        return estimator.solve(rows, weights)
    if problem.options.posterior == IN_SAMPLE:
        return _filled(estimator.solve(rows, weights, knowledge=knowledge), rows)
    return Anchor(name="anchor", percentile=problem.schedule.anchor_percentile).solve(rows, weights)


def _filled(solution: Solution, rows: ProbabilityRows) -> Solution:
    """The solution with a T that has no zeros."""
    return replace(solution, transition=without_zeros(solution.transition, len(rows) * solution.class_prior))


def estimated_without(problem: Problem, left_out: np.ndarray, whole: EstimatedTransition) -> np.ndarray:
    """T-hat from out-of-sample predictions of other rows than those `left_out`, a mask over all rows."""
    assert problem.out_of_sample is not None
    assert whole.solution is not None
    data, prior = problem.data, problem.prior
    probs, labels = problem.out_of_sample.rows(data)
    rows = ProbabilityRows(probs[~left_out], labels[~left_out])
    weights = None if data.weights is None else data.weights[~left_out]
    if prior is not None and prior.constrains:
        solution = problem.estimator.solve(rows, weights, knowledge=prior)
        return prior.project(without_zeros(solution.transition, len(rows) * solution.class_prior))
    # A start helps where a link is fitted; other estimators may tie it to their rows.
    start = whole.solution if whole.solution.has_own_posterior else None
    solution = problem.estimator.solve(rows, weights, start=start)
    return without_zeros(solution.transition, len(rows) * solution.class_prior)


def _known(transition: np.ndarray) -> Solution:
    """A solution for a T that was counted from known labels. Its class prior is not used."""
    return Solution(transition, np.full(len(transition), 1 / len(transition)))


def without_zeros(transition: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """T without zeros, so that no label is impossible. `rows` is the number of rows of each class.

    Half a label is added to each class, spread evenly over all labels. If the prior says that an entry is
    zero, the projection makes it zero again. A class counts as at least C rows: its row of T may have been
    estimated from other rows, and half a label must not outweigh it.
    """
    size = len(transition)
    counts = np.maximum(rows, size)[:, None] * transition + 0.5 / size
    matrix: np.ndarray = counts / counts.sum(axis=1, keepdims=True)
    return matrix


def predicted_probs(problem: Problem, trained: StageResult, x: Rows) -> np.ndarray:
    """The network's probabilities for rows `x`, (n, C).

    After plain cross-entropy (stage 1) they are of noisy labels, after a loss through T of clean ones.
    """
    return class_probs(_continued(problem, trained), x).numpy()


def continue_plainly(
    problem: Problem, start: StageResult, name: str, phase: Phase, *, record_start: bool = False
) -> StageResult:
    """Train further with plain cross-entropy, so that `standard` has the budget of the other methods."""
    model = _continued(problem, start)
    return run_problem_stage(
        problem, name, model, _plain_step, phase, record_start=record_start, learns_trusted=True
    )


def train_classifier(
    problem: Problem,
    posterior: StageResult,
    initial: EstimatedTransition,
    objective: Objective,
    *,
    weighted: bool,
    name: str = "classifier",
) -> StageResult:
    """Train the network of stage 1 further, with a corrected loss and T-hat fixed (Algorithm 1, line 3).

    Parameters
    ----------
    problem : Problem
        The problem.
    posterior : StageResult
        The result of stage 1.
    initial : EstimatedTransition
        T-hat.
    objective : Objective
        The corrected loss.
    weighted : bool
        Whether the loss has weights that grow with the noise (Reweight, Backward); they may need a lower
        rate.
    name : str, default="classifier"
        The stage's name in checkpoints and progress.

    Returns
    -------
    StageResult
        The selected epoch.
    """
    phase = problem.schedule.classifier_through(initial.matrix, weighted=weighted)
    return continue_through(problem, posterior, initial, corrected_step(objective), phase, name=name)


def continue_through(
    problem: Problem,
    posterior: StageResult,
    initial: EstimatedTransition,
    step: Step,
    phase: Phase,
    *,
    name: str = "classifier",
    evaluation: Evaluation | None = None,
) -> StageResult:
    """Train the network of stage 1 further, with T-hat fixed and any step, phase and evaluation."""
    model = _continued(problem, posterior, initial, "frozen")
    return run_problem_stage(problem, name, model, step, phase, evaluation=evaluation, learns_trusted=True)


def train_anew(problem: Problem, transition: np.ndarray, name: str, epochs: int) -> StageResult:
    """Train a fresh network with the Forward loss. It has not memorised any labels in stage 1."""
    fixed = Transition(torch.tensor(transition, dtype=torch.float32))

    def train(name: str, phase: Phase) -> StageResult:
        model = NoisyLabelModel(problem.standardise, problem.make_network(), fixed)
        step = corrected_step(forward_objective)
        return run_problem_stage(problem, name, model, step, phase, learns_trusted=True)

    phase = replace(problem.schedule.classifier_through(transition, weighted=False), epochs=epochs)
    return train_steadily(problem, name, phase, train)


def train_steadily(
    problem: Problem, name: str, phase: Phase, train: Callable[[str, Phase], StageResult]
) -> StageResult:
    """Train a network; if it predicts one class only, train a fresh one at half the rate.

    A high rate may drive a network into a constant prediction, where the gradient vanishes. Failed attempts
    stay in the history, and the result has a warning. Each attempt is a stage with its own name.
    """
    history: list[dict[str, Any]] = []
    doubts: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        trained = train(name if attempt == 1 else f"{name}-{attempt}", phase)
        history += trained.history
        if not _is_constant(problem, trained):
            break
        again = "was trained again at half of it" if attempt < ATTEMPTS else "is left so"
        message = f"{name} fell into a constant prediction at a learning rate of {phase.lr:g} and {again}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        doubts.append(message)
        phase = replace(phase, lr=phase.lr / 2)
    return replace(trained, history=history, warnings=(*trained.warnings, *doubts))


def _is_constant(problem: Problem, trained: StageResult) -> bool:
    """Whether the network predicts one class for all rows although no label has a large majority."""
    data = problem.data
    counts = torch.bincount(data.train_y.cpu(), data.train_weights)
    if counts.max() > MAJORITY * counts.sum():
        return False
    some = np.arange(min(len(data.train_y), ROWS_LOOKED_AT))
    predicted = predicted_probs(problem, trained, select_rows(data.train_x, some)).argmax(axis=1)
    return bool((predicted == predicted[0]).all())


def revise(
    problem: Problem, trained: StageResult, initial: EstimatedTransition, objective: Objective
) -> StageResult:
    """Train network and Delta T together, Delta T from zero (Algorithm 1, line 4).

    Parameters
    ----------
    problem : Problem
        The problem. Its schedule says how Delta T may move.
    trained : StageResult
        The stage to continue from.
    initial : EstimatedTransition
        T-hat.
    objective : Objective
        The corrected loss, given T-hat + Delta T.

    Returns
    -------
    StageResult
        The selected epoch. The start is recorded as epoch 0, and kept if a guarded schedule finds it better.
    """
    schedule, prior = problem.schedule, problem.prior
    model = _continued(problem, trained, initial, schedule.parameterisation)
    step = corrected_step(objective, prior if prior is not None and prior.sparsity else None)
    return run_problem_stage(
        problem, "revision", model, step, schedule.revision, record_start=True, learns_trusted=True
    )


def conclude(problem: Problem, initial: EstimatedTransition, results: Sequence[StageResult]) -> Learned:
    """Combine the results of all stages. The model is the selected state of the last stage.

    Warns if an unconstrained T ran away in any epoch, selected or not.

    Parameters
    ----------
    problem : Problem
        The problem.
    initial : EstimatedTransition
        T-hat.
    results : sequence of StageResult
        The results of the stages, in order.

    Returns
    -------
    Learned
        Model, T, history and warnings.
    """
    last = results[-1]
    model = restored(problem, last)
    matrix = initial.matrix
    if model.transition is not None:
        matrix = model.transition.matrix.detach().double().numpy()
    history = [record for result in results for record in result.history]
    sums = [s for record in history for s in record.get("transition_row_sums", ())]
    ran_away = any(abs(s - 1) > RUNAWAY for s in sums)
    predicted = problem.out_of_sample
    messages = [*problem.warnings, *(() if predicted is None else predicted.warnings), *initial.warnings]
    messages += [message for result in results for message in result.warnings]
    if ran_away:
        messages.append(
            f"the transition matrix ran away: its rows, which should sum to 1, reached sums from "
            f"{min(sums):.2f} to {max(sums):.2f}; use the simplex revision or a lower lr_transition"
        )
        warnings.warn(messages[-1], TransitionWarning, stacklevel=2)
    early = [r.stopped_because for r in results if r.stopped_because != ALL_EPOCHS_DONE]
    return Learned(
        model=model.eval(),
        initial_transition=initial.matrix,
        transition=matrix,
        selected=last.selected,
        history=history,
        stopped_because="; ".join(early) or ALL_EPOCHS_DONE,
        warnings=messages,
        transition_ran_away=ran_away,
        seconds_estimating=initial.seconds,
        guard=[told for result in results for told in result.guard],
    )


def restored(problem: Problem, trained: StageResult) -> NoisyLabelModel:
    """The model in the selected state of a stage, with the transition that the state has."""
    return NoisyLabelModel.from_state(
        problem.standardise,
        problem.make_network(),
        trained.state,
        problem.schedule.parameterisation,
        problem.prior,
    )


def _plain_step(model: nn.Module, batch: Batch) -> Tensor:
    logits, _ = model(batch.x)
    if batch.targets is not None:
        return batch.mean(losses.soft_cross_entropy, logits, batch.targets)
    return batch.mean(losses.cross_entropy, logits, batch.noisy_labels)


def corrected_step(objective: Objective, penalised_by: Prior | None = None) -> Step:
    """The mean of a corrected loss over a batch, and the penalty of a prior, if any.

    Labels that are known to be right went through no T: their loss is cross-entropy.
    """

    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, matrix = model(batch.x)
        loss = batch.mean(_believing(objective, batch.known), logits, batch.noisy_labels, matrix)
        return loss if penalised_by is None else loss + penalty(penalised_by, matrix)

    return step


def _believing(objective: Objective, known: Tensor | None) -> Objective:
    """The objective, with cross-entropy in its place for rows whose labels are known to be right."""
    if known is None:
        return objective

    def loss(
        logits: Tensor, labels: Tensor, matrix: Tensor, *, reduction: losses.Reduction = "mean"
    ) -> Tensor:
        plain = losses.cross_entropy(logits, labels, reduction="none")
        each = torch.where(known, plain, objective(logits, labels, matrix, reduction="none"))
        return each if reduction == "none" else each.mean()

    return loss


def _continued(
    problem: Problem,
    before: StageResult,
    initial: EstimatedTransition | None = None,
    parameterisation: Parameterisation = "frozen",
) -> NoisyLabelModel:
    """The network in the selected state of the stage before, with a fresh transition."""
    network = problem.make_network()
    network.load_state_dict(NoisyLabelModel.network_state(before.state))
    transition = None
    if initial is not None:
        start = torch.tensor(initial.matrix, dtype=torch.float32)
        transition = Transition(start, parameterisation, problem.prior)
    return NoisyLabelModel(problem.standardise, network, transition)


def run_problem_stage(
    problem: Problem,
    name: str,
    model: NoisyLabelModel,
    step: Step,
    phase: Phase,
    *,
    evaluation: Evaluation | None = None,
    record_start: bool = False,
    learns_trusted: bool = False,
) -> StageResult:
    """Train one stage of a problem, with `evaluation` or else the problem's own.

    With `learns_trusted` it also learns from rows whose labels are known to be right, if the problem has such
    rows to learn from. A stage that learns P(noisy | x) must not.

    With `record_start` the stage goes on from a selected state. A guarded schedule then keeps that state
    unless training made noisy validation labels likelier.
    """
    # A batch cannot be larger than the data. A stage of zero epochs returns its start, so it is recorded.
    phase = replace(phase, batch_size=min(phase.batch_size, len(problem.data.train_x)))
    stage = Stage(name, model, step, phase, record_start=record_start or phase.epochs == 0)
    start = cpu_copy(model)
    evaluation = evaluation or problem.evaluation()
    if learns_trusted:
        evaluation = replace(evaluation, data=evaluation.data.with_trusted_rows())
    trained = run_stage(stage, evaluation, problem.runtime, problem.seed)
    return start_unless_likelier(trained, start) if record_start and problem.schedule.guarded else trained
