"""Table 3 of the paper: test accuracy with more noise."""

from trevision.reproduce.spec import Spec

SPEC = Spec(
    "table3",
    "Accuracy with more noise",
    datasets=("mnist",),
    noises=("sym-60", "sym-70", "sym-80"),
    methods=("forward", "forward-r", "reweight", "reweight-r"),
    anchors=("A", "N/A"),
)
