"""`NoisyLabelClassifier`: scikit-learn's contract, any model, any rows, and that it does what it is for."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from trevision import NoisyLabelClassifier, noise
from trevision.estimation import transition_error
from trevision.refit.registry import CORRECTIONS


# Three folds instead of five: the checks are hundreds of fits about the interface. Most are of labels that
# have nothing to do with the rows, or of a handful of rows: doubts about T are right there.
@pytest.mark.filterwarnings("ignore::trevision.TransitionWarning")
@parametrize_with_checks([NoisyLabelClassifier(LogisticRegression(), cv=3)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def pairs():
    """Three overlapping classes, 40% of each labelled as the next: x, noisy, test x and clean labels, T."""
    rng = np.random.default_rng(3)
    clean = rng.integers(3, size=1800)
    x = 2.5 * np.eye(3)[clean] + rng.normal(size=(1800, 3))
    transition = noise.pair_flip(3, 0.4)
    noisy = noise.corrupt(clean[:900], transition, rng)
    return x[:900], noisy, x[900:], clean[900:], transition


@pytest.fixture(scope="module")
def fitted(pairs):
    return NoisyLabelClassifier(LogisticRegression(), random_state=0).fit(pairs[0], pairs[1])


def test_under_pair_noise_t_is_recovered_and_accuracy_is_far_above_the_plain_model(pairs, fitted):
    x, noisy, test_x, test_y, transition = pairs
    assert transition_error(fitted.transition_matrix_, transition) < 0.15
    assert transition_error(fitted.transition_matrix_.T, transition) > 0.5
    plain = LogisticRegression().fit(x, noisy).score(test_x, test_y)
    assert fitted.score(test_x, test_y) > plain + 0.05
    assert fitted.correction_ != "none"
    assert fitted.noise_rate_ == pytest.approx(0.4, abs=0.06)


def test_the_reason_names_the_choice_and_its_gain(fitted):
    scores = fitted.correction_scores_
    assert set(CORRECTIONS) - {"confident"} <= set(scores)
    assert fitted.correction_reason_.startswith(fitted.correction_)
    assert f"{scores[fitted.correction_]['gain']:+.4f}" in fitted.correction_reason_
    assert [step["step"] for step in fitted.history_] == ["estimate T", "revise T", "choose"]


def test_clean_labels_are_left_alone_and_predictions_are_those_of_the_plain_model():
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=600)
    x = 2 * np.eye(3)[clean] + rng.normal(size=(600, 3))
    forest = RandomForestClassifier(30, random_state=0)
    model = NoisyLabelClassifier(forest, average=False, random_state=0).fit(x, clean)
    assert model.correction_ == "none"
    plain = clone(forest).fit(x, clean)
    assert np.array_equal(model.predict_proba(x), plain.predict_proba(x))
    assert np.array_equal(model.predict_noisy_proba(x), model.predict_proba(x))


def test_models_of_the_folds_have_half_the_say_where_labels_stay_as_they_are():
    rng = np.random.default_rng(0)
    clean = rng.integers(3, size=600)
    x = 2 * np.eye(3)[clean] + rng.normal(size=(600, 3))
    forest = RandomForestClassifier(30, random_state=0)
    model = NoisyLabelClassifier(forest, random_state=0).fit(x, clean)
    assert model.correction_ == "none"
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(x, clean)
    parts = [clone(forest).fit(x[rest], clean[rest]).predict_proba(x) for rest, _ in folds]
    expected = (clone(forest).fit(x, clean).predict_proba(x) + np.mean(parts, axis=0)) / 2
    assert np.allclose(model.predict_proba(x), expected, atol=1e-12)


def test_a_model_that_wants_every_row_predicts_alone():
    """Columns nearly as many as rows: least squares with a fifth of the rows less is much worse."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 60))
    clean = (x @ rng.normal(size=60) > 0).astype(int)
    linear = LogisticRegression(C=100, max_iter=1000)
    model = NoisyLabelClassifier(linear, random_state=0).fit(x, clean)
    assert model.correction_ == "none"
    assert model.fold_models_ == ()
    assert np.array_equal(model.predict_proba(x), clone(linear).fit(x, clean).predict_proba(x))


def test_models_of_the_folds_share_in_a_correction_and_t_is_the_same_without_them(pairs, fitted):
    alone = NoisyLabelClassifier(LogisticRegression(), average=False, random_state=0)
    alone.fit(pairs[0], pairs[1])
    assert alone.fold_models_ == ()
    assert len(fitted.fold_models_) == 5
    assert alone.correction_ == fitted.correction_ != "none"
    assert np.array_equal(alone.transition_matrix_, fitted.transition_matrix_)
    parts = [model.predict_proba(pairs[2]) for model in fitted.fold_models_]
    expected = (alone.predict_proba(pairs[2]) + np.mean(parts, axis=0)) / 2
    assert np.allclose(fitted.predict_proba(pairs[2]), expected, atol=1e-12)


