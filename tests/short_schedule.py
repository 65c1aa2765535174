"""A few epochs a stage, for tests of what is not the training itself."""

from trevision import Phase, Schedule

FAST = Schedule(
    noisy_posterior=Phase(4, lr=0.02, batch_size=32),
    classifier=Phase(4, lr=0.02, batch_size=32, decay="one-cycle"),
    revision=Phase(2, optimizer="adam", lr=1e-4, batch_size=32),
    parameterisation="simplex",
    select_by="loss",
)
