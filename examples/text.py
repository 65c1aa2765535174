"""Messages filed under the wrong kind: from a CSV file to a classifier and a list of suspect labels.

The same as, on the command line:

    trevision fit messages.csv --label-column kind --text-column message --method forward --out run
    trevision predict run new-messages.csv
    trevision issues run
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from trevision.data.files.reading import Reading
from trevision.runs.label_issues import find_run_issues
from trevision.runs.predict import predict_to_csv
from trevision.runs.run import run
from trevision.runs.settings import Settings

WORDS = {
    "bug": ["crash", "error", "fails", "broken", "exception", "wrong", "freezes", "lost"],
    "thanks": ["great", "love", "thank", "works", "perfect", "nice", "happy", "helpful"],
    "wish": ["please", "add", "would", "like", "support", "option", "could", "missing"],
}
COMMON = ["the", "app", "when", "I", "open", "it", "with", "my", "phone", "today", "again", "and", "then"]
KINDS = np.array(sorted(WORDS))


def make_messages(rows: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Two telling words among eight that tell nothing, and the kind's number."""
    kinds = rng.integers(len(KINDS), size=rows)
    words = [[*rng.choice(WORDS[KINDS[kind]], 2), *rng.choice(COMMON, 8)] for kind in kinds]
    return [" ".join(rng.permutation(some)) for some in words], kinds


def main() -> None:
    rng = np.random.default_rng(0)
    texts, kinds = make_messages(600, rng)
    new_texts, new_kinds = make_messages(500, rng)
    wrong = rng.random(len(kinds)) < 0.4  # each kind is taken for the next one
    given = np.where(wrong, (kinds + 1) % len(KINDS), kinds)
    accuracy = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, new_source = str(folder / "messages.csv"), str(folder / "new-messages.csv")
        pd.DataFrame({"message": texts, "kind": KINDS[given]}).to_csv(source, index=False)
        pd.DataFrame({"message": new_texts, "kind": KINDS[new_kinds]}).to_csv(new_source, index=False)
        reading = Reading(label_column="kind", text_column=("message",))
        for method in ("standard", "forward"):
            run(source, Settings(method=method, reading=reading), folder / method)
            accuracy[method] = predict_to_csv(folder / method, new_source, folder / "kinds.csv").accuracy
        found = find_run_issues(folder / "forward", bootstrap=10)

    for line in found.table.head(5).itertuples():
        print(f"{line.given:>6}, rather {line.suggested:<6} ({line.p_given:.3f}): {texts[line.row]}")
    suspects = found.table[found.table["suspect"]]["row"]
    print(f"suspect labels: {len(suspects)}, of which {wrong[suspects].mean():.1%} are wrong")
    print(f"wrong labels: estimated {found.issues.wrong[0]:.0f}, in truth {wrong.sum()}")
    print(f"accuracy on new messages: plain {accuracy['standard']:.3f}, forward {accuracy['forward']:.3f}")


if __name__ == "__main__":
    main()
