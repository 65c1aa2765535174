"""Measurements of speed: `python -m benchmarks NAME`. They print ratios inside one run."""
