"""Models compared by the answers of several annotators to rows that they were not fitted on.

    P(annotator a answers y | x) = sum_i ((1 - e) g^p(x) + e f)_i T_a[i, y]

T_a and what models learn, P(clean | answers), come from the answers alone. They are the same for all models.
A row's score is the sum of log P over its answers, each by itself: that annotators err independently is not
assumed. The power p and the share e are the calibration of `refit.scoring`; f are the frequencies of the
clean classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trevision.estimation import Answers, fit_annotators
from trevision.estimation.crowd_learning import targets_of
from trevision.noise import FloatArray
from trevision.refit.scoring import LEAST_PROBABILITY, calibrate, probability_of


@dataclass(frozen=True, eq=False)
class CrowdEvidence:
    """What answers say without any classifier.

    Attributes
    ----------
    answers : Answers
        Who gave which label to which row.
    transitions : ndarray of shape (A, C, C)
        T of each annotator.
    targets : ndarray of shape (n, C)
        P(clean | answers), which models learn.
    """

    answers: Answers
    transitions: FloatArray
    targets: FloatArray

    @classmethod
    def of(cls, answers: Answers) -> CrowdEvidence:
        """The evidence of some answers."""
        alone = fit_annotators(answers, answers.classes)
        return cls(answers, alone.transitions, targets_of(answers, alone))

    def accuracy(self, probs: FloatArray) -> float:
        """The expected share of rows whose clean label is the likeliest by `probs` (n, C)."""
        return expected_accuracy(probs, self.targets)

    def log_likelihoods(self, probs: FloatArray, folds: list[np.ndarray]) -> FloatArray:
        """log P(answer | x), summed over the answers of a row, (n,); each fold calibrated by the others."""
        given = self.answers
        said = self.transitions[given.who, :, given.label]
        own = np.empty(len(said))
        for fold in folds:
            here = fold[given.row]
            frequencies = self.targets[~fold].mean(axis=0)
            g, rest = probs[given.row], ~here
            fitted = calibrate(g[rest], said[rest], None, frequencies, np.ones(int(rest.sum())))
            own[here] = probability_of(fitted.noisy_probs(g[here], None, frequencies), said[here])
        logs = np.log(np.maximum(own, LEAST_PROBABILITY))
        rows: FloatArray = np.bincount(given.row, logs, given.rows).astype(np.float64)
        return rows


def expected_accuracy(probs: FloatArray, clean_posterior: FloatArray) -> float:
    """How often the likeliest class by `probs` is the clean one, by P(clean), both (n, C)."""
    return float(clean_posterior[np.arange(len(probs)), probs.argmax(axis=1)].mean())
