"""Which noise rates explain the labels nearly as well as T does.

    T_s = I + s (T - I),      l(s) = max over links of sum_n log P(noisy = y_n | x_n; T_s, link)

The link turns P(noisy | x) into the clean posterior g, as in `latent`. Where classes overlap, fewer wrong
labels with a less sure g explain the labels about as well as T with a surer one, and a bootstrap does not
show it: `latent` makes the same choice for every draw. l(s) shows it.

Notes
-----
If P(noisy | x) were exact, T = I with g = P(noisy | x) would explain the labels as well as the true T,
however sure the rows. So no noise at all is then among the likely rates, and what speaks for T is only that
so many rows lie in its corners. Models are seldom exact: that the probabilities of the surest rows level off
is what no link without T can follow.
"""

from __future__ import annotations

import numpy as np

from trevision.estimation.latent import LATENT
from trevision.estimation.latent_model import LatentFit, Sample, gather
from trevision.estimation.rows import ProbabilityRows
from trevision.noise import FloatArray
from trevision.prior import Prior

SCALES = (1.2, 1.0, 0.85, 0.7, 0.55, 0.4, 0.2, 0.0)
"""s, from more noise than T's to none."""

NEARLY = 4.0
"""Units of log-likelihood that a rate may lack. A test at 90% would allow 1.4; the link is not exact."""

LEAST_ENTRY = 1e-4
"""Of T_s: from an impossible label no likelihood recovers."""

MOST_NUMBERS = 40_000
"""Probabilities that l(s) is found from; of larger data a random part is, which makes the range wider."""

MOST_CLASSES = 32
"""The link has C^2 numbers for each s."""


def likely_rates(rows: ProbabilityRows, transition: FloatArray) -> tuple[float, float] | None:
    """The least and the greatest noise rate through which the labels are nearly as likely as through any.

    Parameters
    ----------
    rows : ProbabilityRows
        P(noisy | x) of rows that the model was not trained on, and their labels.
    transition : ndarray of shape (C, C)
        T, the direction in which noise grows from none.

    Returns
    -------
    tuple of two floats, or None
        None with more classes than `MOST_CLASSES`.

    Examples
    --------
    A model that is too soft, on labels of which a fifth and 30% are wrong:

    >>> rng = np.random.default_rng(0)
    >>> transition = np.array([[0.8, 0.2], [0.3, 0.7]])
    >>> first = 1 / (1 + np.exp(-4 * rng.normal(size=4000)))
    >>> clean = np.stack([first, 1 - first], axis=1)
    >>> labels = (rng.random(4000) > (clean @ transition)[:, 0]).astype(int)
    >>> soft = clean**0.3 / (clean**0.3).sum(axis=1, keepdims=True)
    >>> least, most = likely_rates(ProbabilityRows(soft, labels), transition)
    >>> bool(0.2 < least < 0.25 < most < 0.3)
    True
    """
    size = rows.num_classes
    if size > MOST_CLASSES:
        return None
    sample = gather(rows, None, np.full((size, size), np.nan), MOST_NUMBERS, LATENT.block_numbers)
    power = LATENT.likeliest_power(sample)
    fits = [_likeliest(sample, _scaled(transition, scale), power) for scale in SCALES]
    rates = np.array([1 - fit.counts.trace() / fit.counts.sum() for fit in fits])
    lacking = np.array([fit.log_likelihood(sample.probs, sample.labels).sum() for fit in fits])
    lacking = lacking.max() - lacking
    # Rates fall with s, but for chance; between the scales the likelihood is taken to be a line.
    order = np.argsort(rates)
    fine = np.linspace(rates.min(), rates.max(), 1000)
    likely = fine[np.interp(fine, rates[order], lacking[order]) <= NEARLY]
    return float(likely.min()), float(likely.max())


def _scaled(transition: FloatArray, scale: float) -> FloatArray:
    identity = np.eye(len(transition))
    moved = np.maximum(identity + scale * (transition - identity), LEAST_ENTRY)
    scaled: FloatArray = moved / moved.sum(axis=1, keepdims=True)
    return scaled


def _likeliest(sample: Sample, transition: FloatArray, power: float) -> LatentFit:
    """The link by which the labels are likeliest through a known T: of log p, or of p corrected by T."""
    rows = ProbabilityRows(sample.probs, sample.labels)
    known = Prior(known_rows=dict(enumerate(transition)))
    starts = (LATENT.start_from(transition), LATENT.start_from(transition, transition, power))
    fits = [LATENT.fit(rows, None, start, known) for start in starts]
    return max(fits, key=lambda fit: fit.log_likelihood(sample.probs, sample.labels).sum())
