"""The training loop and its parts: devices, selection, checkpoints, evaluation."""
