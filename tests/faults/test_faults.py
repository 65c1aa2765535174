"""Ten kills at random moments and one of each other fault; `make test-long` does hundreds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs fork, and processes as Linux lists them"
)
def test_nothing_is_lost_and_everything_ends_in_the_same_bits_or_a_clear_error():
    # In a process of its own: the faults fork, which must not happen where torch has computed.
    harness = Path(__file__).with_name("__main__.py")
    command = [sys.executable, str(harness), "--quick", "--kills", "10", "--others", "0.04"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    total = done.stdout.splitlines()[-1]
    assert total.endswith(", 0 lost"), done.stdout
    assert int(total.split()[0]) >= 15
