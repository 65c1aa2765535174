"""Table 1 of the paper: test accuracy with anchor points."""

from trevision.reproduce.spec import ALL, IMAGES, Spec

SPEC = Spec(
    "table1",
    "Accuracy with anchor points",
    datasets=IMAGES,
    noises=("sym-20", "sym-50"),
    methods=ALL,
)
