"""Whether convolutions are computed in bfloat16: where the processor does so fast, which is measured once.

What a processor advertises is no guide. Some have bfloat16 products that are slower than those of single
precision, some trap on the instruction. So a child process measures, and what it does not answer in time
counts as no.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from trevision.data.named.locations import cache_folder
from trevision.files import write_json
from trevision.networks.colour import WIDTHS
from trevision.training.processor import cpu
from trevision.training.runtime import is_cpu

AUTO = "auto"
SINGLE, BFLOAT16 = "32-true", "bf16-mixed"

LEAST_SPEEDUP = 1.2
"""How many times faster than single precision bfloat16 must be to be chosen."""

PROBE_SECONDS = 30
"""Maximum seconds to wait for the child process, most of which it needs to import torch."""

# A convolution of the network `narrow`, forward and backward, in both precisions by turns for half a second.
PROBE = """
import json, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
layer = torch.nn.Conv2d(128, 128, 3, padding=1).to(memory_format=torch.channels_last)
images = torch.randn(128, 128, 15, 15, requires_grad=True).to(memory_format=torch.channels_last)
def step(half):
    began = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        out = layer(images)
    out.backward(out.detach())
    return time.perf_counter() - began, out.detach().float()
(_, exact), (_, rounded) = step(False), step(True)
right = bool((exact - rounded).abs().max() < 0.05)
least, until = [float("inf")] * 2, time.perf_counter() + 0.5
while time.perf_counter() < until:
    for half in (False, True):
        least[half] = min(least[half], step(half)[0])
print(json.dumps(least[0] / least[1] if right else 0.0))
"""


def settled_precision(asked: str, network: str, accelerator: str) -> str:
    """The precision that is used: the one asked for or, for `auto`, one that suits network and processor.

    `auto` is bfloat16 only for the networks of `networks/colour.py` on a CPU that is faster by it. The others
    are too small to gain, and their recorded numbers stay as they are.
    """
    if asked != AUTO:
        return asked
    if network not in WIDTHS or not is_cpu(accelerator):
        return SINGLE
    return BFLOAT16 if bfloat16_speedup() >= LEAST_SPEEDUP else SINGLE


@cache
def bfloat16_speedup() -> float:
    """How many times faster than in single precision convolutions are in bfloat16; 0 if they do not work.

    Measured once for a processor and a version of torch, and then read from the user's cache.
    """
    path = cache_folder() / "bfloat16.json"
    key = f"{cpu()['name']}, torch {version('torch')}"
    known = _read(path)
    if key not in known:
        known[key] = measured_speedup()
        with contextlib.suppress(OSError):  # without a cache it is measured again next time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, known)
    return known[key]


def measured_speedup(probe: str = PROBE, seconds: float = PROBE_SECONDS) -> float:
    """What the program `probe` prints, run in a child process; 0 if it fails or takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", probe],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=True,
        )
        return round(float(json.loads(done.stdout)), 2)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return 0.0


def _read(path: Path) -> dict[str, float]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or damaged: it is measured again
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: float(value) for key, value in known.items() if isinstance(value, int | float)}
