"""The training loop and what it stands on: devices, selection, checkpoints, evaluation."""

from trevision.training.checkpoint import (
    FolderStore,
    MemoryStore,
    Store,
    write_atomically,
)
from trevision.training.evaluate import Evaluation, class_probs
from trevision.training.loop import (
    Batch,
    Stage,
    StageResult,
    TrainingDiverged,
    run_stage,
)
from trevision.training.model import NoisyLabelModel
from trevision.training.phase import Phase, learning_rate
from trevision.training.progress import LineProgress, NoProgress, Progress
from trevision.training.runtime import Runtime, launch

__all__ = [
    "Batch",
    "Evaluation",
    "FolderStore",
    "LineProgress",
    "MemoryStore",
    "NoProgress",
    "NoisyLabelModel",
    "Phase",
    "Progress",
    "Runtime",
    "Stage",
    "StageResult",
    "Store",
    "TrainingDiverged",
    "class_probs",
    "launch",
    "learning_rate",
    "run_stage",
    "write_atomically",
]
