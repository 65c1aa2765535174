"""The learned mentor of MentorNet: a small recurrent network that says how much to trust a label.

Its input is a sample's recent losses and their distance from a moving average of all losses (an LSTM over
epochs), the label and the time, as in Jiang et al. 2018, Section 4. As there, it first learns to follow a
predefined curriculum, and then learns from samples whose labels are known to be right or wrong.

Notes
-----
The paper takes these samples from a small clean part of the data, or from another data set. Here no clean
labels are needed, because there is a rehearsal. The classes that stage 1 predicts for the training rows stand
in for clean labels. T-hat corrupts them, and a student is trained on the result by the self-paced curriculum.
It is known which of these labels are wrong, and the mentor learns from their losses. Predicted classes are
easier to learn than true labels, so the mentor is somewhat overconfident. The paper also keeps adapting the
mentor while the student trains; here it stays fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trevision import noise
from trevision.data.noisy import NoisyData
from trevision.training.evaluate import Evaluation
from trevision.training.loop import StageResult

HISTORY = 10  # epochs that the mentor looks back on, this one included
AVERAGING = 0.95  # of the moving average over batches
PREDEFINED_STEPS, LEARNED_STEPS = 100, 500
MENTOR_BATCH, MENTOR_RATE = 512, 5e-3


class Mentor(nn.Module):
    """P(label is right) as a logit, from recent losses (n, HISTORY, 2), labels (n,) and time in [0, 1)."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.label = nn.Embedding(num_classes, 2)
        self.time = nn.Embedding(100, 5)
        self.recent = nn.LSTM(2, 10, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * 10 + 2 + 5, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, recent: Tensor, labels: Tensor, time: float) -> Tensor:
        _, (last, _) = self.recent(recent)
        percent = torch.full_like(labels, min(int(100 * time), 99))
        parts = [last[0], last[1], self.label(labels), self.time(percent)]
        logits: Tensor = self.out(torch.tanh(self.hidden(torch.cat(parts, dim=1))))
        return logits.squeeze(1)


class Watched(nn.Module):
    """A network with the past losses of its training samples and, optionally, a mentor that reads them.

    The losses are buffers, so that checkpoints include them. All processes hold the same ones.
    """

    losses: Tensor
    levels: Tensor
    epochs_begun: Tensor

    def __init__(self, network: nn.Module, epochs: int, rows: int, mentor: Mentor | None = None) -> None:
        super().__init__()
        self.network = network
        self.mentor = None if mentor is None else mentor.requires_grad_(False)
        self.register_buffer("losses", torch.zeros(epochs, rows))
        self.register_buffer("levels", torch.zeros(epochs))
        self.register_buffer("epochs_begun", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)
        return logits

    @torch.no_grad()
    def record(self, epoch: int, rows: Tensor, losses: Tensor, share: float) -> None:
        """Record the losses of a batch, and update the moving average of their quantile at `share`."""
        level = torch.quantile(losses.float(), share)
        if int(self.epochs_begun) == epoch:
            self.epochs_begun += 1
            before = self.levels[epoch - 1] if epoch else level
        else:
            before = self.levels[epoch]
        self.levels[epoch] = AVERAGING * before + (1 - AVERAGING) * level
        self.losses[epoch, rows] = losses.float()

    @torch.no_grad()
    def trust(self, epoch: int, rows: Tensor, labels: Tensor) -> Tensor:
        """The mentor's weights in [0, 1] for `rows`. Their losses of this epoch must be recorded."""
        assert self.mentor is not None
        recent = recent_losses(self.losses, self.levels, epoch, rows)
        return torch.sigmoid(self.mentor(recent, labels, epoch / len(self.losses)))


def recent_losses(losses: Tensor, levels: Tensor, epoch: int, rows: Tensor) -> Tensor:
    """Losses of the last epochs, and their distance above the moving average: (n, HISTORY, 2).

    Epochs before the first are zeros.
    """
    first = max(0, epoch + 1 - HISTORY)
    known = losses[first : epoch + 1, rows].t()
    above = known - levels[first : epoch + 1]
    return F.pad(torch.stack([known, above], dim=2), (0, 0, HISTORY - known.shape[1], 0))


@dataclass(frozen=True)
class Rehearsal:
    """Data with deliberately corrupted labels, and which labels are still right."""

    data: NoisyData
    right: Tensor


def prepare_rehearsal(data: NoisyData, predicted: np.ndarray, transition: np.ndarray, seed: int) -> Rehearsal:
    """The training rows, labelled with the classes that stage 1 predicts, corrupted by T-hat."""
    rng = np.random.default_rng([seed, *b"mentor"])
    labels = noise.corrupt(predicted, transition, rng)
    right = torch.from_numpy(labels == predicted)
    return Rehearsal(replace(data, train_y=torch.from_numpy(labels).to(data.train_y.device)), right)


@dataclass(frozen=True)
class LastEpoch(Evaluation):
    """Selects the last epoch: a rehearsal is run for the losses of all epochs, not for its model."""

    student: Watched | None = None

    @property
    def select_by(self) -> str:
        return "epochs_left"

    def measure(self, model: nn.Module, transition: Tensor | None) -> dict[str, float]:
        assert self.student is not None
        left = len(self.student.losses) - int(self.student.epochs_begun)
        return super().measure(model, transition) | {"epochs_left": left}


def learn_mentor(
    rehearsal: Rehearsal, rehearsed: StageResult, num_classes: int, first_epoch: int, seed: int
) -> Mentor:
    """Train a mentor on the losses of a rehearsal, from `first_epoch` on.

    The first steps learn the curriculum of the rehearsal: weight one for losses below the moving average. The
    other steps learn which labels are right.
    """
    losses, levels = rehearsed.state["network.losses"], rehearsed.state["network.levels"]
    labels, right = rehearsal.data.train_y.cpu(), rehearsal.right.float()
    epochs = int(rehearsed.state["network.epochs_begun"])
    generator = torch.Generator().manual_seed(_mentor_seed(seed))
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(_mentor_seed(seed))
        mentor = Mentor(num_classes)
    optimizer = torch.optim.Adam(mentor.parameters(), lr=MENTOR_RATE)
    for step in range(PREDEFINED_STEPS + LEARNED_STEPS):
        epoch = int(torch.randint(min(first_epoch, epochs - 1), epochs, (), generator=generator))
        rows = torch.randint(len(labels), (min(MENTOR_BATCH, len(labels)),), generator=generator)
        recent = recent_losses(losses, levels, epoch, rows)
        below = (recent[:, -1, 1] <= 0).float()
        target = below if step < PREDEFINED_STEPS else right[rows]
        logits = mentor(recent, labels[rows], epoch / len(losses))
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(logits, target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return mentor


def _mentor_seed(seed: int) -> int:
    return int(np.random.SeedSequence([seed, *b"mentor"]).generate_state(1, np.uint64)[0] >> 2)
