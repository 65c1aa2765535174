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
from trevision.methods.problem import EstimatedTransition, Learned, Objective, Problem
from trevision.prior import Parameterisation, Prior
from trevision.training.evaluate import Evaluation, class_probs
from trevision.training.loop import ALL_EPOCHS_DONE, Batch, Stage, StageResult, Step, run_stage
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase
from trevision.transition import Transition

# Rows of a transition matrix sum to 1. An unconstrained Delta T that has moved a row's sum by more than
# this is no longer correcting an estimate.
RUNAWAY = 0.1

# An estimated entry of T that a prior lowers by more than this speaks against the prior, or the estimate.
CONTRADICTION = 0.1

NOT_CONVERGED = "T is doubtful: the search for it stopped before it had arrived"

# How often a fresh network is trained at most, each time at half the rate of the time before.
ATTEMPTS = 3

# The share of the labels from which on it may be right to predict the same label always.
MAJORITY = 2 / 3

# As many training rows tell whether a network predicts more than one class.
ROWS_LOOKED_AT = 2000


class TransitionWarning(UserWarning):
    """The learnt transition matrix is not to be trusted."""


def fit_noisy_posterior(problem: Problem, name: str = "noisy-posterior") -> StageResult:
    """Algorithm 1, line 1: plain cross-entropy on noisy labels, so that g estimates P(noisy | x)."""
    model = NoisyLabelModel(problem.standardise, problem.make_network(), None)
    phase = problem.schedule.noisy_posterior
    return run_problem_stage(
        problem, name, model, _plain_step, phase, evaluation=problem.evaluation(trusting=False)
    )


def estimate_transition(problem: Problem, posterior: StageResult) -> EstimatedTransition:
    """Algorithm 1, line 2: T-hat, projected to what is known of T where something is.

    Warns where the search for T did not arrive, and where the labels, judged without that knowledge,
    contradict it.
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
    return EstimatedTransition(initial, seconds, tuple(doubts))


def _contradictions(problem: Problem, estimate: np.ndarray, initial: np.ndarray) -> Iterator[str]:
    """In what the labels contradict the prior, in sentences, from T-hat without it and with it."""
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
    """T-hat from predictions, or from what is known of clean labels.

    Instances with both labels are counted (the paper's start for Clothing1M), before a trusted set is asked;
    neither is, where the user chose an estimator. With out-of-sample predictions a trusted set only selects:
    a few rows of each class tell less about T than all the noisy labels do. An estimator that needs such
    predictions, where there are too few rows for any, gives way to anchor points.
    """
    data, chosen = problem.data, problem.options.estimator is not None
    if problem.out_of_sample is not None:
        rows = ProbabilityRows(*problem.out_of_sample.rows(data))
        solution = problem.estimator.solve(rows, knowledge=knowledge)
        filled = without_zeros(solution.transition, len(rows) * solution.class_prior)
        return replace(solution, transition=filled)
    if data.label_pairs is not None and not chosen:
        return _known(counted_transition(*data.label_pairs, data.num_classes))
    if data.trusted_x is not None and data.trusted_y is not None and not chosen:
        probs = predicted_probs(problem, posterior, data.trusted_x)
        return _known(trusted_transition(probs, data.trusted_y.numpy()))
    probs = predicted_probs(problem, posterior, data.train_x).astype(np.float64)
    rows = ProbabilityRows(probs, data.train_y.cpu().numpy())
    estimator = problem.estimator
    if estimator.needs_out_of_sample:
        estimator = Anchor(name="anchor", percentile=problem.schedule.anchor_percentile)
    return estimator.solve(rows)


def _known(transition: np.ndarray) -> Solution:
    """A T that came from known labels. Nobody asks for its class prior."""
    return Solution(transition, np.full(len(transition), 1 / len(transition)))


def without_zeros(transition: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """T with no zeros, from T and the number of rows of each class: no label may be called impossible.

    Half a label of each class is shared out evenly among all labels. What of it fills a zero that is known
    to be one, the projection takes away again. A class counts as at least one row for each label: its row of
    T may come from elsewhere than its own rows, and half a label must not outweigh it.
    """
    size = len(transition)
    counts = np.maximum(rows, size)[:, None] * transition + 0.5 / size
    matrix: np.ndarray = counts / counts.sum(axis=1, keepdims=True)
    return matrix


def predicted_probs(problem: Problem, trained: StageResult, x: Rows) -> np.ndarray:
    """The network's probabilities for rows `x`, (n, C): of noisy labels after stage 1, where plain
    cross-entropy was learnt, and of clean ones where the loss went through T."""
    return class_probs(_continued(problem, trained), x).numpy()


def continue_plainly(
    problem: Problem, start: StageResult, name: str, phase: Phase, *, record_start: bool = False
) -> StageResult:
    """More of plain cross-entropy, for `standard` to spend the budget that other methods have."""
    model = _continued(problem, start)
    return run_problem_stage(problem, name, model, _plain_step, phase, record_start=record_start)


def train_classifier(
    problem: Problem,
    posterior: StageResult,
    initial: EstimatedTransition,
    objective: Objective,
    *,
    weighted: bool,
) -> StageResult:
    """Algorithm 1, line 3: a corrected loss with T-hat held fixed, from the network of stage 1.

    `weighted` says whether the loss multiplies by what is large where T-hat is far from the identity.
    """
    model = _continued(problem, posterior, initial, "frozen")
    phase = problem.schedule.classifier_through(initial.matrix, weighted=weighted)
    return run_problem_stage(problem, "classifier", model, _corrected_step(objective), phase)


def train_anew(problem: Problem, transition: np.ndarray, name: str, epochs: int) -> StageResult:
    """The Forward loss from a fresh network, which owes nothing to labels that stage 1 learnt by heart."""
    fixed = Transition(torch.tensor(transition, dtype=torch.float32))

    def train(name: str, phase: Phase) -> StageResult:
        model = NoisyLabelModel(problem.standardise, problem.make_network(), fixed)
        return run_problem_stage(problem, name, model, _corrected_step(forward_objective), phase)

    phase = replace(problem.schedule.classifier_through(transition, weighted=False), epochs=epochs)
    return train_steadily(problem, name, phase, train)


def train_steadily(
    problem: Problem, name: str, phase: Phase, train: Callable[[str, Phase], StageResult]
) -> StageResult:
    """`train` a network by `phase`; if it ends in one class, a fresh one at half the rate, by another name.

    A high rate may throw a network into a constant prediction, which no gradient leaves. What was trained in
    vain stays in the history, and the result bears a warning.
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
    """Whether one class is predicted for all rows, though no label is so frequent that this may be right."""
    data = problem.data
    if torch.bincount(data.train_y).max() > MAJORITY * len(data.train_y):
        return False
    some = np.arange(min(len(data.train_y), ROWS_LOOKED_AT))
    predicted = predicted_probs(problem, trained, select_rows(data.train_x, some)).argmax(axis=1)
    return bool((predicted == predicted[0]).all())


def revise(
    problem: Problem, trained: StageResult, initial: EstimatedTransition, objective: Objective
) -> StageResult:
    """Algorithm 1, line 4: the corrected loss with T-hat + Delta T, both learnt, Delta T from zero."""
    schedule, prior = problem.schedule, problem.prior
    model = _continued(problem, trained, initial, schedule.parameterisation)
    if prior is not None and prior.sparsity:
        objective = _penalised(objective, prior)
    step = _corrected_step(objective)
    return run_problem_stage(problem, "revision", model, step, schedule.revision, record_start=True)


def _penalised(objective: Objective, prior: Prior) -> Objective:
    def penalised(logits: Tensor, noisy_labels: Tensor, matrix: Tensor) -> Tensor:
        return objective(logits, noisy_labels, matrix) + penalty(prior, matrix)

    return penalised


def conclude(problem: Problem, initial: EstimatedTransition, results: Sequence[StageResult]) -> Learned:
    """What was learnt, from the results of all stages; the last one's selected state is the model.

    Warns where an unconstrained T ran away in any epoch, selected or not.
    """
    last = results[-1]
    model = NoisyLabelModel.from_state(
        problem.standardise,
        problem.make_network(),
        last.state,
        problem.schedule.parameterisation,
        problem.prior,
    )
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
    )


