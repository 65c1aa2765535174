"""Nobody waits for torch who does not need it, and nobody needs it who only has probabilities."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import trevision

HEAVY = ("torch", "lightning_fabric", "ray", "matplotlib", "pandas", "sklearn")


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def probabilities(tmp_path) -> Path:
    """Two classes, 20 % of one labelled as the other, by a model that is nearly sure."""
    rng = np.random.default_rng(0)
    clean = rng.integers(2, size=400)
    sure = np.where(clean[:, None] == np.arange(2), 0.97, 0.03)
    transition = np.array([[0.8, 0.2], [0.0, 1.0]])
    labels = np.array([rng.choice(2, p=transition[c]) for c in clean])
    path = tmp_path / "probs.npz"
    np.savez(path, probs=sure @ transition, labels=labels)
    return path


@pytest.mark.parametrize(
    "code",
    [
        "import trevision",
        "from trevision.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from trevision.cli import main\nmain(['--version'])",
    ],
)
def test_the_front_door_imports_nothing_heavy(code):
    done = python(f"{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_estimating_from_probabilities_does_not_import_torch(probabilities):
    done = python(
        """
        import sys
        from trevision.cli import main
        main(["estimate", sys.argv[1]])
        import trevision, numpy as np
        file = np.load(sys.argv[1])
        trevision.find_label_issues(file["probs"], file["labels"])
        assert not {"torch", "lightning_fabric", "ray"} & set(sys.modules)
        """,
        probabilities,
    )
    assert done.returncode == 0, done.stderr
    assert "wrong labels:" in done.stdout


def test_without_torch_the_core_works_and_fit_says_what_to_install(probabilities, tmp_path, without_torch):
    done = python(
        without_torch
        + textwrap.dedent(
            """
            from trevision.cli import main
            main(["estimate", sys.argv[1]])
            import trevision
            try:
                trevision.TRevisionClassifier
            except ImportError as error:
                print(error)
            main(["fit", "digits", "--out", sys.argv[2]])
            """
        ),
        probabilities,
        tmp_path / "run",
    )
    install = "this needs torch, which is not installed: pip install 'trevision[torch]'"
    assert "wrong labels:" in done.stdout
    assert install in done.stdout
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"trevision: {install}")
    assert not (tmp_path / "run").exists()


def test_the_stub_tells_type_checkers_the_names_that_there_are():
    stub = ast.parse(Path(trevision.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = [alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(names) == sorted(name for name in trevision.__all__ if name != "__version__")
    homes = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == trevision._HOME


def test_every_name_of_the_surface_can_be_imported_and_others_cannot():
    pytest.importorskip("torch")
    assert all(hasattr(trevision, name) for name in trevision.__all__)
    assert trevision.__version__ == version("trevision")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = trevision.nonsense


def test_the_overview_has_every_command_with_its_own_first_line():
    pytest.importorskip("torch")
    from importlib import import_module

    from trevision.cli import COMMANDS, overview

    for name, summary in COMMANDS.items():
        first_line = getattr(import_module(f"trevision.cli.{name}"), name).__doc__.splitlines()[0]
        # The overview may cut a sentence short, but says nothing that the command does not.
        words = summary.rstrip(".").split()
        assert first_line.split()[:2] == words[:2], (first_line, summary)
        assert summary in overview()


def test_every_name_of_the_surface_has_sections_that_render_and_an_example():
    pytest.importorskip("torch")
    for name in set(trevision.__all__) - {"__version__", "TransitionWarning"}:
        text = inspect.getdoc(getattr(trevision, name)) or ""
        assert "Examples\n--------" in text, name
        assert "Parameters\n----------" in text or "Attributes\n----------" in text, name
