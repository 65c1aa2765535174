"""Counts, ranking, audit and accuracy on sets whose wrong labels are known: planted ones and real ones.

Claims:
1. the printed 90% interval holds the number of wrong labels, or the count is said not to be told, in at
   least 90% of (set, model, seed); the second answer is given on at most a tenth of the sets with
   class-conditional noise; labels with mistakes at the boundary or by rules are never called good;
2. the order of suspects has at least the average precision of cleanlab's label quality scores on every set
   (mean over models and seeds, less 0.005), from the same out-of-fold probabilities;
3. `auto` is at least the plain model less 0.5 points on every set, 3 points above it where class-conditional
   noise is asymmetric, and nowhere more than 2 points below it without a warning.
docs/panel.md has what was measured, and where a claim failed.

The sets are those of benchmarks/panel_sets.py. Four models: logistic regression, a forest, gradient boosting
(LightGBM) and the network. No tool is told T or which labels are wrong.

    python -m benchmarks panel                                      # seeds 1 to 5, everything
    TREVISION_SEEDS=101 TREVISION_SETS=digits,sms python -m benchmarks panel    # sets with these words
    TREVISION_MODELS=forest,logistic TREVISION_AUTO=0 python -m benchmarks panel    # no `auto`, much sooner
    TREVISION_JOBS=2 TREVISION_PANEL=panel.jsonl python -m benchmarks panel     # where results are kept

Results are appended to the file TREVISION_PANEL (panel.jsonl) cell by cell; what is there is not done again.
Printed: Markdown. Needs `pip install -c constraints.txt -e '.[bench]' lightgbm`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.rank import get_label_quality_scores
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.progress import track
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.any_model import JOBS, SEEDS, print_row
from benchmarks.audit import total
from benchmarks.panel_sets import SETS, PanelCase, found_sets
from trevision import NoisyLabelClassifier, TRevisionClassifier
from trevision.audit import audit_plan
from trevision.estimation import NOT_TOLD, diagnose
from trevision.issues import LabelIssues, find_label_issues
from trevision.methods.registry import METHODS

NETWORK = "network"
ROUNDS, TREES = 25, 50
AUDITED, BOOTSTRAP = 100, 40
WORDS = [word for word in os.environ.get("TREVISION_SETS", "").split(",") if word]
MODEL_WORDS = [word for word in os.environ.get("TREVISION_MODELS", "").split(",") if word]
WITH_AUTO = os.environ.get("TREVISION_AUTO", "1") != "0"
FILE = Path(os.environ.get("TREVISION_PANEL", "panel.jsonl"))

Record = dict[str, Any]
Key = tuple[str, str, int]


def models(x: Any, seed: int) -> dict[str, Any]:
    linear: Any = LogisticRegression(max_iter=500)
    if not issparse(x):
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    boosting = LGBMClassifier(
        n_estimators=ROUNDS, num_leaves=15, learning_rate=0.2, n_jobs=1, verbose=-1, random_state=seed
    )
    return {
        "logistic regression": linear,
        "forest": RandomForestClassifier(TREES, min_samples_leaf=2, random_state=seed),
        "boosting": boosting,
        NETWORK: None,
    }


def network(method: str, seed: int) -> TRevisionClassifier:
    return TRevisionClassifier(method=method, random_state=seed)


def right(model: Any, case: PanelCase) -> float:
    return 100 * float(np.mean(model.predict(case.test_x) == case.test_y))


def fitted(model: str, case: PanelCase, auto: bool) -> tuple[Record, np.ndarray]:
    """Accuracies in per cent and warnings, and P(noisy | x) out of fold."""
    scores: Record = {}
    if model == NETWORK:
        plain = network("standard", case.seed)
        if auto:
            name = "auto" if "auto" in METHODS else TRevisionClassifier().method
            corrected = network(name, case.seed).fit(case.x, case.given)
    else:
        plain = NoisyLabelClassifier(
            models(case.x, case.seed)[model], correction="none", random_state=case.seed
        )
        if auto:
            corrected = clone(plain).set_params(correction="auto").fit(case.x, case.given)
            # The plain model is one more fit; the folds are those of `auto`.
            plain = clone(plain.estimator)
    plain.fit(case.x, case.given)
    scores["plain"] = right(plain, case)
    if auto:
        scores |= {"auto": right(corrected, case), "warnings": corrected.warnings_}
        scores["chosen"] = getattr(corrected, "correction_", None)
    probs, _ = (corrected if auto else plain).out_of_sample_
    return scores, probs


def measures_of(issues: LabelIssues, findings: dict[str, str], case: PanelCase, probs: np.ndarray) -> Record:
    """The count beside the truth, both rankings, and an audit that is answered with the truth."""
    wrong = case.wrong
    count = issues.count
    assert count is not None
    place = np.empty(len(wrong))
    place[issues.order] = np.arange(len(wrong), 0, -1)
    quality = get_label_quality_scores(case.given, probs)
    plan = audit_plan(1 - issues.score, case.given, AUDITED, case.seed)
    audited = total(plan, wrong)
    precision = [
        average_precision_score(wrong, order) if wrong.any() else None for order in (place, -quality)
    ]
    return {
        "rows": len(wrong),
        "wrong": int(wrong.sum()),
        "count": count.to_json(),
        "findings": findings,
        "ours": precision[0],
        "cleanlab": precision[1],
        "audit": [audited.estimate, audited.low, audited.high],
    }


def cell(name: str, model: str, seed: int, auto: bool) -> Record:
    warnings.filterwarnings("ignore")
    started = time.process_time()
    with threadpool_limits(1):
        case = SETS[name].make(seed)
        scores, probs = fitted(model, case, auto)
        issues = find_label_issues(probs, case.given, bootstrap=BOOTSTRAP)
        checks = diagnose(probs, case.given, issues.estimate, count=issues.count)
        findings = {check.check: check.verdict for check in checks}
        found = measures_of(issues, findings, case, probs)
    seconds = round(time.process_time() - started, 2)
    return {"set": name, "model": model, "seed": seed, **found, **scores, "seconds": seconds}


def recorded() -> dict[Key, Record]:
    """The results of the file; a cell that was done again counts as it was last."""
    if not FILE.is_file():
        return {}
    lines = [json.loads(line) for line in FILE.read_text().splitlines() if line.strip()]
    return {(line["set"], line["model"], line["seed"]): line for line in lines}


def wanted(words: list[str], names: Iterable[str]) -> list[str]:
    return [name for name in names if not words or any(word in name for word in words)]


def run() -> list[Record]:
    done = recorded()
    names, chosen = found_sets(wanted(WORDS, SETS)), wanted(MODEL_WORDS, models(np.zeros(1), 0))
    keys = [(name, model, seed) for seed in SEEDS for name in names for model in chosen]
    work = [key for key in keys if key not in done or (WITH_AUTO and "auto" not in done[key])]
    results = Parallel(n_jobs=JOBS, return_as="generator")(delayed(cell)(*key, WITH_AUTO) for key in work)
    progress = track(zip(work, results, strict=True), "panel", len(work), console=Console(stderr=True))
    for key, result in progress:
        done[key] = result
        with FILE.open("a") as file:
            file.write(json.dumps(result) + "\n")
    return [done[key] for key in keys]


def mean(records: list[Record], what: str) -> float:
    values = [each[what] for each in records if each.get(what) is not None]
    return float(np.mean(values)) if values else float("nan")


def holds(record: Record) -> bool:
    # Half a row is rounding: the numbers are printed whole.
    return bool(record["count"]["low"] - 0.5 <= record["wrong"] <= record["count"]["high"] + 0.5)


def told(record: Record) -> bool:
    return bool(record["count"]["verdict"] != NOT_TOLD)


def called_good(record: Record) -> bool:
    return all(verdict == "good" for verdict in record["findings"].values())


def audit_holds(record: Record) -> bool:
    return bool(record["audit"][1] - 0.5 <= record["wrong"] <= record["audit"][2] + 0.5)


def counted(records: list[Record], what: str) -> str:
    return f"{np.mean([record['count'][what] for record in records]):.0f}"


def print_counts(by_set: dict[str, list[Record]]) -> None:
    header = ("set", "kind", "rows", "wrong", "by T", "by the model", "interval", "told", "holds or not told")
    print_row(*header, "called good", "audit of 100", "holds")
    print_row("---", "---", *["---:"] * 10)
    for name, records in by_set.items():
        audit = np.mean([record["audit"] for record in records], axis=0)
        print_row(
            name,
            SETS[name].kind,
            f"{mean(records, 'rows'):.0f}",
            f"{mean(records, 'wrong'):.0f}",
            counted(records, "by_class"),
            counted(records, "by_model"),
            f"{counted(records, 'low')} to {counted(records, 'high')}",
            f"{np.mean([told(record) for record in records]):.0%}",
            f"{np.mean([holds(record) or not told(record) for record in records]):.0%}",
            str(sum(called_good(record) for record in records)),
            f"{audit[0]:.0f} ({audit[1]:.0f} to {audit[2]:.0f})",
            f"{np.mean([audit_holds(record) for record in records]):.0%}",
        )
    every = [record for records in by_set.values() for record in records]
    by_class = [record for record in every if SETS[record["set"]].kind == "class"]
    unseen = [record for record in every if SETS[record["set"]].kind in ("boundary", "rules")]
    print(f"\n- holds, or is not told: {np.mean([holds(each) or not told(each) for each in every]):.1%}")
    if known := [each for each in every if told(each)]:
        print(f"- holds where it is told: {np.mean([holds(each) for each in known]):.1%} of {len(known)}")
    if by_class:
        print(f"- class-conditional, not told: {np.mean([not told(each) for each in by_class]):.1%}")
    print(f"- boundary and rules called good: {sum(map(called_good, unseen))} of {len(unseen)}")
    print(f"- audit holds: {np.mean([audit_holds(record) for record in every]):.1%}")


def print_scores(by_set: dict[str, list[Record]]) -> None:
    print_row("set", "kind", "AP ours", "AP cleanlab", "plain", "auto", "runs 2 below, no warning")
    print_row("---", "---", "---:", "---:", "---:", "---:", "---:")
    below, ranked_below = [], []
    for name, records in by_set.items():
        silent = [
            record
            for record in records
            if "auto" in record and record["auto"] < record["plain"] - 2 and not record["warnings"]
        ]
        with_auto = [record for record in records if "auto" in record]
        gain = mean(with_auto, "auto") - mean(with_auto, "plain")
        if gain < -0.5 or (SETS[name].asymmetric and gain < 3):
            below.append(f"{name} ({gain:+.1f})")
        if mean(records, "ours") < mean(records, "cleanlab") - 0.005:
            ranked_below.append(name)
        print_row(
            name,
            SETS[name].kind,
            f"{mean(records, 'ours'):.3f}",
            f"{mean(records, 'cleanlab'):.3f}",
            f"{mean(records, 'plain'):.1f}",
            f"{mean(with_auto, 'auto'):.1f}",
            f"{len(silent)} of {len(with_auto)}",
        )
    print(f"\n- sets where `auto` misses its claim: {len(below)} of {len(by_set)}. {'; '.join(below)}")
    print(f"- sets ranked worse than by cleanlab: {len(ranked_below)}. {'; '.join(ranked_below)}")


def main() -> None:
    records = run()
    if not records:
        sys.exit("TREVISION_SETS and TREVISION_MODELS must leave a set and a model, and leave none")
    by_set: dict[str, list[Record]] = {}
    for record in records:
        by_set.setdefault(record["set"], []).append(record)
    minutes = sum(record["seconds"] for record in records) / 60
    print(f"Seeds {SEEDS}, {len(records)} cells, {minutes:.0f} CPU minutes, one thread each\n")
    print_counts(by_set)
    print()
    print_scores(by_set)
