"""`trevision bound`: Theorem 1 for a run, term by term."""

from __future__ import annotations

from pathlib import Path

from trevision.cli.progress import data_bar
from trevision.cli.terminal import RunPath, console, errors, table


def bound(run_folder: RunPath, /, delta: float = 0.05, data_dir: Path | None = None) -> None:
    """Print the bound of Theorem 1 for the model of a run, term by term, and the gap that it bounds.

    The training rows are read again as config.json says. Only for plain feed-forward networks (lenet, mlp).
    The bound is loose by orders of magnitude; docs/bound.md says why.

    For example:

    $ trevision bound runs/a
    $ trevision bound runs/a --delta 0.01

    Args:
        run_folder: The folder that `trevision fit` wrote.
        delta: The probability that the bound fails.
        data_dir: Where to look for data files first; then $TREVISION_DATA and the user's cache.
    """
    from trevision.reproduce.bound import bound_of_run

    with data_bar(errors, "the run's source") as reading:
        checked = bound_of_run(run_folder, delta, data_dir, reading)
    theorem, gap = checked.bound, checked.gap
    rows = [
        (
            f"M_{number}, {layer.name}",
            f"{layer.norm:.4g}",
            f"{layer.kernel_norm:.4g}",
            f"{layer.bias_norm:.4g}",
        )
        for number, layer in enumerate(theorem.layers, start=1)
    ]
    console.print(table(["Frobenius norm", "matrix", "as stored", "bias"], rows))
    rows_of_terms = [
        ("d, layers", f"{theorem.depth}"),
        ("B, largest norm of a training row", f"{theorem.input_norm:.4g}"),
        ("C, classes", f"{theorem.num_classes}"),
        ("L, Lipschitz constant", f"{theorem.lipschitz:g}"),
        ("M, largest training loss", f"{theorem.loss_bound:.4g}"),
        ("n, training rows", f"{theorem.rows}"),
        ("delta", f"{theorem.delta:g}"),
        ("first term, complexity", f"{theorem.complexity:.4g}"),
        ("second term, chance", f"{theorem.chance:.4g}"),
        ("bound", f"{theorem.total:.4g}"),
        ("bound with biases as weights", f"{theorem.total_with_biases:.4g}"),
        ("weighted risk, noisy training rows", f"{gap.training_risk:.4g}"),
        (f"weighted risk, {gap.validation_rows} noisy validation rows", f"{gap.validation_risk:.4g}"),
        ("empirical gap", f"{gap.gap:.4g}"),
    ]
    console.print(table(["", str(run_folder)], rows_of_terms))
    if not checked.transition_is_valid:
        errors.print(
            "warning: T has an entry below zero or a diagonal entry that is not its row's largest; "
            "the theorem assumes neither"
        )
