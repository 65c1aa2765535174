"""Beyond the paper: the error of T by estimators and methods, compared with the sampling floor."""

from trevision.reproduce.estimators import estimator_names
from trevision.reproduce.spec import OF_TRANSITION, Spec

ON_REQUEST = ("latent-unpooled",)
"""Estimators that are rows only on request."""

OF_RIVALS = {
    "volminnet": (
        "volminnet has the network, epochs, optimiser, batches and images of the schedule, as every other "
        "row; start, optimiser and rate of T, and the weight of the volume, are its authors' for MNIST. The "
        "row volminnet:schedule=released has their whole recipe."
    ),
    "tv": (
        "tv has the network, epochs, optimiser, batches and images of the schedule too; start and factors of "
        "its counts, and the weight of the total variation, are its authors' for MNIST. The row "
        "tv:schedule=released has their whole recipe."
    ),
    "dual-t": (
        "dual-t (T only) reads out-of-sample predictions, as all estimators alone; its authors read the "
        "training rows themselves. The row forward:estimator=dual-t,posterior=in-sample does so."
    ),
}
"""How the rows of rivals differ from what their authors released."""

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
    notes=OF_RIVALS,
)
