"""Methods judged by what they are for: clean accuracy and T from noisy labels alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from trevision import TransitionWarning, TRevisionClassifier, losses, noise
from trevision.data.noisy import NoisyData, Truth, split
from trevision.estimation import ProbabilityRows, transition_error
from trevision.methods.options import Options
from trevision.methods.problem import Learned, Problem, network_seed
from trevision.methods.registry import METHODS, check_options, find_method
from trevision.methods.schedules import Schedule, schedule_for
from trevision.methods.stages import corrected_step, fit_noisy_posterior
from trevision.networks.choose import build
from trevision.networks.standardise import Standardise
from trevision.training.evaluate import measure_against, measure_nothing
from trevision.training.loop import Batch
from trevision.training.phase import Phase
from trevision.training.runtime import Runtime, launch

# Plain cross-entropy follows the noise here: 0.4 of class 0 and 0.3 of class 1 move to one other class.
SCHEDULE = replace(
    schedule_for("quick", "arrays", 1080, 4),
    noisy_posterior=Phase(6, lr=0.02, batch_size=32),
    classifier=Phase(8, lr=0.02, batch_size=32, decay="one-cycle"),
    revision=Phase(3, optimizer="adam", lr=1e-4, lr_transition=1e-3, batch_size=32),
    guarded=False,  # the guard is judged in test_guard.py
)


SELECTING = ("decoupling", "mentornet", "co-teaching")  # judged in test_baselines.py
CORRECTED = [name for name in METHODS if name not in ("standard", *SELECTING)]


def learn(blobs, method: str, seed: int = 0, schedule=SCHEDULE, **options) -> Learned:
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=seed)
    truth = Truth(blobs.transition, torch.from_numpy(blobs.test_x), torch.from_numpy(blobs.test_y))
    return find_method(method)(problem_of(data, schedule.with_options(Options(**options)), truth, seed))


def problem_of(data: NoisyData, schedule: Schedule, truth: Truth | None = None, seed: int = 0) -> Problem:
    return Problem(
        data=data,
        measure=measure_nothing if truth is None else measure_against(truth),
        make_network=lambda number=0: build("mlp", (8,), 4, network_seed(seed, number)),
        standardise=Standardise.from_data(data.train_x),
        schedule=schedule,
        seed=seed,
        runtime=Runtime(launch("cpu")),
    )


@pytest.fixture(scope="module")
def accuracies(blobs) -> dict[str, float]:
    return {
        method: float(np.mean([learn(blobs, method, seed).selected["test_accuracy"] for seed in range(3)]))
        for method in ("standard", *CORRECTED)
    }


@pytest.mark.parametrize("method", CORRECTED)
def test_corrected_methods_beat_plain_cross_entropy_under_asymmetric_noise(accuracies, method):
    assert accuracies[method] > accuracies["standard"] + 0.01, accuracies


def test_all_methods_share_one_budget_or_less_and_say_which_epoch_they_chose(blobs):
    for method in ("standard", *CORRECTED):
        if method in ("recursive", "auto", "unlabel"):
            continue  # rounds and comparisons take what they need; see their own tests
        learned = learn(blobs, method)
        # What trains a fresh network has stage 1 beside it, for T-hat alone.
        beside = "noisy-posterior" if method in ("gce", "sce") else None
        trained = [r for r in learned.history if "train_loss" in r and r["stage"] != beside]
        longest = SCHEDULE.epochs if method == "standard" or method.endswith("-r") else SCHEDULE.epochs - 3
        assert len(trained) == longest
        assert learned.selected in learned.history
        assert learned.stopped_because == "all epochs done"


def test_the_initial_transition_is_shared_by_methods_of_one_seed(blobs):
    matrices = [learn(blobs, method).initial_transition for method in ("forward", "reweight", "reweight-r")]
    assert np.array_equal(matrices[0], matrices[1])
    assert np.array_equal(matrices[0], matrices[2])
    assert transition_error(matrices[0], np.eye(4)) > 0.1  # it has seen the noise


def test_the_first_record_of_a_revision_is_the_state_it_starts_from(blobs):
    trained, revised = learn(blobs, "reweight"), learn(blobs, "reweight-r")
    start = next(record for record in revised.history if record["stage"] == "revision")
    assert start["epoch"] == 0
    assert start["test_accuracy"] == trained.selected["test_accuracy"]
    assert start["transition_error"] == pytest.approx(
        transition_error(trained.transition, blobs.transition), abs=1e-5
    )


def test_a_frozen_revision_leaves_t_where_it_was(blobs):
    learned = learn(blobs, "reweight-r", revision="frozen")
    assert np.allclose(learned.transition, learned.initial_transition, atol=1e-7)
    moved = learn(blobs, "reweight-r", revision="simplex", lr_transition=1e-2)
    errors = [r["transition_error"] for r in moved.history if r["stage"] == "revision"]
    assert len(set(errors)) == len(errors)  # and one that is not frozen moves in every epoch


@pytest.mark.parametrize("weight", ["live", "detached"])
def test_the_revision_learns_t_with_either_weight_and_they_differ(blobs, weight):
    how = {"revision": "slack", "lr_transition": 1e-4}
    learned = learn(blobs, "reweight-r", reweight_gradient=weight, **how)
    errors = [r["transition_error"] for r in learned.history if r["stage"] == "revision"]
    assert errors[0] != errors[-1]
    other = learn(blobs, "reweight-r", reweight_gradient="detached" if weight == "live" else "live", **how)
    assert other.history[-1]["train_loss"] != learned.history[-1]["train_loss"]


LONG_REVISION = replace(
    SCHEDULE, revision=Phase(12, optimizer="adam", lr=1e-5, lr_transition=1e-3, batch_size=16)
)


def test_slack_at_a_useful_rate_runs_away_and_the_run_says_so(blobs):
    with pytest.warns(TransitionWarning, match="ran away"):
        learned = learn(blobs, "reweight-r", schedule=LONG_REVISION, revision="slack")
    assert learned.transition_ran_away
    assert "ran away" in learned.warnings[0]
    last = learned.history[-1]
    assert last["transition_row_sums"][1] > 1.1
    assert last["transition_error"] > 1.5 * learned.history[0 - 13]["transition_error"]


@pytest.mark.parametrize("revision", ["simplex", "projected"])
def test_a_constrained_revision_does_not_run_away(blobs, revision):
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransitionWarning)
        learned = learn(blobs, "reweight-r", schedule=LONG_REVISION, revision=revision)
    assert not learned.transition_ran_away
    assert learned.warnings == []
    assert learned.history[-1]["transition_row_sums"] == pytest.approx([1, 1], abs=1e-4)


def test_published_rate_moves_t_by_no_more_than_rate_times_steps(blobs):
    tiny = replace(SCHEDULE, revision=Phase(3, optimizer="adam", lr=5e-7, batch_size=32))
    learned = learn(blobs, "reweight-r", schedule=tiny, revision="slack")
    steps = 3 * int(np.ceil(1080 / 32))
    # Adam's first steps are at most lr long, later ones a little more where gradients agree.
    assert np.abs(learned.transition - learned.initial_transition).max() <= 1.5 * 5e-7 * steps


def test_a_trusted_set_selects_by_its_own_error_and_leaves_t_to_the_noisy_labels(blobs):
    trusted_x, trusted_y = blobs.test_x[:200], blobs.test_y[:200]
    model = TRevisionClassifier(schedule=SCHEDULE, random_state=0)
    model.fit(blobs.x, blobs.noisy, clean_X=trusted_x, clean_y=trusted_y)
    assert transition_error(model.initial_transition_matrix_, blobs.transition) < 0.1
    last = [record for record in model.history_ if record["stage"] == "revision" and record["epoch"] > 0]
    chosen = min(last, key=lambda record: record["trusted_error"])
    wrong = np.mean(model.predict(trusted_x) != trusted_y)
    assert wrong == pytest.approx(chosen["trusted_error"])


def test_a_trusted_set_does_not_stop_stage_1_before_it_has_learnt_the_noise(blobs):
    data = split(torch.from_numpy(blobs.x), blobs.noisy, num_classes=4, random_state=0)
    # Wrong labels, so that by this set's error an epoch is the better the less was learnt.
    contrary = torch.from_numpy((blobs.test_y + 1) % 4)
    data = replace(data, trusted_x=torch.from_numpy(blobs.test_x), trusted_y=contrary)
    stage = fit_noisy_posterior(problem_of(data, SCHEDULE))
    best, least_learnt = (
        min(stage.history, key=lambda record: record[score])["epoch"]
        for score in ("noisy_validation_loss", "trusted_error")
    )
    assert stage.selected["epoch"] == best != least_learnt


@pytest.mark.parametrize("method", ["standard", "reweight-r"])
def test_rows_known_to_be_right_are_learnt_from_as_they_are(blobs, method):
    """Where all labels of a corner are wrong, only rows known to be right can tell what it is."""
    inside = blobs.x[:, 0] > np.quantile(blobs.x[:, 0], 0.8)
    noisy = np.where(inside, 3 - blobs.clean, blobs.noisy)
    in_test = blobs.test_x[:, 0] > np.quantile(blobs.x[:, 0], 0.8)
    known = np.flatnonzero(inside)[np.arange(inside.sum()) % 3 > 0]
    rest = np.setdiff1d(np.arange(len(noisy)), known)
    data = split(torch.from_numpy(blobs.x[rest]), noisy[rest], num_classes=4, random_state=0)
    rows = {"trusted_x": torch.from_numpy(blobs.x[known]), "trusted_y": torch.from_numpy(blobs.clean[known])}
    right = {}
    for learnt in (False, True):
        trusting = replace(data, trusted_is_learnt=learnt, **rows)
        model = find_method(method)(problem_of(trusting, SCHEDULE)).model
        predicted = model(torch.from_numpy(blobs.test_x[in_test]))[0].argmax(dim=1).numpy()
        right[learnt] = (predicted == blobs.test_y[in_test]).mean()
    assert right[True] > right[False] + 0.1


def test_the_corrected_loss_of_a_row_known_to_be_right_is_cross_entropy():
    matrix = torch.tensor([[0.7, 0.3], [0.4, 0.6]])
    logits, labels = torch.tensor([[0.5, -1.0], [0.2, 0.1], [-2.0, 1.0]]), torch.tensor([0, 1, 0])
    known = torch.tensor([False, True, False])

    def model(x):
        return logits, matrix

    batch = Batch(logits, labels, torch.arange(3), 0, known=known)
    one_by_one = [
        (losses.cross_entropy if known[row] else partial(losses.forward_nll, transition=matrix))(
            logits[row : row + 1], labels[row : row + 1]
        )
        for row in range(3)
    ]
    torch.testing.assert_close(corrected_step(losses.forward_nll)(model, batch), sum(one_by_one) / 3)


def test_a_bold_schedule_raises_the_rate_of_forward_alone_and_at_most_twice():
    strong, quick = (schedule_for(name, "mnist", 54_000, 10) for name in ("strong", "quick"))
    for noise_name, factor in (("sym-20", 1.0), ("pair-45", 1.0), ("sym-60", 1.25), ("sym-90", 2.0)):
        transition = noise.parse(noise_name, 10)
        phase = strong.classifier_through(transition, weighted=False)
        assert phase.lr == pytest.approx(factor * strong.classifier.lr)
        assert strong.classifier_through(transition, weighted=True).lr <= 0.05
        assert quick.classifier_through(transition, weighted=False) == quick.classifier


def test_a_gentle_schedule_lowers_the_rate_with_the_square_of_the_diagonal():
    quick = schedule_for("quick", "mnist", 54_000, 10)
    for diagonal, factor in ((0.8, 1.0), (0.5, 1.0), (0.25, 0.25), (0.2, 0.16)):
        initial = np.full((10, 10), (1 - diagonal) / 9)
        np.fill_diagonal(initial, diagonal)
        assert quick.classifier_through(initial, weighted=True).lr == pytest.approx(
            factor * quick.classifier.lr
        )
        paper = schedule_for("paper", "mnist", 54_000, 10)
        assert paper.classifier_through(initial, weighted=True) == paper.classifier


def test_the_paper_schedule_is_the_published_protocol():
    mnist = schedule_for("paper", "mnist", 54_000, 10)
    assert (mnist.noisy_posterior.epochs, mnist.classifier.epochs, mnist.revision.epochs) == (20, 100, 200)
    assert (mnist.classifier.lr, mnist.classifier.momentum, mnist.classifier.weight_decay) == (
        1e-2,
        0.9,
        1e-4,
    )
    assert mnist.classifier.milestones == (40, 80)
    assert (mnist.revision.optimizer, mnist.revision.lr, mnist.parameterisation) == ("adam", 5e-7, "slack")
    assert mnist.anchor_percentile == 97
    assert mnist.select_by == "error"
    cifar10, cifar100 = (schedule_for("paper", name, 45_000, 10) for name in ("cifar10", "cifar100"))
    assert (cifar10.classifier.epochs, cifar100.classifier.epochs) == (200, 200)
    assert (cifar100.noisy_posterior.epochs, cifar100.anchor_percentile) == (15, None)


@pytest.mark.parametrize("method", METHODS)
def test_a_schedule_without_epochs_leaves_the_network_as_it_was_made(blobs, method):
    none = Phase(0, batch_size=32)
    learned = learn(blobs, method, schedule=Schedule(none, none, none, folds=2))
    assert np.isfinite(learned.transition).all()
    if method not in ("decoupling", "co-teaching"):  # which have two networks
        made = build("mlp", (8,), 4, network_seed(0, 0)).state_dict()
        found = learned.model.network.state_dict()
        assert all(torch.equal(found[name], value) for name, value in made.items())


def test_anchor_points_of_many_classes_are_rows_of_their_class():
    """With 50 equal classes the 97th percentile of a posterior is a row of another class."""
    labels = torch.arange(1000) % 50
    data = split(torch.zeros(1000, 1), labels.numpy(), num_classes=50, random_state=0)
    probs = 0.8 * np.eye(50)[labels] + 0.004
    phase = Phase(1)
    anchored = replace(schedule_for("paper", "my.npz", 1000, 50), estimator="anchor")
    for schedule in (Schedule(phase, phase, phase), anchored):
        solution = problem_of(data, schedule).estimator.solve(ProbabilityRows(probs, labels.numpy()))
        assert np.diag(solution.transition).min() == pytest.approx(0.804)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"revision": "slak"}, "revision must be one of"),
        ({"reweight_gradient": "dead"}, "reweight_gradient must be one of live, detached"),
        ({"lr_transition": -1.0}, "lr_transition must be a learning rate"),
        ({"lr_revision": float("nan")}, "lr_revision must be a learning rate"),
    ],
)
def test_options_name_the_rule_that_was_broken(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options).check()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("forward", {"revision": "simplex"}),
        ("forward-r", {"reweight_gradient": "live"}),
        ("reweight", {"lr_transition": 1e-3}),
        ("co-teaching", {"mentor": "learned"}),
        ("reweight-r", {"noise_rate": 0.4}),
    ],
)
def test_a_choice_that_the_method_would_ignore_is_refused(method, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is a choice of .* got method {method}"):
        check_options(Options(**options), method)


def test_an_unknown_method_is_answered_with_the_names_and_the_nearest():
    with pytest.raises(ValueError, match=r"standard, .*forward-r, reweight-r.*did you mean reweight-r"):
        find_method("reweight_r")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"revision_loss": "release"}, "revision_loss must be one of eq3, released, got 'release'"),
        ({"parameterisation": "softmax"}, "parameterisation must be one of"),
        ({"select_by": "accuracy"}, "select_by must be one of error, loss, last, got 'accuracy'"),
        ({"estimator": "anchors"}, "estimator must be one of"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"classifier": Phase(3, optimizer="adamw")}, "optimizer must be one of sgd, adam"),
        ({"select_by": "last", "classifier": Phase(3, patience=1)}, "patience must be left out"),
    ],
)
def test_a_schedule_with_a_word_that_means_nothing_is_refused(how, says):
    with pytest.raises(ValueError, match=says):
        replace(SCHEDULE, **how).with_options(Options())


def test_a_rate_for_a_t_that_does_not_move_is_refused():
    with pytest.raises(ValueError, match="lr_transition must be left out for revision frozen"):
        SCHEDULE.with_options(Options(revision="frozen", lr_transition=0.5))


def test_a_run_away_is_told_of_beyond_a_tenth_and_not_below(blobs):
    furthest = []
    for rate in (2e-5, 2e-4):
        revision = replace(LONG_REVISION.revision, lr_transition=rate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TransitionWarning)
            learned = learn(
                blobs, "reweight-r", schedule=replace(LONG_REVISION, revision=revision), revision="slack"
            )
        sums = [s for record in learned.history for s in record.get("transition_row_sums", ())]
        furthest.append(max(abs(s - 1) for s in sums))
        assert learned.transition_ran_away == (furthest[-1] > 0.1)
    assert furthest[0] < 0.1 < furthest[1] < 0.5


def test_colour_networks_have_schedules_of_their_own_and_other_networks_keep_theirs():
    quick, strong = (
        schedule_for(name, "cifar10", 45_000, 10, net)
        for name, net in {"quick": "narrow", "strong": "wide"}.items()
    )
    assert (quick.estimator, strong.estimator) == ("latent", "latent")
    assert quick == strong  # they differ in the network alone
    assert quick.guarded
    assert quick.classifier.augmentation == "shift-flip"
    assert schedule_for("quick", "photos", 3000, 10, "narrow").classifier.augmentation == "shift"
    for name in ("quick", "strong", "paper"):
        assert schedule_for(name, "cifar10", 18_000, 10, "resnet8") == schedule_for(
            name, "cifar10", 18_000, 10
        )
    assert schedule_for("paper", "cifar10", 45_000, 10, "wide") == schedule_for(
        "paper", "cifar10", 45_000, 10
    )
    # Few rows: smaller batches at a rate in proportion, and more epochs.
    few = schedule_for("quick", "photos", 2700, 10, "narrow").classifier
    assert few.lr / few.batch_size == quick.classifier.lr / quick.classifier.batch_size
    assert few.epochs * 2700 / few.batch_size >= 800
