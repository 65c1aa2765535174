"""Table 4 of the paper: test accuracy on the noise that Clothing1M comes with."""

from trevision.reproduce.spec import ALL, REAL, Spec

SPEC = Spec(
    "table4",
    "Accuracy on real noise",
    datasets=("clothing1m",),
    noises=(REAL,),
    methods=ALL,
)
