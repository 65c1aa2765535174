"""`revision_loss`: the released code's loss in the place of Eq. 3, and where it is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from trevision import losses
from trevision.cli import main
from trevision.data.noisy import split
from trevision.methods.options import Options
from trevision.methods.problem import Problem
from trevision.methods.registry import check_options, find_method
from trevision.methods.schedules import schedule_for
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

SCHEDULE = replace(
    schedule_for("quick", "arrays", 1080, 4),
    noisy_posterior=Phase(3, lr=0.02, batch_size=32),
    classifier=Phase(3, lr=0.02, batch_size=32),
    revision=Phase(1, optimizer="sgd", lr=0.0, lr_transition=1e-7, momentum=0.0, batch_size=1080),
)


def learn(blobs, **options):
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)
    schedule = SCHEDULE.with_options(Options(revision="slack", **options))
    problem = Problem(
        data=data,
        make_network=lambda: build("mlp", (8,), 4, 0),
        standardise=Standardise.from_data(data.train_x),
        schedule=schedule,
        seed=0,
        runtime=Runtime(launch("cpu")),
    )
    return find_method("reweight-r")(problem)


def test_the_first_revision_epoch_has_the_released_loss_of_that_epochs_order(blobs, monkeypatch):
    """One batch, Delta T still zero: the losses agree, but the step that follows is far longer."""
    seen = []
    released = losses.released_revision_nll

    def spy(logits, labels, initial, delta, **options):
        seen.append((logits.detach(), labels, initial, delta.detach()))
        return released(logits, labels, initial, delta, **options)

    monkeypatch.setattr(losses, "released_revision_nll", spy)
    learned, paper = learn(blobs, revision_loss="released"), learn(blobs, revision_loss="eq3")
    assert learned.history[-1]["train_loss"] == pytest.approx(paper.history[-1]["train_loss"], rel=1e-5)
    logits, labels, initial, delta = seen[0]
    assert torch.equal(delta, torch.zeros(4, 4))
    # The matrix after the epoch is where the gradient of the loop sends it.
    free = torch.zeros(4, 4, requires_grad=True)
    places = torch.arange(1, 1081)
    g = logits.softmax(dim=1)
    rows = torch.stack([(initial + n * free)[:, y] for n, y in zip(places, labels, strict=True)])
    mine = g.gather(1, labels[:, None]).squeeze(1)
    loss = (mine / (rows * g).sum(dim=1) * -mine.log()).mean()
    (gradient,) = torch.autograd.grad(loss, free)
    sums = (initial - 1e-7 * gradient).sum(dim=1)
    assert learned.history[-1]["transition_row_sums"] == pytest.approx(
        [sums.min().item(), sums.max().item()], abs=1e-6
    )
    moved = np.abs(np.array(learned.history[-1]["transition_row_sums"]) - 1)
    assert moved.max() > 50 * np.abs(np.array(paper.history[-1]["transition_row_sums"]) - 1).max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"revision_loss": "eq4"}, "revision_loss must be one of eq3, released, got 'eq4'"),
        ({"revision_loss": "released", "revision": "simplex"}, "must go with revision slack.*got simplex"),
        ({"revision_loss": "released"}, "must go with revision slack.*got simplex"),
        (
            {"revision_loss": "released", "revision": "slack", "reweight_gradient": "detached"},
            "reweight_gradient live, got detached",
        ),
    ],
)
def test_choices_that_contradict_the_released_loss_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SCHEDULE.with_options(Options(**options))


@pytest.mark.parametrize("method", ["forward-r", "reweight", "standard"])
def test_the_released_loss_is_refused_for_other_methods(method):
    with pytest.raises(
        ValueError, match=f"revision_loss is a choice of auto, reweight-r, got method {method}"
    ):
        check_options(Options(revision_loss="released"), method)


def test_the_command_takes_the_option_and_refuses_it_with_one_line(blobs_file, tmp_path, capsys):
    arguments = ["fit", str(blobs_file), "--noise", "pair-30", "--revision-loss", "released"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--method", "forward-r", "--out", str(tmp_path / "a")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit):
        main([*arguments, "--out", str(tmp_path / "b")])  # the quick schedule revises on the simplex
    assert "revision slack" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    main([*arguments, "--revision", "slack", "--lr-transition", "1e-6", "--out", str(tmp_path / "c")])
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    assert config["options"]["revision_loss"] == "released"
