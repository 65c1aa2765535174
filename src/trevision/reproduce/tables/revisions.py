"""Beyond the paper: the parameterisations of Delta T compared."""

from trevision.reproduce.spec import OF_TRANSITION, Spec

SPEC = Spec(
    "revisions",
    "What a revision gains, by how Delta T may move",
    datasets=("mnist",),
    noises=("sym-50", "pair-45"),
    methods=(
        *("reweight", "reweight-r", "reweight-r:lr-transition=0.01", "reweight-r:revision=frozen"),
        *("reweight-r:revision=slack", "reweight-r:revision=slack,revision-loss=released"),
        *("forward", "forward-r", "forward-r:lr-transition=0.01", "forward-r:revision=frozen"),
    ),
    measures=OF_TRANSITION,
    in_paper=False,
)
