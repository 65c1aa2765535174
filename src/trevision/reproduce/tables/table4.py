"""Table 4 of the paper: test accuracy with the real noise of Clothing1M."""

from trevision.reproduce.spec import ALL, REAL, Spec

SPEC = Spec(
    "table4",
    "Accuracy on real noise",
    datasets=("clothing1m",),
    noises=(REAL,),
    methods=ALL,
)
