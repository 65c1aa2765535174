"""What the page is made of, and what apply makes of its corrections, without a browser."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from trevision.cli import main
from trevision.data.files.reading import Reading
from trevision.data.pictures import read_pictures
from trevision.data.row_labels import RowLabels
from trevision.files import DataError
from trevision.report.curves import draw_curves, nice_ticks
from trevision.report.matrices import draw_matrix
from trevision.report.page import write_report
from trevision.report.run_files import read_run
from trevision.report.source_rows import thumbnails
from trevision.report.summary import class_pairs, trust
from trevision.runs.settings import Settings


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def status_2(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a command ends with."""
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert len(written.strip().splitlines()) == 1
    return written


def test_thumbnails_show_the_pixels_of_their_rows(picture_run, tmp_path):
    folder, issues = picture_run()
    pictures = data_of(write_report(folder).path)["pictures"]
    with np.load(tmp_path / "pictures.npz") as source:
        x = source["x"]
    for place in (0, 17, 39):
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(pictures["encoded"][place]))))
        np.testing.assert_array_equal(shown, np.rint(x[issues[place]["row"]] * (255 / 16)))


def test_colour_pictures_are_made_small_and_rows_are_found_by_their_number(tmp_path):
    x = np.zeros((5, 3, 200, 100), dtype=np.uint8)
    x[3, 0] = 255
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(5) % 2)
    pictures = thumbnails(read_pictures(tmp_path / "x.npz", Reading(), x.shape[1:], [3, 0]), x.shape[1:])
    red, black = (Image.open(io.BytesIO(base64.b64decode(encoded))) for encoded in pictures.encoded)
    assert red.size == (32, 64)
    assert red.getpixel((16, 32))[0] > 250
    assert max(black.getpixel((16, 32))) < 5


def test_positions_are_those_of_a_search_row_by_row():
    numbers = np.random.default_rng(0).permutation(50)[:30]
    labels = RowLabels(numbers, np.zeros(30, dtype=int), ("a", "b"))
    listed = numbers.tolist()
    expected = [listed.index(row) if row in listed else -1 for row in range(60)]
    assert labels.positions(list(range(60))).tolist() == expected


def test_only_the_images_asked_for_are_decoded_and_a_row_beyond_them_is_an_error(tmp_path):
    for name, grey in (("a/1", 10), ("a/2", 200), ("b/1", 90)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (8, 8), grey).save(tmp_path / f"{name}.png")
    (tmp_path / "b" / "2.png").write_bytes(b"damaged")
    pictures = read_pictures(tmp_path, Reading(), (1, 8, 8), [2, 0])
    assert [int(image.min()) for image in pictures.images] == [90, 10]
    assert (pictures.black, pictures.white) == (0, 90)
    with pytest.raises(DataError, match="cannot be decoded"):
        read_pictures(tmp_path, Reading(), (1, 8, 8), [3])
    with pytest.raises(DataError, match="row 4 of the suspect labels is not in"):
        read_pictures(tmp_path, Reading(), (1, 8, 8), [4])


def test_fields_of_a_table_are_those_of_the_source_row(table_run):
    folder, issues = table_run()
    fields = data_of(write_report(folder).path)["fields"]
    first = dict(zip(fields["columns"], fields["rows"][0], strict=True))
    row = issues[0]["row"]
    assert first["age"] == str(row % 90)
    assert first["remark"] == f"plain {row}"


def test_likely_suspects_are_listed_and_a_number_lists_more_or_fewer(table_run):
    folder, issues = table_run(suspects=40)
    listed = data_of(write_report(folder).path)["suspects"]["row"]
    assert listed == [one["row"] for one in issues if one["suspect"]]
    assert len(data_of(write_report(folder, suspects=42).path)["suspects"]["row"]) == 42
    nothing = write_report(folder, suspects=0).path.read_text()
    assert "No label is suspicious enough" in nothing


def test_the_largest_page_stays_under_three_megabytes(table_run):
    classes = [f"a class with a name, number {place}" for place in range(150)]
    folder, _ = table_run(classes, rows=12_000, suspects=10_000, remark="wordy " * 30)
    written = write_report(folder)
    assert written.path.stat().st_size < 3_000_000
    text = written.path.read_text()
    assert "100 classes of 150" in text
    assert "suspect labels of 10,000" in text
    assert re.search(r"fields are shown for the first \d,\d+, so that", text)
    assert 3000 < written.listed < 10_000
    assert write_report(folder, suspects=10_500).listed == 10_500


