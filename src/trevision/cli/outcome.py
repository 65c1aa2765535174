"""What `fit` and `check` say of a finished run: wrong labels, the worth of the classifier, what is next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from trevision.cli.terminal import accuracy, console, errors, number, table
from trevision.estimation import Finding
from trevision.runs.issue_files import VERDICTS, FoundNoise
from trevision.runs.run_folder import RunFolder

COUNTED = "count"
"""The check of T that says the headline once more."""
LABELS_ARE_NOISY = "these labels are noisy too, so that nobody could agree with all"


def print_outcome(run: RunFolder) -> None:
    """The headline of a finished run: wrong labels, the classifier, and one line of details."""
    result = run.result
    if result["noise"] is not None or result["test_accuracy"] is not None:
        console.print(_against_truth(run))
    for line in (*wrong_labels(run), *classifier(result)):
        console.print(line, soft_wrap=True)
    console.print(f"details: {details(run)}", soft_wrap=True)
    for note in result.get("data_notes", []):
        errors.print(f"note: {note}", soft_wrap=True)
    for warning in result["warnings"]:
        errors.print(f"warning: {warning}", soft_wrap=True)


def print_next(run: RunFolder) -> None:
    """The commands that follow, ready to paste."""
    folder = shlex.quote(str(run.path))
    if run.has_issues:
        console.print(
            f"Next: trevision report {folder}    (a page on which to review the suspects)", soft_wrap=True
        )
        console.print(f"      trevision issues {folder}    (the suspects here)", soft_wrap=True)
    else:
        console.print(f"Next: trevision issues {folder}    (find the wrong labels)", soft_wrap=True)


def wrong_labels(run: RunFolder) -> Iterator[str]:
    """How many labels are probably wrong, and how sure that is, in a sentence or two."""
    if not run.has_issues:
        share = run.result["noise_rate"]
        if run.result.get("uses_transition", True) and share is not None:
            yield (
                f"About {share:.1%} of the labels are wrong, by how labels go wrong (T) as the training "
                "estimated it."
            )
        return
    noise = run.noise
    if noise.count is None or (noise.count.told and not noise.count.as_range):
        yield f"{told_count(noise)}."
        return
    yield f"{_capital(noise.count.headline)}: {noise.count.reason}."
    audit = f"trevision audit {shlex.quote(str(run.path))}"
    if noise.count.as_range:
        yield f"To narrow it, look at 100 rows: {audit}"
    else:
        yield f"{noise.count.readings} To tell it, look at 100 rows: {audit}"


def print_findings(findings: Sequence[Finding], file: Path) -> None:
    """What the checks of T found: failures in full, and a count of the others as a line of details."""
    for finding in findings:
        if finding.verdict == "bad" and finding.check != COUNTED:
            console.print(f"warning: {finding.sentence}", soft_wrap=True)
    verdicts = Counter(str(finding.verdict) for finding in findings)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    if told:
        console.print(f"details: checks of T: {told}; what each says: {file}", soft_wrap=True)


def told_count(noise: FoundNoise) -> str:
    """The number of wrong labels with its interval, without the full stop."""
    if noise.count is not None:
        return _capital(noise.count.headline)
    wrong, low, high = noise.wrong
    interval = (
        "" if low is None or high is None else f"; {noise.level:.0%} interval {low:,.0f} to {high:,.0f}"
    )
    return f"About {wrong:,.0f} of {noise.rows:,} labels are wrong ({wrong / noise.rows:.1%}{interval})"


def classifier(result: dict[str, Any]) -> Iterator[str]:
    """What the classifier is worth beside plain training, on the same held-out labels."""
    held_out = result.get("held_out")
    agrees = result["noisy_validation_accuracy"]
    if result.get("annotators") is not None:
        yield (
            f"The classifier is right on about {agrees:.1%} of rows that it had not seen, judged by "
            "what their annotators say together."
        )
    elif held_out is None:
        yield f"The classifier agrees with {agrees:.1%} of labels that it had not seen; {LABELS_ARE_NOISY}."
    elif "stage_1" in held_out:
        yield (
            f"The classifier agrees with {held_out['classifier']:.1%} of labels that it had not seen, its "
            f"first stage, which is plain training, with {held_out['stage_1']:.1%}; {LABELS_ARE_NOISY}."
        )
    elif _correction(result) == "none":
        yield (
            f"The classifier agrees with {held_out['plain']:.1%} of labels that it had not seen; it is plain "
            f"training, since no correction did clearly better on them ({LABELS_ARE_NOISY})."
        )
    else:
        yield (
            f"The classifier agrees with {held_out['classifier']:.1%} of labels that it had not seen, plain "
            f"training with {held_out['plain']:.1%}; {LABELS_ARE_NOISY}."
        )


def _correction(result: dict[str, Any]) -> str | None:
    """The correction of labels or of the loss that was chosen."""
    return result.get("correction") or result.get("choice", {}).get("correction")


def details(run: RunFolder) -> str:
    """What the interval means and how it was learnt, in one line."""
    result = run.result
    parts = [f"learnt by {result['method']}"]
    if models := result.get("models"):
        others = ", ".join(_model(each) for each in models if not each["chosen"])
        chosen = next(_model(each) for each in models if each["chosen"])
        judged = "labels" if result.get("annotators") is None else "answers"
        parts = [
            f"model {chosen}, which gives unseen {judged} the highest probability; others: {others}"
            if others
            else f"model {chosen}"
        ]
    if (crowd := result.get("annotators")) is not None:
        parts.append(
            f"{crowd['annotators']} annotators gave {crowd['answers']:,} answers to {crowd['rows']:,} rows, "
            f"{crowd['right']:.1%} right; of one annotator {crowd['least_right']:.1%} to "
            f"{crowd['most_right']:.1%}"
        )
    elif _correction(result) is not None:
        parts.append(f"correction {_correction(result)}")
    if result["epochs"]:
        parts.append(f"{result['epochs']} epochs")
    parts.append(f"{result['seconds']:.0f} s")
    parts.append(f"why and all numbers: {run.path / 'result.json'}")
    if run.has_issues and run.noise.interval_meaning:
        parts.insert(0, run.noise.interval_meaning)
    return "; ".join(parts)


def _model(entry: dict[str, Any]) -> str:
    if "error" in entry:
        return f"{entry['name']} (could not be fitted)"
    return f"{entry['name']} ({entry['accuracy']:.1%})"


def _against_truth(run: RunFolder) -> Table:
    """What is known only because the noise was added or a clean test set came along."""
    result = run.result
    rows = [("method", result["method"]), ("noise", result["noise"] or "as given")]
    if result["test_accuracy"] is not None:
        rows.append(("test accuracy", accuracy(result["test_accuracy"])))
    if result["transition_error"] is not None:
        rows.append(("error of T, initial", number(result["initial_transition_error"])))
        if result.get("uses_transition", True):  # older results do not say
            rows.append(("error of T, learnt", number(result["transition_error"])))
    rows.append(("ended because", result["stopped_because"]))
    return table(["", str(run.path)], rows)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
