"""Beyond the paper: the error of T by estimators and methods, compared with the sampling floor."""

from trevision.reproduce.estimators import estimator_names
from trevision.reproduce.spec import OF_TRANSITION, Spec

ON_REQUEST = ("latent-unpooled",)
"""Estimators that are rows only on request."""

SPEC = Spec(
    "floor",
    "How near T comes to the sampling floor",
    datasets=("mnist",),
    noises=("sym-20", "sym-50", "sym-80", "pair-20", "pair-45"),
    methods=(
        *("standard", "sce", "forward:estimator=latent", "reweight-r"),
        *("volminnet", "tv", "recursive"),
    ),
    anchors=("A", "N/A"),
    measures=OF_TRANSITION,
    estimators=tuple(name for name in estimator_names() if name not in ON_REQUEST),
    schedule="strong",
    seeds_without_anchors=1,
    in_paper=False,
)
