"""What the page shows beside a suspect: telling words, unusual fields, similar rows."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from trevision.cli.outcome import wrong_labels
from trevision.data.files.reading import Reading
from trevision.estimation import AS_RANGE
from trevision.report.differences import FieldDifferences
from trevision.report.evidence import gather
from trevision.report.page import list_suspects, write_report
from trevision.report.posterior import RowPosterior, nearest
from trevision.report.run_files import read_run
from trevision.report.source_rows import as_written
from trevision.report.words import Words
from trevision.runs.run_folder import RunFolder
from trevision.runs.settings import Settings

HAM, SPAM = 0, 1


def page_data(page: Path) -> dict:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def texts_of(rng: np.random.Generator, rows: int) -> tuple[list[str], np.ndarray]:
    """Texts of which spam has `free` and `win`, ham `dinner`, and all have other words."""
    codes = rng.integers(2, size=rows)
    own = {HAM: ["dinner", "home"], SPAM: ["free", "win"]}
    texts = [
        " ".join([*rng.choice(["the", "of", "we", "it"], 3), *rng.choice(own[code], 1), f"word{row}"])
        for row, code in enumerate(codes)
    ]
    return texts, codes


def test_words_speak_for_a_class_by_the_log_odds_of_a_slow_count():
    texts, codes = texts_of(np.random.default_rng(0), 300)
    texts.append("Free dinner, win! FREE the the word3")
    words = Words(texts, np.append(codes, -1))
    speaking, against = words.speaking(300, SPAM, HAM)

    def clearness(word: str) -> float:
        has = [word in set(re.findall(r"[^\W_]+", text.lower())) for text in texts[:300]]
        counts = {c: sum(h and code == c for h, code in zip(has, codes, strict=True)) for c in (HAM, SPAM)}
        rows = Counter(codes.tolist())
        odds = {c: (counts[c] + 0.5, rows[c] + 0.5 - counts[c]) for c in (HAM, SPAM)}
        ratio = math.log(odds[SPAM][0] / odds[SPAM][1]) - math.log(odds[HAM][0] / odds[HAM][1])
        return ratio / math.sqrt(sum(1 / part for pair in odds.values() for part in pair))

    in_text = {"free", "dinner", "win", "the", "word3"}
    assert set(speaking) == {word for word in in_text if clearness(word) >= 2} == {"free", "win"}
    assert against == [word for word in in_text if clearness(word) <= -2] == ["dinner"]
    assert speaking == sorted(speaking, key=clearness, reverse=True)


def test_a_class_without_trusted_rows_has_no_words():
    assert Words(["a b", "a c", "b c"], np.array([0, 0, -1])).speaking(2, 1, 0) == ([], [])


def test_texts_alike_share_rare_words_and_never_none():
    texts = ["the zebra ran", "the zebra sat", "the dog ran fast", "a cat", "zebra", "a dog"]
    found = Words(texts, np.zeros(6, dtype=int)).alike(np.array([0, 3]), np.array([1, 2, 4]), 2)
    common = Counter(word for text in texts for word in text.split())

    def cosine(a: str, b: str) -> float:
        weight = {word: math.log(7 / (1 + times)) for word, times in common.items()}
        lengths = [math.sqrt(sum(weight[word] ** 2 for word in text.split())) for text in (a, b)]
        return sum(weight[word] ** 2 for word in set(a.split()) & set(b.split())) / math.prod(lengths)

    order = sorted(range(3), key=lambda place: -cosine(texts[0], texts[(1, 2, 4)[place]]))
    assert found == [order[:2], []]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_nearest_rows_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    points, pool = rng.normal(size=(7, 3)), rng.normal(size=(11, 3))
    expected = [sorted(range(11), key=lambda m: ((point - pool[m]) ** 2).sum())[:4] for point in points]
    assert nearest(points, pool, 4).tolist() == expected
    assert nearest(points, pool[:2], 4).shape == (7, 2)


def test_a_number_counts_its_distance_from_the_median_of_the_class():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(5, 2, 2000), rng.normal(50, 9, 2000)])
    codes = np.repeat([0, 1], 2000)
    column = FieldDifferences.of("size", [f"{one:.6f}" for one in [*values, 11.0]], np.append(codes, -1))
    assert column is not None
    row = np.array([4000])
    assert column.distances(row, 0) == pytest.approx(3, abs=0.25)  # (11 - 5) / 2
    assert column.distances(row, 1) == pytest.approx(39 / 9, abs=0.35)
    assert float(column.usual(1)) == pytest.approx(50, abs=1)


def test_a_category_counts_as_a_number_that_is_as_rare():
    texts = ["web"] * 90 + ["shop"] * 10 + ["shop", ""]
    column = FieldDifferences.of("where", texts, np.array([0] * 100 + [-1, -1]))
    assert column is not None
    rarity, missing = column.distances(np.array([100, 101]), 0)
    assert 2 * norm.sf(rarity) == pytest.approx(0.104, abs=0.001)
    assert missing > 2.5
    assert column.usual(0) == "web (90%)"


def test_texts_and_identifiers_are_not_compared():
    assert FieldDifferences.of("id", [f"c{row}" for row in range(50)], np.zeros(50, dtype=int)) is None


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0.30000000000000004", "0.3"),
        ("1234567.8900000001", "1234568"),
        ("-2.5000000000001e-7", "-2.5e-07"),
        ("12.50", "12.50"),
        ("20240501", "20240501"),
        ("2024-05-01 00:00:00", "2024-05-01"),
        ("2024-05-01 10:30:00", "2024-05-01 10:30:00"),
    ],
)
def test_numbers_and_dates_are_shown_as_a_person_would_write_them(written, shown):
    assert as_written(written) == shown


def with_probabilities(folder: Path, issues: list[dict], classes: tuple[str, ...], rows: int) -> np.ndarray:
    """Adds out-of-sample probabilities that say what the issues say."""
    probs = np.random.default_rng(0).dirichlet(np.ones(len(classes)), rows)
    for one in issues:
        probs[one["row"]] = 0.01
        probs[one["row"], classes.index(one["suggested"])] = 1 - 0.01 * (len(classes) - 1)
    np.savez(folder / "probabilities.npz", probs=probs, labels=np.zeros(rows, dtype=int),
             rows=np.arange(rows), folds=5)  # fmt: skip
    return probs


def test_no_listed_row_is_offered_the_label_that_it_has(table_run):
    folder, issues = table_run()
    probs = with_probabilities(folder, issues, ("cat", "dog", "eel", "fox"), 400)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "issues.parquet").to_pylist()
    for one in table:
        one["suggested"] = one["given"]  # the model agrees with all of them
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), folder / "issues.parquet")
    run = read_run(folder)
    listed = list_suspects(run, 44)
    assert len(listed) == 44
    for one in listed:
        others = {
            name: p for name, p in zip(run.noise.classes, probs[one.row], strict=True) if name != one.given
        }
        assert one.suggested == max(others, key=others.get)


def test_where_the_count_cannot_be_told_the_models_own_probability_is_shown(table_run):
    folder, issues = table_run()
    probs = with_probabilities(folder, issues, ("cat", "dog", "eel", "fox"), 400)
    noise = json.loads((folder / "noise.json").read_text())
    sentences = {"headline": "how many cannot be told", "reason": "no", "readings": "None."}
    noise["count"] = {"verdict": "cannot be told from the labels alone", **sentences}
    (folder / "noise.json").write_text(json.dumps(noise))
    page = write_report(folder).path
    data = page_data(page)["suspects"]
    expected = [probs[row, code] for row, code in zip(data["row"], data["suggested"], strict=True)]
    assert data["pSuggested"] == pytest.approx(expected, abs=1e-4)
    text = page.read_text(encoding="utf-8")
    assert '<h1 id="summary-title">How many cannot be told</h1>' in text
    assert "trevision audit" in text.split('id="review"')[0]


def test_similar_rows_are_no_suspects_and_carry_the_labels_they_have(table_run):
    folder, issues = table_run()
    with_probabilities(folder, issues, ("cat", "dog", "eel", "fox"), 400)
    run = read_run(folder)
    listed = list_suspects(run)
    alike = gather(run, listed).alike
    assert alike is not None
    unlisted = {one["row"]: one["given"] for one in issues if not one["suspect"]}
    assert len(alike.of) == len(listed)
    assert all(unlisted[row] == label for row, label in zip(alike.row, alike.given, strict=True))
    assert {place for of in alike.of for place in of} == set(range(len(alike.row)))


def test_a_posterior_says_which_rows_it_does_not_have():
    posterior = RowPosterior(np.array([7, 3]), np.array([[0.1, 0.9], [0.6, 0.4]]))
    assert posterior.of([3, 7]).tolist() == [[0.6, 0.4], [0.1, 0.9]]
    assert np.isnan(posterior.of([5])).all()


def test_texts_come_first_with_their_words_and_the_label_is_told_once(table_run, tmp_path):
    reading = Reading(label_column="label", name_column="id", text_column=("remark",))
    folder, issues = table_run(settings=Settings(reading=reading))
    fields = page_data(write_report(folder).path)["fields"]
    assert fields["columns"] == ["remark", "age"]
    assert fields["texts"] == 1
    assert all(order[0] == 0 for order in fields["order"])
    assert len(fields["words"]) == len(fields["rows"])
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        remarks = [line["remark"] for line in csv.DictReader(file)]
    assert fields["rows"][0][0] == remarks[issues[0]["row"]]


def test_a_count_told_as_a_range_says_why_and_what_narrows_it_on_the_page_and_in_the_terminal(table_run):
    folder, _ = table_run()
    noise = json.loads((folder / "noise.json").read_text())
    ends = "between about 450 and 1,300 of 3,000 labels are wrong (90% interval)"
    sentences = {"headline": ends, "reason": "hard rows look like wrong labels", "readings": "About 800."}
    noise["count"] = {"verdict": AS_RANGE, **sentences}
    (folder / "noise.json").write_text(json.dumps(noise))
    text = write_report(folder).path.read_text(encoding="utf-8")
    assert f'<h1 id="summary-title">B{ends[1:]}</h1>' in text
    assert "Hard rows look like wrong labels." in text
    assert "An audit of about 100 rows narrows it" in text
    said = list(wrong_labels(RunFolder(folder)))
    assert said[0] == f"B{ends[1:]}: hard rows look like wrong labels."
    assert said[1].startswith("To narrow it, look at 100 rows: trevision audit ")
