"""Table 2 of the paper: test accuracy without anchor points."""

from trevision.reproduce.spec import ALL, IMAGES, Spec

SPEC = Spec(
    "table2",
    "Accuracy without anchor points",
    datasets=IMAGES,
    noises=("sym-20", "sym-50"),
    methods=ALL,
    anchors=("N/A",),
)
