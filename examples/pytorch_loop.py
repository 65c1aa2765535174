"""A PyTorch loop of your own: only the loss changes.

T is estimated from cross-validated probabilities of a quick scikit-learn model. Then a network is trained
twice by the same loop, with cross-entropy and with `forward_nll`, which compares the noisy labels with the
network's prediction *through* T. The network itself learns to predict clean labels.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from torch import nn

from trevision import Transition, cross_entropy, estimate, forward_nll, noise, transition_error


def estimate_transition(x, noisy) -> torch.Tensor:
    """T from predictions for rows that the model was not trained on."""
    quick = LogisticRegression(C=0.1, max_iter=300)
    probs = cross_val_predict(quick, x, noisy, cv=5, method="predict_proba")
    return torch.tensor(estimate(probs, noisy, bootstrap=10).transition, dtype=torch.float32)


def train(x: torch.Tensor, noisy: torch.Tensor, transition: Transition | None, epochs: int = 60) -> nn.Module:
    """A plain loop; `transition` says whether the loss knows of the noise."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(64):
            logits = network(x[rows])
            if transition is None:
                loss = cross_entropy(logits, noisy[rows])
            else:
                loss = forward_nll(logits, noisy[rows], transition.matrix)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


def main() -> None:
    torch.set_num_threads(1)
    x, y = load_digits(return_X_y=True)
    train_x, test_x, clean, test_y = train_test_split(x / 16, y, test_size=0.3, random_state=0)
    truth = noise.pair_flip(10, 0.4)
    noisy = noise.corrupt(clean, truth, random_state=0)

    transition = Transition(estimate_transition(train_x, noisy))  # "simplex" would go on learning it
    print(f"error of the estimated T: {transition_error(transition.matrix, truth):.3f}")

    rows, labels = torch.tensor(train_x, dtype=torch.float32), torch.tensor(noisy)
    new_rows, new_labels = torch.tensor(test_x, dtype=torch.float32), torch.tensor(test_y)
    accuracy = []
    for known in (None, transition):
        network = train(rows, labels, known)
        accuracy.append((network(new_rows).argmax(dim=1) == new_labels).float().mean().item())
    print(f"accuracy on clean digits: cross-entropy {accuracy[0]:.3f}, forward {accuracy[1]:.3f}")


if __name__ == "__main__":
    main()
