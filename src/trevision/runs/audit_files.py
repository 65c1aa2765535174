"""The audit of a run: its plan (audit-plan.parquet), the answers of a person, what they tell (audit.json)."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trevision.audit import AuditEstimate, AuditPlan, Interval, audit_estimate, audit_plan
from trevision.audit.estimate import CANNOT_TELL
from trevision.files import DamagedFile, DataError, did_you_mean, read_json, write_atomically, write_json
from trevision.runs.run_folder import RunFolder
from trevision.spreadsheets import as_written

PLAN_FILE, AUDIT_JSON = "audit-plan.parquet", "audit.json"
ANSWER_COLUMNS = ("plan", "row", "name", "given", "answer", "told")
"""The columns of the answers, as the page writes them; `told` is yes, or no if the auditor cannot tell."""
ROWS = 100
"""The rows of a first plan, if none are asked for."""


@dataclass(frozen=True, eq=False)
class RunAudit:
    """A plan for the rows of a run, in the order in which `trevision issues` had ranked them."""

    plan: AuditPlan
    row_numbers: np.ndarray
    names: list[str]
    suggested: list[str]
    suspects: int
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Names the draw; it stays the same if the plan is continued."""
        digest = hashlib.sha256(f"{self.plan.seed} {self.classes}".encode())
        for array in (self.row_numbers, self.plan.strata, self.plan.given):
            digest.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Answer:
    """The answer for one row, and its line in the file; `answer` is None if the auditor cannot tell."""

    line: int
    plan: str
    row: int
    given: str
    answer: str | None


def plan_audit(run: RunFolder, rows: int | None = None, seed: int | None = None) -> RunAudit:
    """The plan of a run with `rows` rows: a new one, or the one in its folder, continued; written there."""
    path = run.path / PLAN_FILE
    if path.is_file():
        held = read_plan(run)
        if seed is not None and seed != held.plan.seed:
            raise DataError(
                f"{path} was drawn with seed {held.plan.seed}, got seed {seed}; leave it out, or remove the "
                "file to begin an audit anew"
            )
        if rows is None or rows == len(held.plan.rows):
            return held
        if rows < len(held.plan.rows):
            raise DataError(
                f"rows must be more than the {len(held.plan.rows)} of the plan in {path}, got {rows}; the "
                f"first {rows} answers can be used alone: trevision audit {run.path} ANSWERS --rows {rows}"
            )
        longer = held.plan.of(rows)
        if longer.rows[: len(held.plan.rows)].tolist() != held.plan.rows.tolist():
            raise DataError(f"{path} cannot be continued by this version of numpy; audit with what it has")
        audit = RunAudit(longer, held.row_numbers, held.names, held.suggested, held.suspects, held.classes)
    else:
        audit = _drawn(run, ROWS if rows is None else rows, 0 if seed is None else seed)
    _write_plan(path, audit)
    return audit


def _drawn(run: RunFolder, rows: int, seed: int) -> RunAudit:
    issues, classes = run.issues, run.noise.classes
    code_of = {name: code for code, name in enumerate(classes)}
    given = np.array([code_of[name] for name in issues.column("given").to_pylist()])
    scores = np.clip(1 - issues.column("score").to_numpy(), 0, 1)
    fewest = min(len(scores), 10)
    if not fewest <= rows <= len(scores):
        raise DataError(f"rows must lie in [{fewest}, {len(scores)}], at most all labels, got {rows}")
    return RunAudit(
        plan=audit_plan(scores, given, rows, seed),
        row_numbers=issues.column("row").to_numpy(),
        names=issues.column("name").to_pylist(),
        suggested=issues.column("suggested").to_pylist(),
        suspects=int(np.sum(issues.column("suspect").to_pylist())),
        classes=classes,
    )


def _write_plan(path: Path, audit: RunAudit) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    place = np.full(len(audit.row_numbers), -1)
    place[audit.plan.rows] = np.arange(len(audit.plan.rows))
    table = pa.table(
        {
            "row": audit.row_numbers,
            "name": audit.names,
            "given": audit.plan.given,
            "suggested": audit.suggested,
            "stratum": audit.plan.strata,
            "place": place,
        }
    ).replace_schema_metadata({"seed": str(audit.plan.seed), "suspects": str(audit.suspects)})
    write_atomically(path, lambda file: pa.parquet.write_table(table, file))


