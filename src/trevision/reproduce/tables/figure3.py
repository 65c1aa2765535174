"""Figure 3 of the paper: the error of T during the revision."""

from trevision.reproduce.spec import IMAGES, Spec

SPEC = Spec(
    "figure3",
    "Error of T by epoch of the revision",
    datasets=IMAGES,
    noises=("sym-20", "sym-50"),
    methods=("forward-r", "reweight-r"),
    anchors=("A", "N/A"),
    measures=("transition_error",),
    curves_of="revision",
)