def test_a_named_correction_is_one_model(pairs):
    model = NoisyLabelClassifier(LogisticRegression(), correction="soft", random_state=0)
    model.fit(pairs[0], pairs[1])
    assert np.array_equal(model.predict_proba(pairs[2]), model.estimator_.predict_proba(pairs[2]))


def test_heavy_noise_on_few_rows_that_leaves_the_likelihood_undecided_is_pruned_confidently():
    x, clean = load_breast_cancer(return_X_y=True)
    noisy = noise.corrupt(clean, noise.symmetric(2, 0.4), random_state=0)
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    model = NoisyLabelClassifier(scaled, average=False, random_state=0).fit(x[:398], noisy[:398])
    assert model.correction_ == "confident"
    assert "contradicts" in model.correction_reason_
    asked = NoisyLabelClassifier(scaled, correction="confident", random_state=0).fit(x[:398], noisy[:398])
    assert np.array_equal(model.predict_proba(x), asked.predict_proba(x))
    assert np.array_equal(model.transition_matrix_, asked.transition_matrix_)
    assert asked.initial_transition_matrix_ is asked.transition_matrix_


def test_confident_refuses_another_estimator_of_t(pairs):
    model = NoisyLabelClassifier(LogisticRegression(), correction="confident", transition_estimator="latent")
    with pytest.raises(ValueError, match="must be left out with the correction confident"):
        model.fit(pairs[0], pairs[1])


def test_noisy_probabilities_are_clean_ones_through_t(pairs, fitted):
    clean, noisy = fitted.predict_proba(pairs[2][:5]), fitted.predict_noisy_proba(pairs[2][:5])
    for row in range(5):
        expected = [sum(clean[row, i] * fitted.transition_matrix_[i, j] for i in range(3)) for j in range(3)]
        assert noisy[row] == pytest.approx(expected)


@pytest.mark.parametrize("correction", list(CORRECTIONS))
def test_a_weight_is_as_good_as_repeated_rows(pairs, correction):
    x, noisy = pairs[0][:300], pairs[1][:300]
    times = np.random.default_rng(0).integers(1, 4, size=300)
    folds = np.arange(300) % 5

    def probs(x, y, folds, weights=None):
        model = NoisyLabelClassifier(LogisticRegression(tol=1e-8), correction=correction, revise=False)
        return model.set_params(cv=PredefinedSplit(folds)).fit(x, y, weights).predict_proba(pairs[2])

    repeated = probs(np.repeat(x, times, axis=0), np.repeat(noisy, times), np.repeat(folds, times))
    # Pruning keeps whole rows, so that its count may split the copies of a row.
    tolerance = 0.02 if correction in ("prune", "confident") else 1e-3
    assert probs(x, noisy, folds, times) == pytest.approx(repeated, abs=tolerance)


def test_rows_without_weight_do_not_count(pairs):
    x, noisy = pairs[0][:300], pairs[1][:300]
    strange = np.concatenate([x, 50 + x[:40]]), np.concatenate([noisy, noisy[:40]])
    weights = np.repeat([1.0, 0.0], [300, 40])
    model = NoisyLabelClassifier(LogisticRegression(), correction="soft", revise=False, random_state=0)
    without = clone(model).fit(x, noisy).predict_proba(x)
    assert clone(model).fit(*strange, weights).predict_proba(x) == pytest.approx(without, abs=1e-6)


class OnlySparse(LogisticRegression):
    """Refuses rows that were made dense."""

    def fit(self, X, y, sample_weight=None):
        assert sparse.issparse(X)
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X):
        assert sparse.issparse(X)
        return super().predict_proba(X)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_rows_stay_sparse(pairs, form):
    model = NoisyLabelClassifier(OnlySparse(), random_state=0).fit(form(pairs[0]), pairs[1])
    dense = NoisyLabelClassifier(LogisticRegression(), random_state=0).fit(pairs[0], pairs[1])
    assert model.n_features_in_ == 3
    assert model.predict_proba(form(pairs[2])) == pytest.approx(dense.predict_proba(pairs[2]), abs=1e-3)


@pytest.mark.parametrize("container", [list, np.array, pd.Series])
def test_texts_go_through_a_pipeline_with_string_labels(container):
    rng = np.random.default_rng(0)
    clean = rng.integers(2, size=400)
    words = np.array([["good", "fine", "nice", "film"], ["bad", "poor", "dull", "film"]])
    texts = [" ".join(rng.choice(words[label], 5)) for label in clean]
    noisy = noise.corrupt(clean, [[0.7, 0.3], [0.1, 0.9]], rng)
    names = np.array(["praise", "blame"])
    model = NoisyLabelClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), random_state=0)
    model.fit(container(texts), names[noisy])
    assert model.classes_.tolist() == ["blame", "praise"]
    assert np.mean(model.predict(container(texts)) == names[clean]) > 0.97
    assert not hasattr(model, "n_features_in_")