def forward_objective(logits: Tensor, noisy_labels: Tensor, matrix: Tensor) -> Tensor:
    """The Forward loss, for either stage."""
    return losses.forward_nll(logits, noisy_labels, matrix)


def reweight_objective(live_weight: bool) -> Objective:
    """The Reweight loss, with the weight live or detached."""

    def objective(logits: Tensor, noisy_labels: Tensor, matrix: Tensor) -> Tensor:
        return losses.reweight_nll(logits, noisy_labels, matrix, live_weight=live_weight)

    return objective


def released_objective(problem: Problem, initial: EstimatedTransition) -> Objective:
    """The loss of the authors' released revision; n counts the rows that one device sees of a batch."""
    # Delta T is taken from the T that left the model's forward, where several processes see its gradient.
    known = torch.tensor(initial.matrix, dtype=torch.float32).to(problem.runtime.fabric.device)

    def objective(logits: Tensor, noisy_labels: Tensor, matrix: Tensor) -> Tensor:
        return losses.released_revision_nll(logits, noisy_labels, known, matrix - known)

    return objective


def _plain_step(model: nn.Module, batch: Batch) -> Tensor:
    logits, _ = model(batch.x)
    return losses.cross_entropy(logits, batch.noisy_labels)


def _corrected_step(objective: Objective) -> Step:
    def step(model: nn.Module, batch: Batch) -> Tensor:
        logits, matrix = model(batch.x)
        return objective(logits, batch.noisy_labels, matrix)

    return step


def _continued(
    problem: Problem,
    before: StageResult,
    initial: EstimatedTransition | None = None,
    parameterisation: Parameterisation = "frozen",
) -> NoisyLabelModel:
    """The network in the state that the stage before selected, in front of a fresh transition."""
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
) -> StageResult:
    """Train one stage of a problem, its epochs measured by `evaluation` or as the problem says."""
    # A batch cannot be larger than the data, and a stage of zero epochs leaves its start as it is.
    phase = replace(phase, batch_size=min(phase.batch_size, len(problem.data.train_x)))
    stage = Stage(name, model, step, phase, record_start=record_start or phase.epochs == 0)
    return run_stage(stage, evaluation or problem.evaluation(), problem.runtime, problem.seed)
