"""A scikit-learn Pipeline on a table whose labels are partly wrong.

The table has numbers with gaps and a column of words. 40% of each class are labelled as the next one.
`TRevisionClassifier` stands at the end of the pipeline like any other classifier.
"""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from trevision import TRevisionClassifier, noise, transition_error


def make_table(rows: int = 1600) -> tuple[pd.DataFrame, np.ndarray]:
    """Ten measurements, every twentieth missing, and a region; three classes."""
    x, y = make_classification(
        rows, 10, n_informative=8, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    rng = np.random.default_rng(0)
    x[rng.random(x.shape) < 0.05] = np.nan
    table = pd.DataFrame(x, columns=[f"measure {i}" for i in range(10)])
    table["region"] = rng.choice(["north", "south", "west"], rows)
    return table, y


def make_model(method: str):
    """Gaps filled, words turned into columns, then the classifier, which scales its inputs itself."""
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["region"]), remainder=SimpleImputer(strategy="median")
    )
    return make_pipeline(columns, TRevisionClassifier(method, random_state=0))


def main() -> None:
    table, clean = make_table()
    train, test, train_clean, test_clean = train_test_split(table, clean, test_size=0.25, random_state=0)
    truth = noise.pair_flip(3, 0.4)
    given = noise.corrupt(train_clean, truth, random_state=0)

    accuracy = {}
    for method in ("standard", "forward"):
        model = make_model(method).fit(train, given)
        accuracy[method] = model.score(test, test_clean)
    learnt = model[-1].transition_matrix_
    print("T as learnt, without having seen a clean label:")
    print(learnt.round(2))
    print(f"error of T: {transition_error(learnt, truth):.3f}")
    print(f"accuracy on clean rows: plain {accuracy['standard']:.3f}, forward {accuracy['forward']:.3f}")


if __name__ == "__main__":
    main()