def test_frames_keep_their_columns(pairs):
    frame = pd.DataFrame(pairs[0], columns=["a", "b", "c"])

    class OnlyFrames(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            assert list(X.columns) == ["a", "b", "c"]
            return super().fit(X, y, sample_weight)

    model = NoisyLabelClassifier(OnlyFrames(), random_state=0).fit(frame, pd.Series(pairs[1]))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_model_that_takes_no_weights_gets_rows_drawn_by_them(pairs):
    model = NoisyLabelClassifier(KNeighborsClassifier(15), correction="soft", random_state=0)
    plain = KNeighborsClassifier(15).fit(pairs[0], pairs[1]).score(pairs[2], pairs[3])
    assert model.fit(pairs[0], pairs[1]).score(pairs[2], pairs[3]) > plain + 0.05


def test_it_works_in_a_grid_search_and_around_one(pairs):
    x, noisy, test_x, test_y, _ = pairs
    outer = make_pipeline(StandardScaler(), NoisyLabelClassifier(LogisticRegression(), random_state=0))
    search = GridSearchCV(outer, {"noisylabelclassifier__estimator__C": [0.1, 1.0]}, cv=2).fit(x, noisy)
    assert search.score(test_x, test_y) > 0.8
    inner = GridSearchCV(LogisticRegression(class_weight="balanced"), {"C": [0.1, 1.0]}, cv=2)
    model = NoisyLabelClassifier(inner, correction="soft", revise=False, random_state=0).fit(x, noisy)
    assert model.score(test_x, test_y) > 0.8
    assert model.estimator_.best_params_["C"] in (0.1, 1.0)


CATBOOST = {"iterations": 20, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


@pytest.mark.parametrize(
    ("package", "name", "options"),
    [
        ("lightgbm", "LGBMClassifier", {"n_estimators": 20, "verbose": -1, "n_jobs": 1}),
        ("xgboost", "XGBClassifier", {"n_estimators": 20, "n_jobs": 1}),
        ("catboost", "CatBoostClassifier", CATBOOST),
    ],
)
def test_gradient_boosting_of_other_packages_gains(pairs, package, name, options):
    base = getattr(pytest.importorskip(package), name)(**options)
    x, noisy, test_x, test_y, _ = pairs
    names = np.array(["x", "y", "z"])
    plain = clone(base).fit(x, noisy).score(test_x, test_y)
    model = NoisyLabelClassifier(base, random_state=0).fit(x, names[noisy])
    assert model.score(test_x, names[test_y]) > plain + 0.05


def test_columns_of_words_reach_catboost_as_they_are(pairs):
    """CatBoost takes a frame whose columns of words are named when the model is made."""
    boosting = pytest.importorskip("catboost").CatBoostClassifier
    x, noisy, test_x, test_y, _ = pairs

    def frame(rows):
        sides = np.where(rows > 0.5, "high", "low")
        return pd.DataFrame(rows, columns=["a", "b", "c"]).assign(word=sides[:, 0], other=sides[:, 1])

    model = NoisyLabelClassifier(boosting(cat_features=["word", "other"], **CATBOOST), random_state=0)
    model.fit(frame(x), noisy)
    assert model.estimator_.get_cat_feature_indices() == [3, 4]
    plain = boosting(cat_features=["word", "other"], **CATBOOST).fit(frame(x), noisy)
    assert model.score(frame(test_x), test_y) > plain.score(frame(test_x), test_y) + 0.05


def test_texts_in_a_pipeline_are_never_a_dense_table():
    """4,000 texts of 20,000 words would be 640 MB; a small fit before it has loaded what is loaded once."""
    code = """
        import resource
        import numpy as np
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import SGDClassifier
        from sklearn.pipeline import make_pipeline
        from trevision import NoisyLabelClassifier

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        rng = np.random.default_rng(0)
        labels = rng.integers(2, size=4000)
        words = rng.integers(20_000, size=(4000, 30)) // 2 * 2 + (rng.random((4000, 30)) < 0.2)
        words = np.where(rng.random((4000, 30)) < 0.5, words, words // 2 * 2 + labels[:, None])
        texts = [" ".join(f"w{word}" for word in row) for row in words]
        model = NoisyLabelClassifier(
            make_pipeline(TfidfVectorizer(), SGDClassifier(loss="log_loss")), cv=3, random_state=0
        )
        model.fit(texts[:200], labels[:200])
        before = peak()
        model.fit(texts, labels).predict(texts)
        columns = len(model.estimator_[0].vocabulary_)
        print(4000 * columns * 8, peak() - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    dense, used = map(int, ran.stdout.split())
    assert dense > 500e6
    assert used < 0.3 * dense


def test_wrong_labels_come_first(pairs, fitted):
    issues = fitted.find_label_issues(bootstrap=0)
    assert len(issues.order) == 900
    assert issues.wrong[0] == pytest.approx(360, abs=60)


def test_the_same_seed_gives_the_same_bits(pairs):
    def probs(seed):
        model = NoisyLabelClassifier(LogisticRegression(), random_state=seed)
        return model.fit(pairs[0], pairs[1]).predict_proba(pairs[2])

    assert np.array_equal(probs(1), probs(1))
    assert not np.array_equal(probs(1), probs(2))


def test_a_class_with_fewer_rows_than_folds_reduces_them_and_says_so(pairs):
    labels = np.append(pairs[1][:200], [3, 3, 3])
    with pytest.warns(UserWarning, match="class 3 has 3 row"):
        model = NoisyLabelClassifier(LogisticRegression()).fit(pairs[0][:203], labels)
    assert "3 folds were used" in model.warnings_[0]
    with pytest.warns(UserWarning, match="class 3 has 1 row"):
        model = NoisyLabelClassifier(LogisticRegression()).fit(pairs[0][:201], labels[:201])
    assert model.correction_ == "none"
    assert "to compare takes 3 folds" in model.correction_reason_


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": LinearSVC()}, "estimator must have predict_proba, got LinearSVC"),
        ({"correction": "reweigth"}, "correction must be one of auto, .*; did you mean reweight"),
        ({"transition_estimator": "latnet"}, "did you mean latent"),
        ({"cv": 1}, "cv must be at least 2 folds, got 1"),
        ({"cv": "five"}, "cv must be a number of folds"),
    ],
)
def test_bad_parameters_are_named_at_fit(pairs, change, message):
    with pytest.raises(ValueError, match=message):
        NoisyLabelClassifier(LogisticRegression()).set_params(**change).fit(pairs[0], pairs[1])


def test_a_class_in_place_of_a_model_is_refused(pairs):
    with pytest.raises(TypeError, match=r"write LogisticRegression\(\)"):
        NoisyLabelClassifier(LogisticRegression).fit(pairs[0], pairs[1])


@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        (np.zeros((6, 2)), None, "at least two classes, got only 0"),
        (np.zeros((6, 2, 2)), None, r"\(n, annotators\) answers, got shape \(6, 2, 2\)"),
        (np.zeros(6), None, "at least two classes"),
        (np.arange(5) % 2, None, "one length, got 6 and 5"),
        (np.arange(6) % 2, [1, 1, -2, 1, 1, 1], "must not be negative, got -2 in row 2"),
        (np.arange(6) % 2, [1, 1], r"one number a row, \(6,\), got shape \(2,\)"),
        (np.arange(6) % 2, [0] * 6, "only zeros"),
        (np.arange(6) % 2, [1, np.nan, 1, 1, 1, 1], "finite"),
    ],
)
def test_bad_labels_and_weights_are_named(y, weights, message):
    with pytest.raises(ValueError, match=message):
        NoisyLabelClassifier(LogisticRegression()).fit(np.eye(6), y, weights)


def test_a_splitter_that_leaves_rows_out_is_refused(pairs):
    half = PredefinedSplit(np.where(np.arange(900) < 450, -1, 0))
    with pytest.raises(ValueError, match="hold out every row exactly once"):
        NoisyLabelClassifier(LogisticRegression(), cv=half).fit(pairs[0], pairs[1])


class NanProbabilities(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


def test_probabilities_that_are_none_are_refused(pairs):
    with pytest.raises(ValueError, match="must predict finite probabilities"):
        NoisyLabelClassifier(NanProbabilities()).fit(pairs[0], pairs[1])


def test_label_issues_are_told_in_the_labels_of_fit_and_revise_is_a_truth():
    rng = np.random.default_rng(0)
    clean = np.arange(120) % 2
    x = np.eye(2)[clean] + 0.2 * rng.normal(size=(120, 2))
    names = np.array(["cat", "dog"])[clean]
    names[0] = "dog"
    model = NoisyLabelClassifier(LogisticRegression(), correction="none", random_state=0).fit(x, names)
    first = model.find_label_issues(bootstrap=0).to_frame().iloc[0]
    assert (first["row"], first["given"], first["suggested"]) == (0, "dog", "cat")
    with pytest.raises(ValueError, match="revise must be True or False, got 'x'"):
        NoisyLabelClassifier(LogisticRegression(), revise="x").fit(x, names)