def test_nothing_in_the_data_can_end_its_script_and_the_policy_lets_in_hashes_only(table_run):
    folder, _ = table_run(("</script><b>", "\u2028", "&"), remark="<!--")
    text = write_report(folder).path.read_text(encoding="utf-8")
    data = re.search(r'id="data">(.*)</script>', text)
    assert data is not None
    assert not set("<>&\u2028") & set(data[1])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "http" not in policy[1]


def test_class_pairs_are_those_of_a_loop_largest_first(table_run):
    run = read_run(table_run()[0])
    names, noise = run.noise.classes, run.noise
    expected = []
    for i, clean in enumerate(names):
        for j, label in enumerate(names):
            if i != j and noise.joint[i, j] >= 0.5:
                listed = sum(one.suggested == clean and one.given == label for one in run.suspects)
                expected.append((noise.joint[i, j], clean, label, noise.low[i, j], noise.high[i, j], listed))
    found = class_pairs(noise, run.suspects)
    assert [(p.rows, p.clean, p.given, p.low, p.high, p.listed) for p in found] == sorted(expected)[::-1]


def test_a_page_without_intervals_tells_the_estimates_and_promises_no_intervals(table_run):
    folder, _ = table_run()
    with_intervals = write_report(folder).path.read_text(encoding="utf-8")
    noise = json.loads((folder / "noise.json").read_text(encoding="utf-8"))
    noise |= {"low": None, "high": None, "wrong": noise["wrong"] | {"low": None, "high": None}}
    (folder / "noise.json").write_text(json.dumps(noise), encoding="utf-8")
    written = write_report(folder).path
    page = written.read_text(encoding="utf-8")
    assert "90% interval" in with_intervals
    assert "90% interval" not in page
    assert 'class="interval"' not in page
    assert "no interval was made" in page
    assert f"About {noise['wrong']['estimate']:,.0f} of 400 labels" in page
    matrix = data_of(written)["matrix"]
    assert (matrix["low"], matrix["high"]) == (None, None)


def test_trust_follows_the_worst_verdict(table_run):
    noise = read_run(table_run()[0]).noise
    good, caution = noise.findings
    bad = replace(good, verdict="bad")
    assert "all of its 1 checks" not in trust(noise)
    assert "can be relied on" in trust(replace(noise, findings=(good, good)))
    assert "1 of its 2 checks calls for caution" in trust(noise)
    assert "should not be relied on: 1 of its 3" in trust(replace(noise, findings=(good, caution, bad)))


def test_a_colour_stands_for_the_same_share_in_every_page_and_stays_within_its_range(table_run):
    noise = read_run(table_run()[0]).noise
    transition = np.eye(4)
    transition[0] = 0.962, 0.038, 0, 0
    transition[1] = 0.3, 0.1, 0.6, 0
    transition[2] = -0.2, 0, 1.2, 0
    cells = draw_matrix(replace(noise, transition=transition)).cells
    assert [cell.style for cell in cells[0]] == ["right-10", "wrong-1", "wrong-0", "wrong-0"]
    assert [cell.style for cell in cells[1]] == ["wrong-6", "right-1", "wrong-10", "wrong-0"]
    assert [cell.style for cell in cells[2]] == ["wrong-0", "wrong-0", "right-10", "wrong-0"]
    assert [cell.percent for cell in cells[0]] == ["96", "4", "0", "0"]


@example([5e-324])
@example([1e-13, -1e-13])
@example([0.25])
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_ticks_span_all_values_evenly(values):
    ticks = nice_ticks(values)
    assert 2 <= len(ticks) <= 7
    # What is less than a pixel beyond the last tick is not beyond it.
    pixel = 1e-6 * (ticks[1] - ticks[0]) + 1e-9
    assert ticks[0] <= min(values) + pixel
    assert ticks[-1] >= max(values) - pixel
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-6)


def test_a_curve_breaks_between_stages_marks_the_chosen_epoch_and_leaves_out_nan():
    history = [
        {"stage": stage, "epoch": epoch, "train_loss": loss, "noisy_validation_error": 0.5}
        for stage, epoch, loss in (("a", 1, 4.0), ("a", 2, 3.0), ("b", 1, float("nan")), ("b", 2, 0.0))
    ]
    error, loss = draw_curves(history, ("b", 2))
    assert [len(line.split()) for line in loss.lines] == [2, 1]
    # The axis goes from 0 at the bottom, y = 164, to 4 at the top, y = 14; across from x = 46 to 350.
    assert loss.lines[0].split()[0] == "46.0,14.0"
    assert loss.chosen == (350.0, 164.0)
    before_revision = {"stage": "c", "epoch": 0, "noisy_validation_error": 0.5}
    assert [tick.text for tick in error.across] == ["1", "2", "4"]
    longer = draw_curves([*history, before_revision], ("b", 2))[0]
    assert [tick.text for tick in longer.across] == ["1", "3", "4"]


