"""The guard of a correction: plain training is returned where held-out noisy labels speak for it.

A wrong T, or a loss that runs astray, can end far below plain training, and clean labels to notice it are
missing. Noisy validation labels tell: through its own T, a correction must not make them clearly less likely
than stage 1 did, and must not hit clearly fewer of them. If it does, plain training gets the same budget, and
the likelier of the two is the result. A Delta T must make them clearly likelier than T-hat does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from trevision.data.folds import fold_of
from trevision.methods.problem import EstimatedTransition, Learned, Objective, Problem
from trevision.methods.stages import conclude, continue_plainly, predicted_probs, restored, revise
from trevision.noise import FloatArray
from trevision.refit.held_out import HeldOut, Score, score
from trevision.refit.scoring import Gain, gain
from trevision.training.loop import StageResult
from trevision.training.model import NoisyLabelModel

PARTS = 5
"""Parts of the validation rows: each is calibrated by the others."""

CLEARLY_LESS_LIKELY = 1.0
CLEARLY_FEWER_HITS = 2.0
"""Standard errors by which a correction must be behind to be questioned."""

CLEARLY_LIKELIER = 1.0
"""Standard errors by which a Delta T must be ahead of T-hat to be kept."""

LEAST_ROWS = 20
"""With fewer validation rows nothing is clear."""


@dataclass(frozen=True, eq=False)
class Validation:
    """The noisy validation labels of a problem, as held-out labels."""

    problem: Problem
    task: HeldOut

    @classmethod
    def of(cls, problem: Problem) -> Validation:
        """The validation rows, in parts that depend on the seed."""
        data = problem.data
        labels = data.valid_y.cpu().numpy()
        assigned = fold_of(labels, PARTS, np.random.default_rng([problem.seed, 6]))
        weights = np.ones(len(labels))
        if data.valid_weights is not None:
            weights = data.valid_weights.double().numpy()
        parts = [assigned == number for number in range(PARTS)]
        return cls(problem, HeldOut(labels, weights, parts, data.num_classes))

    def score(
        self, trained: StageResult, transition: FloatArray | None = None, than: Score | None = None
    ) -> Score:
        """How likely the labels are by the network of a stage, through T."""
        return score(self.task, self.probs(trained), [transition] * PARTS, than)

    def probs(self, trained: StageResult) -> FloatArray:
        """What the network of a stage predicts for the validation rows, (n, C)."""
        return predicted_probs(self.problem, trained, self.problem.data.valid_x).astype(np.float64)

    def hits(self, ours: Score, theirs: Score) -> Gain:
        """By how much more often the labels are hit, and the standard error of that."""
        labels = self.task.labels
        hit, before = (each.held_out.argmax(axis=1) == labels for each in (ours, theirs))
        return gain(hit.astype(float), before.astype(float), self.task.row_weights)


def revise_guarded(
    problem: Problem, trained: StageResult, initial: EstimatedTransition, objective: Objective
) -> StageResult:
    """`revise`; a guarded schedule keeps Delta T only if noisy validation labels are clearly likelier by it.

    The revision also trains the network further, which makes labels likelier whatever T does. So both T are
    judged by the revised network, each with probabilities as sharp as suits it. Without Delta T the network
    stays the revised one.

    Parameters
    ----------
    problem : Problem
        The problem.
    trained : StageResult
        The stage to continue from.
    initial : EstimatedTransition
        T-hat.
    objective : Objective
        The corrected loss, given T-hat + Delta T.

    Returns
    -------
    StageResult
        Its `guard` has the numbers.
    """
    revised = revise(problem, trained, initial, objective)
    if not problem.schedule.guarded or problem.schedule.parameterisation == "frozen":
        return revised
    if revised.selected["epoch"] == 0 or len(problem.data.valid_y) < LEAST_ROWS:
        return revised
    model = restored(problem, revised)
    assert model.transition is not None
    matrix = model.transition.matrix.detach().double().numpy()
    valid = Validation.of(problem)
    with_delta = valid.score(revised, matrix, valid.score(revised, initial.matrix)).gain
    told = {
        "stage": "Delta T",
        "kept": with_delta.is_clear(CLEARLY_LIKELIER),
        "likelier_with_it": with_delta.mean,
        "standard_error": with_delta.error,
    }
    if told["kept"]:
        return replace(revised, guard=(*revised.guard, told))
    start = torch.tensor(initial.matrix, dtype=torch.float32)
    measured = problem.evaluation().measure(model, start)
    return replace(
        revised,
        state=NoisyLabelModel.state_with_transition(revised.state, start),
        selected=revised.selected | measured,
        guard=(*revised.guard, told),
    )


def conclude_guarded(
    problem: Problem, initial: EstimatedTransition, results: Sequence[StageResult]
) -> Learned:
    """`conclude`, or plain training where a guarded schedule finds the correction wanting.

    Parameters
    ----------
    problem : Problem
        The problem.
    initial : EstimatedTransition
        T-hat.
    results : sequence of StageResult
        The results of the stages, stage 1 first.

    Returns
    -------
    Learned
        Its `guard` has the numbers; it has a warning if plain training was taken instead.
    """
    learned = conclude(problem, initial, results)
    if not problem.schedule.guarded or len(problem.data.valid_y) < LEAST_ROWS:
        return learned
    valid = Validation.of(problem)
    first = valid.score(results[0])
    corrected = valid.score(results[-1], learned.transition, first)
    hits = valid.hits(corrected, first)
    told = {
        "stage": "correction",
        "kept": True,
        "likelier_than_stage_1": corrected.gain.mean,
        "standard_error": corrected.gain.error,
        "more_hits_than_stage_1": hits.mean,
        "standard_error_of_hits": hits.error,
    }
    less_likely = corrected.gain.mean < -CLEARLY_LESS_LIKELY * corrected.gain.error
    fewer_hits = hits.mean < -CLEARLY_FEWER_HITS * hits.error
    if not (less_likely or fewer_hits):
        return replace(learned, guard=[*learned.guard, told])
    plain = continue_plainly(problem, results[0], "plain", problem.schedule.classifier)
    tuned = continue_plainly(problem, plain, "fine-tuning", problem.schedule.revision, record_start=True)
    instead = valid.score(tuned, None, corrected)
    more = valid.hits(instead, corrected)
    told |= {"plain_likelier": instead.gain.mean, "plain_hits_more": more.mean}
    told["kept"] = not (less_likely and instead.gain.mean > 0) and not (fewer_hits and more.mean > 0)
    if told["kept"]:
        spent = [*learned.history, *plain.history, *tuned.history]
        return replace(learned, history=spent, guard=[*learned.guard, told])
    message = (
        "the correction through T was not kept, and the model is that of plain training: by it, noisy "
        f"validation labels are likelier by {instead.gain.mean:+.4f} ± {instead.gain.error:.4f} nats a row, "
        f"and it hits {more.mean:+.1%} more of them"
    )
    taken = conclude(problem, initial, [*results, plain, _without_transition(tuned)])
    return replace(taken, warnings=[*taken.warnings, message], guard=[*taken.guard, told])


def _without_transition(trained: StageResult) -> StageResult:
    return replace(trained, state=NoisyLabelModel.state_of_part(trained.state, ""))
