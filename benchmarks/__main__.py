"""Run a benchmark by its name."""

import importlib
import sys

NAMES = (
    "step",
    "estimate",
    "wide_table",
    "own_data",
    "any_model",
    "colour",
    "dense_noise",
    "real_noise",
    "models",
    "startup",
    "annotators",
    "audit",
    "sparse_text",
    "uneven",
    "panel",
    "gpu_cost",
    "journey",
    "page",
    "same_bits",
)

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} [--full]")
    importlib.import_module(f"benchmarks.{sys.argv[1]}").main()
