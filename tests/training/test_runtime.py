"""What a process is prepared for before it trains."""

import subprocess
import sys

import pytest

from trevision.training.phase import Phase
from trevision.training.runtime import launch

FAULTS_OF_REPEATED_BLOCKS = """
import resource, sys
import torch
from trevision.training.runtime import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed_memory()
def use():
    blocks = [torch.ones(2**20) for _ in range(20)]  # 80 MB, 20,480 pages
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator is glibc's, on Linux")
def test_the_precision_is_not_announced(capfd: pytest.CaptureFixture[str]) -> None:
    launch("cpu", precision="bf16-mixed")
    told = capfd.readouterr()
    assert told.out + told.err == ""


def test_large_blocks_that_were_freed_are_used_again_without_page_faults() -> None:
    def faults(memory: str) -> int:
        command = [sys.executable, "-c", FAULTS_OF_REPEATED_BLOCKS, memory]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    kept = faults("kept")
    assert kept < 5_000  # of 102,400 pages; where the system has large pages, few faults are needed anyway
    assert kept <= faults("returned")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"devices": 0}, "devices must be at least 1"),
        ({"devices": -2}, "devices must be at least 1"),
        ({"precision": "16-true"}, "precision must be one of 32-true, 16-mixed, bf16-mixed, got '16-true'"),
    ],
)
def test_hardware_that_cannot_be_is_refused_in_words(how: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        launch("cpu", **how)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"optimizer": "adamw"}, "optimizer must be one of sgd, adam, got 'adamw'"),
        ({"optimizer_transition": "adamw"}, "optimizer_transition must be one of sgd, adam"),
        (
            {"decay": "cosine"},
            "decay must be one of constant, steps, one-cycle, triangular, exponential, tent, got 'cosine'",
        ),
        ({"augmentation": "flip"}, "augmentation must be one of"),
        ({"decay": "steps", "milestones": (80, 40)}, "milestones must be epochs in ascending order"),
        ({"epochs": -1}, "epochs must be at least 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"lr": float("nan")}, "lr must be at least 0"),
        ({"patience": 0}, "patience must be at least 1"),
    ],
)
def test_a_phase_with_a_misspelt_word_or_an_impossible_number_is_refused(how: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Phase(**{"epochs": 3} | how).check()
