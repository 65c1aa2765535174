"""An estimator is one file: it is found, named, offered and told of without a second list."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest

import trevision
import trevision.estimation
from trevision.cli import main
from trevision.declared import declared_in
from trevision.estimation import (
    ESTIMATORS,
    ProbabilityRows,
    Solution,
    default_estimator,
    estimate,
    find_estimator,
    registry,
)
from trevision.estimation.estimator import Estimator
from trevision.prior import Prior

ROOT = Path(__file__).parents[2]

ONE_FILE = """
import numpy as np
from trevision.estimation.estimator import Estimator, Solution

class Uniform(Estimator):
    def _solve(self, rows, weights, start, knowledge):
        size = rows.num_classes
        return Solution(np.full((size, size), 1 / size), np.full(size, 1 / size))

UNIFORM = Uniform(name="uniform")
"""


def test_a_new_estimator_is_one_new_file(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "uniform.py").write_text(ONE_FILE, encoding="utf-8")
    monkeypatch.setattr(trevision.estimation, "__path__", [*trevision.estimation.__path__, str(tmp_path)])
    try:
        found = declared_in("trevision.estimation", Estimator, order=lambda estimator: estimator.rank)
    finally:
        sys.modules.pop("trevision.estimation.uniform", None)
    assert list(found) == [*ESTIMATORS, "uniform"]
    monkeypatch.setattr(registry, "ESTIMATORS", found)
    rows = np.array([[0.8, 0.2], [0.4, 0.6]])
    np.testing.assert_array_equal(
        estimate(rows, [0, 1], "uniform", bootstrap=0).transition, np.full((2, 2), 0.5)
    )


def test_two_estimators_of_one_name_are_refused(tmp_path: Path, monkeypatch) -> None:
    text = ONE_FILE.replace('"uniform"', '"latent"')
    (tmp_path / "usurper.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(trevision.estimation, "__path__", [*trevision.estimation.__path__, str(tmp_path)])
    try:
        with pytest.raises(ValueError, match="the name 'latent' is declared twice"):
            declared_in("trevision.estimation", Estimator)
    finally:
        sys.modules.pop("trevision.estimation.usurper", None)


def test_the_best_estimator_comes_first_and_is_the_default_where_it_takes_the_classes() -> None:
    assert list(ESTIMATORS)[:3] == ["latent", "latent-unpooled", "confident-joint"]
    assert [name for name in ESTIMATORS if ESTIMATORS[name].rank == 100] == []
    assert (default_estimator(100), default_estimator(101)) == ("latent", "confident-joint")


def test_a_misspelt_name_gets_the_list_and_a_suggestion() -> None:
    names = ", ".join(ESTIMATORS)
    with pytest.raises(
        ValueError, match=f"estimator must be one of {names}, got .dual-T.; did you mean dual-t"
    ):
        find_estimator("dual-T")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_constants_are_fields_that_cannot_be_changed_by_accident(name: str) -> None:
    estimator = ESTIMATORS[name]
    assert estimator.name == name
    for field in fields(estimator):
        with pytest.raises(FrozenInstanceError):
            setattr(estimator, field.name, None)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_keeps_to_what_is_known_of_t(name: str) -> None:
    rng = np.random.default_rng(0)
    transition = np.array([[0.8, 0.2, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]])
    probs = rng.dirichlet(np.full(3, 0.2), size=300) @ transition
    labels = (probs.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1).clip(max=2)
    knowledge = Prior(support=transition > 0, known_rows={2: [0, 0, 1]})
    solution = ESTIMATORS[name].solve(ProbabilityRows(probs, labels), knowledge=knowledge)
    assert (solution.transition[transition == 0] == 0).all()
    np.testing.assert_array_equal(solution.transition[2], [0, 0, 1])


def test_only_anchor_points_may_be_read_off_rows_that_a_network_has_seen() -> None:
    assert [name for name in ESTIMATORS if not ESTIMATORS[name].needs_out_of_sample] == ["anchor"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_t_is_the_function_of_counts_that_recount_says(name: str) -> None:
    rng = np.random.default_rng(1)
    rows = ProbabilityRows(rng.dirichlet(np.ones(3), size=200), rng.integers(3, size=200))
    solution = ESTIMATORS[name].solve(rows)
    if solution.counts is None:
        assert ESTIMATORS[name].recount(np.ones((3, 3))) is None
        return
    again = ESTIMATORS[name].recount(solution.counts)
    assert again is not None
    np.testing.assert_array_equal(again.transition, solution.transition)
    np.testing.assert_array_equal(again.class_prior, solution.class_prior)
    np.testing.assert_array_equal(again.class_by_class, solution.class_by_class)


def test_a_solution_without_a_link_inverts_t_and_one_with_a_link_uses_it() -> None:
    matrix = np.array([[0.9, 0.1], [0.2, 0.8]])
    noisy = np.array([[0.9, 0.1], [0.55, 0.45]])
    plain = Solution(matrix, np.array([0.5, 0.5]))
    np.testing.assert_allclose(plain.clean_posterior(noisy), [[1, 0], [0.5, 0.5]], atol=1e-12)
    assert not plain.has_own_posterior

    class Link:
        def clean_posterior(self, noisy_probs: np.ndarray) -> np.ndarray:
            return noisy_probs[:, ::-1]

    linked = Solution(matrix, np.array([0.5, 0.5]), state=Link())
    np.testing.assert_array_equal(linked.clean_posterior(noisy), noisy[:, ::-1])
    assert linked.has_own_posterior


# ---- where the names are told of


def names_in(text: str) -> set[str]:
    """The estimators that a text names: as words, the longest name first."""
    longest_first = sorted(ESTIMATORS, key=len, reverse=True)
    return set(re.findall(rf"(?<![\w-])({'|'.join(longest_first)})(?![\w-])", text))


@pytest.mark.parametrize("command", ["estimate", "fit"])
def test_the_help_of_a_command_names_all_estimators(command: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    option = said[said.rindex("--estimator ") :]
    assert names_in(option[:800]) == set(ESTIMATORS)


@pytest.mark.parametrize("documented", ["estimate", "TRevisionClassifier"])
def test_a_docstring_names_all_estimators(documented: str) -> None:
    if documented == "TRevisionClassifier":
        pytest.importorskip("torch")
    text = getattr(trevision, documented).__doc__ or ""
    paragraph = text[text.index("estimator : str or None") :]
    assert names_in(paragraph[:700]) == set(ESTIMATORS)


def test_the_page_on_estimating_has_a_line_for_each_estimator() -> None:
    page = (ROOT / "docs" / "estimate.md").read_text(encoding="utf-8")
    table = page[page.index("| `estimator` |") :].split("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)`", table, flags=re.MULTILINE)[1:] == list(ESTIMATORS)


# ---- light to import


def test_estimating_never_imports_torch() -> None:
    lines = (
        "import sys, trevision.estimation, trevision.issues, trevision.prior, trevision.noise",
        "assert 'torch' not in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "; ".join(lines)], check=True)
