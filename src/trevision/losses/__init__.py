"""The losses of the paper and of its rivals, as pure functions of logits.

Notation: g(x) = softmax(logits) estimates the clean posterior P(Y | x); y is the *noisy* label;
T[i, j] = P(noisy = j | clean = i), so the noisy posterior is (T' g)_j = sum_i T[i, j] g_i.

Everything is computed from log g, so that confident logits neither underflow nor give nan
gradients. Shapes: logits (n, C), noisy_labels (n,), transition (C, C); `reduction` is "mean",
"sum" or "none", the last giving one loss a row.
"""

from trevision.losses.corrected import (
    CONDITION_LIMIT,
    LARGEST_WEIGHT,
    NO_LABEL,
    BackwardLoss,
    ForwardLoss,
    ReweightLoss,
    backward_nll,
    cross_entropy,
    forward_nll,
    invert,
    released_revision_nll,
    reweight_nll,
    soft_cross_entropy,
)
from trevision.losses.log_probs import (
    LARGEST_EXPONENT,
    Reduction,
    as_transition,
    log_noisy_prob,
    validate_tensor,
)
from trevision.losses.regularised import (
    TOTAL_VARIATION_WEIGHT,
    VOLUME_WEIGHT,
    log_volume,
    total_variation,
    total_variation_nll,
    volume_nll,
)
from trevision.losses.resampled import importance_weights, resampled_counts, resampled_nll
from trevision.losses.robust import (
    forward_generalised_cross_entropy,
    forward_symmetric_cross_entropy,
    generalised_cross_entropy,
    generalised_of_log_prob,
    symmetric_cross_entropy,
    symmetric_of_log_prob,
)

__all__ = [
    "CONDITION_LIMIT",
    "LARGEST_EXPONENT",
    "LARGEST_WEIGHT",
    "NO_LABEL",
    "TOTAL_VARIATION_WEIGHT",
    "VOLUME_WEIGHT",
    "BackwardLoss",
    "ForwardLoss",
    "Reduction",
    "ReweightLoss",
    "as_transition",
    "backward_nll",
    "cross_entropy",
    "forward_generalised_cross_entropy",
    "forward_nll",
    "forward_symmetric_cross_entropy",
    "generalised_cross_entropy",
    "generalised_of_log_prob",
    "importance_weights",
    "invert",
    "log_noisy_prob",
    "log_volume",
    "released_revision_nll",
    "resampled_counts",
    "resampled_nll",
    "reweight_nll",
    "soft_cross_entropy",
    "symmetric_cross_entropy",
    "symmetric_of_log_prob",
    "total_variation",
    "total_variation_nll",
    "validate_tensor",
    "volume_nll",
]