def read_plan(run: RunFolder) -> RunAudit:
    """The plan in the folder of a run."""
    import pyarrow as pa

    from trevision.data.files.parquet_files import read_columns

    path = run.path / PLAN_FILE
    if not path.is_file():
        raise DataError(f"{run.path} has no {PLAN_FILE}; `trevision audit {run.path}` draws the rows first")
    whole, text = pa.int64(), pa.string()
    types = {"row": whole, "name": text, "given": whole, "suggested": text, "stratum": whole, "place": whole}
    table = read_columns(path, types, "remove it")
    classes = run.card.class_names
    try:
        columns = {name: table.column(name) for name in table.column_names}
        place = columns["place"].to_numpy()
        drawn = np.flatnonzero(place >= 0)
        given, strata = columns["given"].to_numpy(), columns["stratum"].to_numpy()
        if not np.array_equal(np.sort(place[drawn]), np.arange(len(drawn))) or not len(drawn):
            raise ValueError("its places are not in order")
        if given.min() < 0 or given.max() >= len(classes) or strata.min() < 0 or strata.max() >= len(place):
            raise ValueError("its classes or strata are unknown")
        plan = AuditPlan(
            drawn[np.argsort(place[drawn])],
            strata,
            given,
            int(table.schema.metadata[b"seed"]),
        )
        return RunAudit(
            plan,
            columns["row"].to_numpy(),
            columns["name"].to_pylist(),
            columns["suggested"].to_pylist(),
            int(table.schema.metadata[b"suspects"]),
            classes,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedFile(
            f"{path} must be a plan that `trevision audit` wrote ({error}); remove it", path=path
        ) from None


def read_answers(path: Path) -> list[Answer]:
    """The lines of a file of answers, as the page writes it; each row once."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; the audit page's button `Download answers` makes it")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, strict=True)
            header: list[str] = next(lines, [])
            if tuple(header) != ANSWER_COLUMNS:
                raise DataError(
                    f"{path} must have the columns {','.join(ANSWER_COLUMNS)}, got "
                    f"{','.join(header) or 'none'}; download it from the audit page"
                )
            answers: dict[int, Answer] = {}
            for fields in lines:
                one = _answer(f"{path}, line {lines.line_num}", lines.line_num, fields)
                if earlier := answers.get(one.row):
                    raise DataError(
                        f"{path}, line {one.line}: row {one.row} was answered before, in line "
                        f"{earlier.line}; keep one of them"
                    )
                answers[one.row] = one
            return list(answers.values())
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text in UTF-8 ({error.reason}); save it as CSV UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path} must be CSV as the audit page writes it ({error})") from None


def _answer(where: str, line: int, fields: list[str]) -> Answer:
    if len(fields) != len(ANSWER_COLUMNS):
        raise DataError(f"{where}: must have {len(ANSWER_COLUMNS)} fields, got {len(fields)}")
    plan, number, _, given, answer, told = map(as_written, fields)
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise DataError(f"{where}: row must be a row's number, 0 or more, got {number!r}")
    if told not in ("yes", "no"):
        raise DataError(f"{where}: told must be yes or no, got {told!r}")
    if told == "no" and answer:
        raise DataError(f"{where}: answer must be empty where told is no, got {answer!r}")
    return Answer(line, plan, int(number), given, answer if told == "yes" else None)


def matched_answers(audit: RunAudit, path: Path, rows: int | None = None) -> tuple[AuditPlan, np.ndarray]:
    """The plan that the answers in a file complete, and their codes; with `rows`, of the first so many."""
    plan = audit.plan
    if rows is not None:
        if not len(plan.sizes) <= rows <= len(plan.rows):
            raise DataError(f"rows must lie in [{len(plan.sizes)}, {len(plan.rows)}], got {rows}")
        plan = plan.of(rows)
    place_of = {int(audit.row_numbers[row]): place for place, row in enumerate(audit.plan.rows)}
    code_of = {name: code for code, name in enumerate(audit.classes)}
    codes: dict[int, int] = {}
    for one in read_answers(path):
        where = f"{path}, line {one.line}"
        if one.plan != audit.name:
            raise DataError(
                f"{where}: belongs to the audit {one.plan or 'of no name'}, but that of this run is "
                f"{audit.name}; was the file made from another run?"
            )
        if one.row not in place_of:
            raise DataError(f"{where}: row {one.row} is not among the {len(place_of)} rows of the plan")
        if one.answer is not None and one.answer not in code_of:
            hint = did_you_mean(one.answer, audit.classes, show=repr)
            raise DataError(f"{where}: {one.answer!r} is not one of the {len(code_of)} classes{hint}")
        given = audit.classes[audit.plan.given[audit.plan.rows[place_of[one.row]]]]
        if one.given != given:
            raise DataError(f"{where}: row {one.row} is labelled {given!r} in the plan, got {one.given!r}")
        codes[place_of[one.row]] = CANNOT_TELL if one.answer is None else code_of[one.answer]
    missing = [place for place in range(len(plan.rows)) if place not in codes]
    if missing:
        first = int(audit.row_numbers[plan.rows[missing[0]]])
        enough = missing[0] >= len(plan.sizes)
        raise DataError(
            f"{path} lacks {len(missing)} of the {len(plan.rows)} rows of the plan (the first: row {first}); "
            "answer them, by `cannot tell` if need be"
            + (f", or use the first {missing[0]}: --rows {missing[0]}" if enough else "")
        )
    return plan, np.array([codes[place] for place in range(len(plan.rows))])


def estimate_run_audit(
    run: RunFolder, answers: Path, rows: int | None = None, level: float = 0.9
) -> tuple[AuditEstimate, tuple[str, ...]]:
    """Estimate from the answers in a file, and write audit.json; gives the estimate and the classes."""
    audit = read_plan(run)
    plan, codes = matched_answers(audit, answers, rows)
    joint = run.noise.joint if run.has_issues else None
    # The plan holds the rows in the order of their ranks.
    order = np.arange(len(plan.strata))
    told = audit_estimate(plan, codes, level, order, audit.suspects, joint)
    numbers = audit.row_numbers[plan.rows]
    write_json(
        run.path / AUDIT_JSON,
        {
            "plan": audit.name,
            "classes": list(audit.classes),
            "headline": headline(told),
            "assumes": ASSUMES,
            **{key: _plain(value) for key, value in vars(told).items()},
            "answers": [
                {"row": int(row), "answer": None if code == CANNOT_TELL else audit.classes[code]}
                for row, code in zip(numbers, codes, strict=True)
            ],
        },
    )
    return told, audit.classes


ASSUMES = (
    "This holds whatever the noise is. It supposes only that the answers are right and that the rows were "
    "drawn as planned."
)


def headline(told: AuditEstimate) -> str:
    """How many labels are wrong, in plain words."""
    n, wrong = told.rows, told.wrong
    said = (
        f"{wrong.estimate:,.0f} of {n:,} labels are wrong ({wrong.estimate / n:.1%}); {told.level:.0%} "
        f"interval {wrong.low:,.0f} to {wrong.high:,.0f} ({wrong.low / n:.1%} to {wrong.high / n:.1%}), by "
        f"an audit of {told.audited:,} rows"
    )
    if not told.cannot_tell:
        return f"{said}."
    return (
        f"{said}. Of {told.cannot_tell} of them the auditor could not tell: the lower end counts these as "
        "right, the upper end as wrong."
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [asdict(one) for one in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


@dataclass(frozen=True)
class Audited:
    """What a page needs of audit.json."""

    headline: str
    assumes: str
    rows: int
    audited: int
    level: float
    wrong: Interval
    told_rows: frozenset[int]
    """Rows whose right label is known now."""


def read_audited(folder: Path) -> Audited | None:
    """audit.json of a run; None if it has not been audited."""
    path = folder / AUDIT_JSON
    if not path.is_file():
        return None
    stored = read_json(path)
    try:
        return Audited(
            headline=str(stored["headline"]),
            assumes=str(stored["assumes"]),
            rows=int(stored["rows"]),
            audited=int(stored["audited"]),
            level=float(stored["level"]),
            wrong=Interval(**{key: float(value) for key, value in stored["wrong"].items()}),
            told_rows=frozenset(int(one["row"]) for one in stored["answers"] if one["answer"] is not None),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(
            f"{path} must be what `trevision audit` wrote ({error}); estimate again from the answers"
        ) from None
