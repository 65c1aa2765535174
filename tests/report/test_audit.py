"""The audit of a run: plan, page, answers, estimate, and what the next fit makes of them."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from trevision.cli import main
from trevision.report.page import write_report
from trevision.runs.audit_files import plan_audit, read_audited
from trevision.runs.run_folder import RunFolder

CLASSES = ("cat", "dog", "eel", "fox")


def status_2(capsys, *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def answered(folder: Path, path: Path, rows: int = 20, unsure: int = 0) -> list[list[str]]:
    """Answers to the plan of a run: each third label is wrong, and the last `unsure` cannot be told."""
    audit = plan_audit(RunFolder(folder), rows)
    lines = [["plan", "row", "name", "given", "answer", "told"]]
    for place, row in enumerate(audit.plan.rows):
        code = int(audit.plan.given[row])
        answer = audit.classes[(code + 1) % len(audit.classes) if place % 3 == 0 else code]
        told = place < len(audit.plan.rows) - unsure
        number = str(audit.row_numbers[row])
        lines.append([audit.name, number, audit.names[row], audit.classes[code], answer * told,
                      "yes" if told else "no"])  # fmt: skip
    write(path, lines)
    return lines


def write(path: Path, lines: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def test_the_same_command_keeps_the_plan_and_more_rows_continue_it(table_run, capsys):
    folder, _ = table_run(rows=2000, suspects=400)
    main(["audit", str(folder), "--rows", "20", "--seed", "4"])
    first = plan_audit(RunFolder(folder))
    before = (folder / "audit-plan.parquet").read_bytes()
    main(["audit", str(folder)])
    assert (folder / "audit-plan.parquet").read_bytes() == before
    main(["audit", str(folder), "--rows", "35"])
    longer = plan_audit(RunFolder(folder))
    assert longer.plan.rows[:20].tolist() == first.plan.rows.tolist()
    assert longer.name == first.name
    assert "seed 4" in status_2(capsys, "audit", folder, "--seed", "5")
    assert "more than the 35" in status_2(capsys, "audit", folder, "--rows", "30")


def test_the_page_does_not_tell_the_given_label_before_the_answer(table_run):
    folder, _ = table_run(rows=2000, suspects=400)
    main(["audit", str(folder), "--rows", "20"])
    text = (folder / "audit.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["fields"]["columns"] == ["age", "remark"]
    assert len(data["row"]) == 20


def test_the_estimate_is_printed_and_written_with_what_it_supposes(table_run, tmp_path, capsys):
    folder, _ = table_run(rows=2000, suspects=400)
    answered(folder, tmp_path / "audit.csv", 30, unsure=2)
    main(["audit", str(folder), str(tmp_path / "audit.csv"), "--until", "50%"])
    said = capsys.readouterr().out
    told = json.loads((folder / "audit.json").read_text())
    assert told["audited"] == 30
    assert told["found"] == 10
    assert told["cannot_tell"] == 2
    assert told["wrong"]["low"] < told["wrong"]["estimate"] < told["wrong"]["high"] <= 440
    assert f"{told['wrong']['estimate']:,.0f} of 440 labels are wrong" in said
    assert "whatever the noise is" in said
    assert "you can stop" in said
    assert np.allclose(np.sum(told["transition"], axis=1), 1)


def test_answers_that_do_not_fit_end_in_one_line_and_write_nothing(table_run, tmp_path, capsys):
    folder, _ = table_run(rows=2000, suspects=400)
    path = tmp_path / "audit.csv"
    lines = answered(folder, path)
    head, first, *rest = lines

    def changed(**fields: str) -> list[list[str]]:
        return [head, [fields.get(name, value) for name, value in zip(head, first, strict=True)], *rest]

    cases = [
        (changed(row="999999"), "not among the 20 rows"),
        (changed(row="-1"), "row must be"),
        (changed(answer="cta"), "did you mean 'cat'?"),
        (changed(given="zebra"), "is labelled"),
        (changed(plan="0123"), "another run"),
        (changed(told="maybe"), "yes or no"),
        (changed(told="no"), "must be empty"),
        ([*lines, first], "answered before"),
        ([head, *rest], "lacks 1 of the 20 rows"),
        (lines[:-3], "--rows 17"),
        ([head[:-1], *[line[:-1] for line in lines[1:]]], "must have the columns"),
        ([head, first[:-1], *rest], "must have 6 fields"),
    ]
    for case, says in cases:
        write(path, case)
        assert says in status_2(capsys, "audit", folder, path)
        assert not (folder / "audit.json").exists()
    write(path, lines[:-3])
    main(["audit", str(folder), str(path), "--rows", "17"])
    assert read_audited(folder).audited == 17
    assert "until must be" in status_2(capsys, "audit", folder, path, "--until", "2 percent")
    assert "does not exist" in status_2(capsys, "audit", folder, tmp_path / "no.csv")
    assert "rows must lie in" in status_2(capsys, "audit", folder, path, "--rows", "5")


def test_a_run_without_a_plan_says_what_to_do(table_run, tmp_path, capsys):
    folder, _ = table_run()
    write(tmp_path / "audit.csv", [["plan"]])
    assert f"trevision audit {folder}" in status_2(capsys, "audit", folder, tmp_path / "audit.csv")
    assert "rows must lie in [10, 44]" in status_2(capsys, "audit", folder, "--rows", "45")


def test_audited_rows_are_no_suspects_and_the_report_shows_the_audited_number(table_run, tmp_path):
    folder, issues = table_run(rows=2000, suspects=400)
    before = write_report(folder).listed
    lines = answered(folder, tmp_path / "audit.csv", 30)
    main(["audit", str(folder), str(tmp_path / "audit.csv")])
    written = write_report(folder)
    looked_at = {int(line[1]) for line in lines[1:]}
    assert written.listed == before - sum(one["suspect"] and one["row"] in looked_at for one in issues)
    text = written.path.read_text(encoding="utf-8")
    assert "labels are wrong, by an audit of 30 rows" in text


def test_apply_marks_audited_rows_in_a_column_that_fit_takes(table_run, tmp_path, capsys):
    folder, _ = table_run(rows=2000, suspects=400)
    lines = answered(folder, tmp_path / "audit.csv", unsure=1)
    out = tmp_path / "cleaned.csv"
    main(["apply", str(folder), str(tmp_path / "audit.csv"), "--out", str(out)])
    said = capsys.readouterr().out
    assert f"trevision fit {out} " in said
    assert " --label-column label " in said
    assert "--name-column id --clean-column checked" in said
    with out.open(newline="", encoding="utf-8") as file:
        cleaned = list(csv.DictReader(file))
    told = {int(line[1]): line[4] for line in lines[1:] if line[5] == "yes"}
    assert {row for row, one in enumerate(cleaned) if one["checked"] == "yes"} == set(told)
    assert all(cleaned[row]["label"] == answer for row, answer in told.items())
    lines[1][0] = "other"
    write(tmp_path / "audit.csv", lines)
    assert "another run" in status_2(capsys, "apply", folder, tmp_path / "audit.csv", "--out", out)


def test_apply_puts_audited_arrays_into_a_file_of_their_own(picture_run, tmp_path, capsys):
    folder, _ = picture_run(rows=400, suspects=100)
    with np.load(tmp_path / "pictures.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    # The made-up issues give other labels than the made-up source: take the source's.
    table = pyarrow.parquet.read_table(folder / "issues.parquet").to_pylist()
    table = [one | {"given": str(y[one["row"]])} for one in table]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), folder / "issues.parquet")
    lines = answered(folder, tmp_path / "audit.csv")
    main(["apply", str(folder), str(tmp_path / "audit.csv"), "--out", str(tmp_path / "cleaned.npz")])
    assert f"--clean-source {tmp_path / 'cleaned-checked.npz'}" in capsys.readouterr().out
    told = {int(line[1]): line[4] for line in lines[1:]}
    with np.load(tmp_path / "cleaned-checked.npz") as arrays:
        assert arrays["y"].tolist() == [told[row] for row in sorted(told)]
        assert (arrays["x"] == x[sorted(told)]).all()
    with np.load(tmp_path / "cleaned.npz") as arrays:
        assert len(arrays["y"]) == 380


def test_kept_labels_are_marked_as_known_to_be_right(table_run, tmp_path):
    folder, issues = table_run()
    one = issues[0]
    path = tmp_path / "corrections.csv"
    write(path, [["row", "name", "given", "corrected", "decision"],
                 [str(one["row"]), one["name"], one["given"], one["given"], "keep"]])  # fmt: skip
    main(["apply", str(folder), str(path), "--out", str(tmp_path / "cleaned.csv")])
    with (tmp_path / "cleaned.csv").open(newline="", encoding="utf-8") as file:
        marks = [line["checked"] for line in csv.DictReader(file)]
    assert [row for row, mark in enumerate(marks) if mark == "yes"] == [one["row"]]


def waited_for(path: Path) -> Path:
    deadline = time.monotonic() + 60
    while not path.exists() or path.stat().st_size == 0:
        assert time.monotonic() < deadline, "nothing was downloaded"
        time.sleep(0.05)
    return path


def test_from_fit_to_the_audited_headline_and_the_next_fit_by_keyboard_alone(tmp_path, browser, capsys):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    rng = np.random.default_rng(0)
    true = rng.integers(3, size=240)
    x = np.eye(3)[true] * 3 + rng.normal(size=(240, 3))
    given = np.where(rng.random(240) < 0.2, (true + 1) % 3, true)
    names = np.array(["ant", "bee", "cow"])
    table = tmp_path / "table.csv"
    write(
        table,
        [["a", "b", "c", "label"], *[[*map(str, row), names[y]] for row, y in zip(x, given, strict=True)]],
    )
    run = tmp_path / "run"
    main(["fit", str(table), "--out", str(run), "--method", "standard"])
    main(["audit", str(run), "--rows", "20"])
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    browser.get_log("browser")
    browser.get((run / "audit.html").as_uri())

    def text(selector: str) -> str:
        return browser.find_element(By.CSS_SELECTOR, selector).text

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    audit = plan_audit(RunFolder(run))
    rows = audit.row_numbers[audit.plan.rows]
    assert "label" not in text("#card")
    press("0")
    press(Keys.BACKSPACE)
    for row in rows[:12]:
        press(str(true[row] + 1))
    browser.refresh()
    assert text("#progress-text") == "12 of 20 answered"
    for row in rows[12:]:
        press(str(true[row] + 1))
    assert text("#progress-text") == "20 of 20 answered"
    assert f"it was given {names[given[rows[-1]]]}" in text("#outcome")
    assert browser.get_log("browser") == []
    ActionChains(browser).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    answers = waited_for(tmp_path / "audit-run.csv")
    main(["audit", str(run), str(answers)])
    found = read_audited(run)
    assert found.wrong.low <= (true != given).sum() <= found.wrong.high
    main(["report", str(run)])
    browser.get((run / "report.html").as_uri())
    assert "by an audit of 20 rows" in text("h1")
    capsys.readouterr()
    main(["apply", str(run), str(answers), "--out", str(tmp_path / "cleaned.csv")])
    command = capsys.readouterr().out.replace("\n", " ").split("next: trevision ")[1].split()
    main(command)
    result = json.loads((Path(command[-1]) / "result.json").read_text())
    assert result["method"] == "standard"
    main(["issues", command[-1]])
    suspects = pyarrow.parquet.read_table(Path(command[-1]) / "issues.parquet").column("row").to_pylist()
    assert not set(suspects) & set(rows.tolist())
