"""The examples run, and what each of them prints at its end is so."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def output(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    """What the example named by the parameter prints."""
    runpy.run_path(str(EXAMPLES / request.param), run_name="__main__")
    return capsys.readouterr().out


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers that the groups of `pattern` find in `text`, which must have it once."""
    (found,) = re.findall(pattern, text)
    return [float(number) for number in ((found,) if isinstance(found, str) else found)]


@pytest.mark.parametrize("output", ["pipeline.py"], indirect=True)
def test_the_pipeline_beats_plain_training_and_finds_the_noise(output: str) -> None:
    plain, forward = numbers(r"plain (\d\.\d+), forward (\d\.\d+)", output)
    assert forward > plain + 0.1
    assert numbers(r"error of T: (\d\.\d+)", output)[0] < 0.15


@pytest.mark.parametrize("output", ["pytorch_loop.py"], indirect=True)
def test_the_pytorch_loop_learns_more_with_the_forward_loss(output: str) -> None:
    plain, forward = numbers(r"cross-entropy (\d\.\d+), forward (\d\.\d+)", output)
    assert forward > plain + 0.15
    assert numbers(r"error of the estimated T: (\d\.\d+)", output)[0] < 0.2


@pytest.mark.parametrize("output", ["from_probabilities.py"], indirect=True)
def test_probabilities_alone_tell_how_many_labels_are_wrong_and_which(output: str) -> None:
    found, _, _, truth = numbers(
        r"wrong labels: ([\d.]+)% \(90% interval ([\d.]+)% to ([\d.]+)%\); in truth ([\d.]+)%", output
    )
    assert abs(found - truth) < 5
    assert numbers(r"of these 10, wrong: (\d+)", output)[0] >= 9
    by_model, ours = numbers(r"probability (\d\.\d+), by P\(given is right\) (\d\.\d+)", output)
    assert ours > by_model + 0.05


@pytest.mark.parametrize("output", ["text.py"], indirect=True)
def test_texts_are_classified_and_their_wrong_labels_found(output: str) -> None:
    plain, forward = numbers(r"plain (\d\.\d+), forward (\d\.\d+)", output)
    assert forward > plain + 0.1
    estimated, truth = numbers(r"estimated (\d+), in truth (\d+)", output)
    assert abs(estimated - truth) < 0.15 * truth
    assert numbers(r"of which ([\d.]+)% are wrong", output)[0] > 90


def test_every_example_is_tested_and_listed() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    here, listed = Path(__file__).read_text(encoding="utf-8"), (EXAMPLES / "README.md").read_text("utf-8")
    assert names
    assert [name for name in names if f'["{name}"]' not in here or f"({name})" not in listed] == []
