"""Build the wheel, install it where the checkout is not, and run its demo: `make wheel`.

The dependencies are those of the running Python, without trevision itself: its editable installation is a
`.pth` file, which is not read in a folder that another `.pth` file names. Ends with 0 and a reason if the
wheel cannot be built because nothing can be downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=False)


def main() -> str:
    """What was found, in a sentence; ends with an error if the wheel does not work."""
    with tempfile.TemporaryDirectory(prefix="trevision-wheel-") as name:
        folder = Path(name)
        built = run([sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", ".", CHECKOUT], folder)
        wheels = list(folder.glob("*.whl"))
        if built.returncode:
            if any(word in built.stderr for word in ("No matching distribution", "Connection", "resolution")):
                return "skipped: the wheel cannot be built, because hatchling cannot be downloaded"
            raise SystemExit(built.stderr)
        python = folder / "env" / "bin" / "python"
        for command in (
            [sys.executable, "-m", "venv", folder / "env"],
            [python, "-m", "pip", "install", "--no-deps", "--no-index", *wheels],
        ):
            done = run(command, folder)
            if done.returncode:
                raise SystemExit(done.stderr)
        (site,) = (folder / "env" / "lib").glob("python*/site-packages")
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        where = run([python, "-c", "import trevision; print(trevision.__file__)"], folder)
        if not Path(where.stdout.strip() or "/").is_relative_to(site):
            raise SystemExit(f"trevision was imported from {where.stdout or where.stderr}")
        done = run([folder / "env" / "bin" / "trevision", "demo"], folder)
        made = [path for path in (folder / "demo-output").rglob("*") if path.is_file()]
        if done.returncode or not any(path.name == "report.html" for path in made):
            raise SystemExit(f"the demo ended with {done.returncode}: {done.stdout}{done.stderr}")
        return (
            f"{wheels[0].name}, {wheels[0].stat().st_size:,} bytes: installed without the checkout, "
            f"its demo wrote {len(made)} files"
        )


if __name__ == "__main__":
    print(main())
