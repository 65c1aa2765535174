"""Only predicted probabilities: how many labels are wrong, how they go wrong, and which to look at first.

The model may come from any library. What is needed are its probabilities for rows that it was not trained
on, and the labels that those rows were given.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from trevision import find_label_issues, noise, transition_error

SHOWN = 10


def main() -> None:
    x, clean = load_digits(return_X_y=True)
    truth = noise.pair_flip(10, 0.3)
    given = noise.corrupt(clean, truth, random_state=0)  # in place of your labels
    model = LogisticRegression(C=0.1, max_iter=300)
    probs = cross_val_predict(model, x / 16, given, cv=5, method="predict_proba")

    issues = find_label_issues(probs, given, bootstrap=20)
    found = issues.estimate
    print(
        f"wrong labels: {found.noise_rate:.1%} ({found.level:.0%} interval {found.noise_rate_low:.1%} to "
        f"{found.noise_rate_high:.1%}); in truth {(given != clean).mean():.1%}"
    )
    print(f"error of T: {transition_error(found.transition, truth):.3f}; its first two rows:")
    print(found.transition[:2].round(2))

    print("\n row  given  suggested  in truth  P(given is right)")
    for row in issues.order[:SHOWN]:
        print(
            f"{row:4}  {given[row]:5}  {issues.suggested[row]:9}  {clean[row]:8}  {issues.p_given[row]:17.4f}"
        )
    wrong = given != clean
    plain = probs[range(len(given)), given]  # how probable the model itself thinks each label
    print(f"\nof these {SHOWN}, wrong: {wrong[issues.order[:SHOWN]].sum()}")
    print(
        "AUC of telling wrong labels from right ones: "
        f"by the model's probability {roc_auc_score(wrong, -plain):.3f}, "
        f"by P(given is right) {roc_auc_score(wrong, -issues.p_given):.3f}"
    )


if __name__ == "__main__":
    main()
