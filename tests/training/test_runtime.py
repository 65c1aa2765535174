"""What a process is prepared for before it trains."""

import subprocess
import sys

import pytest

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
def test_large_blocks_that_were_freed_are_used_again_without_page_faults() -> None:
    def faults(memory: str) -> int:
        command = [sys.executable, "-c", FAULTS_OF_REPEATED_BLOCKS, memory]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    kept = faults("kept")
    assert kept < 5_000  # of 102,400 pages; where the system has large pages, few faults are needed anyway
    assert kept <= faults("returned")