def test_a_missing_file_names_the_command_that_writes_it(table_run, capsys, tmp_path):
    folder, _ = table_run()
    page = tmp_path / "page.html"
    for name in ("issues.parquet", "noise.json"):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(ValueError, match=r"run `trevision issues .*` first"):
            write_report(folder, page)
        (folder / name).write_bytes(content[: len(content) // 2])
        assert f"{folder / name}" in status_2(capsys, "report", folder, "--out", page)
        (folder / name).write_bytes(content)
    (folder / "result.json").unlink()
    assert "finished run" in status_2(capsys, "report", folder, "--out", page)
    assert "config.json" in status_2(capsys, "report", tmp_path / "nowhere", "--out", page)
    assert "suspects must be" in status_2(capsys, "report", folder, "--suspects", -1)
    assert not page.exists()


HEADER = ["row", "name", "given", "corrected", "decision"]


def write_csv(path: Path, *lines: list[object]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return path


def test_apply_changes_the_corrected_labels_and_nothing_else(table_run, tmp_path, capsys):
    folder, issues = table_run(remark='say "hi",\nthere')
    first, second, third = issues[:3]
    corrections = write_csv(
        tmp_path / "corrections.csv",
        HEADER,
        [first["row"], first["name"], first["given"], first["suggested"], "accept"],
        [second["row"], second["name"], second["given"], second["given"], "keep"],
    )
    cleaned = str(tmp_path / "cleaned.csv")
    main(["apply", str(folder), str(corrections), "--no-trust", "--out", cleaned])
    said = capsys.readouterr().out
    assert "1 label changed (2 reviewed)" in said
    assert f"next: trevision fit {cleaned} --" in said
    assert "--label-column label --name-column id --model network --out" in said

    def read(name: str) -> list[list[str]]:
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    expected = read("table.csv")
    expected[1 + first["row"]][3] = first["suggested"]
    assert expected[1 + third["row"]][3] == third["given"]
    assert read("cleaned.csv") == expected
    main(["apply", str(folder), str(corrections), "--out", str(tmp_path / "trusted.csv")])
    decided = {first["row"], second["row"]}
    told = ["checked", *("yes" if row in decided else "no" for row in range(len(expected) - 1))]
    assert read("trusted.csv") == [[*line, said] for line, said in zip(expected, told, strict=True)]


def test_apply_refuses_what_does_not_fit_in_one_line_and_writes_nothing(table_run, tmp_path, capsys):
    folder, issues = table_run()
    one = issues[0]
    right = [one["row"], one["name"], one["given"], one["suggested"], "accept"]
    cases: list[tuple[list[list[object]], str]] = [
        ([HEADER, [400, *right[1:]]], "line 2: row 400 is not among the 400 rows"),
        ([HEADER, ["-1", *right[1:]]], "line 2: row must be a row's number"),
        ([HEADER, [*right[:2], one["suggested"], *right[3:]]], f"now says {one['given']!r}"),
        ([HEADER, [*right[:3], "gnu", "change"]], "line 2: 'gnu' is not one of the 4 classes"),
        ([HEADER, right, right], f"line 3: row {one['row']} was decided before, in line 2"),
        ([HEADER[:3], right[:3]], "must have the columns row,name,given,corrected,decision"),
        (
            [HEADER, [*right[:4], "corrected"]],
            "accept, keep, change, got 'corrected'",
        ),
        ([[";".join(HEADER)]], "save it with commas"),
        ([], "got none"),
        ([HEADER, right[:4]], "line 2: must have 5 fields, got 4"),
    ]
    out = tmp_path / "out" / "cleaned.csv"
    for lines, says in cases:
        corrections = write_csv(tmp_path / "corrections.csv", *lines)
        assert says in status_2(capsys, "apply", folder, corrections, "--out", out)
    (tmp_path / "latin.csv").write_bytes(",".join(HEADER).encode() + b"\n1,\xe9,a,b,keep\n")
    assert "UTF-8" in status_2(capsys, "apply", folder, tmp_path / "latin.csv", "--out", out)
    assert "does not exist" in status_2(capsys, "apply", folder, tmp_path / "no.csv", "--out", out)
    assert not out.parent.exists()


def test_apply_refuses_a_run_whose_noise_was_made_up(picture_run, tmp_path, capsys):
    folder, _ = picture_run(settings=Settings(noise="sym-20"))
    assert "for practice" in write_report(folder).path.read_text()
    corrections = write_csv(tmp_path / "corrections.csv", HEADER)
    out = tmp_path / "cleaned.npz"
    assert "--noise sym-20" in status_2(capsys, "apply", folder, corrections, "--out", out)
    assert not out.exists()
