"""What it costs to start: processor time of `import trevision` and of `trevision --help`.

Claims, as medians of five processes each:
1. `trevision --help` takes at most 0.6 s of processor time;
2. `python -c "import trevision"` takes at most 0.2 s more than `python -c "import numpy"`.

Printed: the medians, their range, and both beside what `import torch` takes on the same machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

REPEATS = 5
COMMANDS = {
    'python -c "import numpy"': "import numpy",
    'python -c "import trevision"': "import trevision",
    "trevision --help": "from trevision.cli import main; main(['--help'])",
    "trevision estimate --help": "from trevision.cli import main; main(['estimate', '--help'])",
    "trevision fit --help": "from trevision.cli import main; main(['fit', '--help'])",
    'python -c "import torch"': "import torch",
}


def processor_seconds(code: str) -> float:
    """User and system time of one Python process that runs `code`."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def main() -> None:
    table = Table(title=f"processor time of a process, {REPEATS} each")
    for column in ("command", "median, s", "from, s", "to, s"):
        table.add_column(column, justify="left" if column == "command" else "right")
    medians = {}
    for name, code in COMMANDS.items():
        processor_seconds(code)  # the first reads files that later ones find in memory
        seconds = [processor_seconds(code) for _ in range(REPEATS)]
        medians[name] = statistics.median(seconds)
        table.add_row(name, f"{medians[name]:.2f}", f"{min(seconds):.2f}", f"{max(seconds):.2f}")
    console = Console()
    console.print(table)
    beyond = medians['python -c "import trevision"'] - medians['python -c "import numpy"']
    console.print(f"import trevision beyond import numpy: {beyond:+.2f} s (claim: at most 0.2)")
    console.print(f"trevision --help: {medians['trevision --help']:.2f} s (claim: at most 0.6)")
