"""The training loop and what it stands on: devices, selection, checkpoints, evaluation."""
