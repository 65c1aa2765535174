"""`mentornet`: one network, its samples weighted by a mentor.

Jiang, Zhou, Leung, Li, Fei-Fei: MentorNet: Learning Data-Driven Curriculum for Very Deep Neural Networks on
Corrupted Labels, ICML 2018. Two mentors are offered:

- `self-paced`: weight one for the samples of a batch with the smallest losses, zero for the others. Later
  papers compare with this predefined curriculum under the name MentorNet.
- `learned`: a small network predicts whether a label is right, from the sample's losses so far, its label and
  the time. It learns this in a rehearsal (`mentor.py`).

Notes
-----
- The share kept is that of `co-teaching`, R(t) = 1 - rate * min(t / T_k, 1); the paper compares with a moving
  average of a percentile of the losses.
- The batch's loss is the weighted mean, sum v loss / sum v; the paper divides by the batch's size.
- The learned mentor takes over after a fifth of the epochs, as in the paper. Until then the paper drops
  samples at random; here the self-paced mentor chooses, as it does in the rehearsal.
- The noise rate is estimated unless given.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from lightning_fabric import Fabric
from torch import Tensor, nn

from trevision.methods.mentor import LastEpoch, Mentor, Watched, learn_mentor, prepare_rehearsal
from trevision.methods.method import Method
from trevision.methods.problem import Learned, Problem
from trevision.methods.selection import (
    conclude_with,
    each_loss,
    rate_to_go_by,
    share_over_time,
    smallest,
    train_from_scratch,
    weighted_mean,
    whole_batch,
    whole_phase,
)
from trevision.methods.stages import estimate_transition, fit_noisy_posterior, predicted_probs
from trevision.training.loop import Batch, StageResult, Step

BURN_IN = 0.2  # share of the epochs before a learned mentor takes over


def fit(problem: Problem) -> Learned:
    posterior = fit_noisy_posterior(problem)
    initial = estimate_transition(problem, posterior)
    rate = rate_to_go_by(problem, initial)
    if problem.options.mentor == "learned":
        predicted = predicted_probs(problem, posterior, problem.data.train_x).argmax(axis=1)
        rehearsed, mentor = rehearse(problem, predicted, initial.matrix, rate.value)
        trained, _ = train_with_mentor(problem, mentor, rate.value)
        return conclude_with(problem, initial, [posterior, rehearsed, trained], rate, part="network")
    step = self_paced_step(problem.runtime.fabric, share_over_time(problem, rate.value))
    trained = train_from_scratch(problem, "mentornet", problem.make_network(), step)
    return conclude_with(problem, initial, [posterior, trained], rate)


MENTORNET = Method("mentornet", fit, options=("noise_rate", "mentor"))


def self_paced_step(fabric: Fabric, share: Callable[[int], float]) -> Step:
    """The mean loss over the samples with the smallest losses."""

    def step(model: nn.Module, batch: Batch) -> Tensor:
        losses = each_loss(model(batch.x)[0], batch.noisy_labels)
        kept = smallest(whole_batch(fabric, losses.detach()), share(batch.epoch))
        return weighted_mean(fabric, losses, kept, batch.weights)

    return step


def rehearse(
    problem: Problem, predicted: np.ndarray, transition: np.ndarray, rate: float
) -> tuple[StageResult, Mentor]:
    """Train a student on deliberately corrupted labels, and a mentor on the student's losses."""
    rehearsal = prepare_rehearsal(problem.data, predicted, transition, problem.seed)
    student = _watched(problem)
    fabric, share = problem.runtime.fabric, share_over_time(problem, rate)

    def step(model: nn.Module, batch: Batch) -> Tensor:
        losses = each_loss(model(batch.x)[0], batch.noisy_labels)
        everyones = whole_batch(fabric, losses.detach())
        student.record(batch.epoch, whole_batch(fabric, batch.rows.to(losses.device)), everyones, 1 - rate)
        kept = smallest(everyones, share(batch.epoch))
        return weighted_mean(fabric, losses, kept, batch.weights)

    evaluation = LastEpoch(rehearsal.data, student=student)
    result = train_from_scratch(problem, "mentor-rehearsal", student, step, evaluation=evaluation)
    mentor = learn_mentor(rehearsal, result, problem.data.num_classes, _burn_in(problem), problem.seed)
    return result, mentor


def train_with_mentor(problem: Problem, mentor: Mentor, rate: float) -> tuple[StageResult, Watched]:
    """Train the final student: self-paced, as in the rehearsal, until the mentor takes over."""
    student = _watched(problem, mentor)
    fabric, burn_in, share = problem.runtime.fabric, _burn_in(problem), share_over_time(problem, rate)

    def step(model: nn.Module, batch: Batch) -> Tensor:
        losses = each_loss(model(batch.x)[0], batch.noisy_labels)
        everyones = whole_batch(fabric, losses.detach())
        rows = whole_batch(fabric, batch.rows.to(losses.device))
        student.record(batch.epoch, rows, everyones, 1 - rate)
        if batch.epoch < burn_in:
            kept = smallest(everyones, share(batch.epoch))
            return weighted_mean(fabric, losses, kept, batch.weights)
        weights = student.trust(batch.epoch, rows, whole_batch(fabric, batch.noisy_labels))
        return weighted_mean(fabric, losses, weights, batch.weights)

    return train_from_scratch(problem, "mentornet", student, step), student


def _watched(problem: Problem, mentor: Mentor | None = None) -> Watched:
    return Watched(problem.make_network(), whole_phase(problem).epochs, len(problem.data.train_x), mentor)


def _burn_in(problem: Problem) -> int:
    return math.ceil(BURN_IN * whole_phase(problem).epochs)
