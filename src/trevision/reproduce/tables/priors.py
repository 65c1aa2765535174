"""Beyond the paper: priors for T, both true and false ones."""

from trevision.reproduce.spec import OF_TRANSITION, Spec

SPEC = Spec(
    "priors",
    "What knowing something of T gains where it is true, and costs where it is false",
    datasets=("mnist",),
    noises=("pair-45", "sym-50"),
    methods=(
        *("reweight-r", "reweight-r:prior=sparse=0.1", "reweight-r:prior=support=pair-45"),
        *("reweight-r:prior=known=pair-45", "reweight-r:prior=dominant"),
        "reweight-r:prior=symmetric",
    ),
    measures=OF_TRANSITION,
    in_paper=False,
)
