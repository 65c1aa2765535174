"""Beyond the paper: test accuracy with the labels that people gave to CIFAR-10 (CIFAR-10N).

The published numbers are of ResNet-34, from Wei et al., "Learning with Noisy Labels Revisited", ICLR 2022.
"""

from trevision.reproduce.spec import Spec

SPEC = Spec(
    "cifar10n",
    "Accuracy on labels of people",
    datasets=("cifar10n",),
    noises=("worse", "aggre", "random1"),
    methods=(
        *("standard", "co-teaching", "sce", "forward", "reweight", "reweight-r"),
        *("recursive", "volminnet", "rent", "unlabel"),
    ),
    measures=("test_accuracy", "transition_error", "seconds"),
    in_paper=False,
    published_by="Wei et al. 2022",
)
