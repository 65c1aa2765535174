"""Run the notebooks, and store what their cells print: python docs/notebooks/run.py [NAME.ipynb ...].

A cell is Python and nothing else, so that no kernel is needed; what it prints is its output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run(notebook: dict[str, Any], folder: Path) -> list[str]:
    """What each code cell prints, when all run one after the other with `folder` as working directory."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = []
    with contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile("".join(cell["source"]), "notebook", "exec"), names)
                printed.append(output.getvalue())
    return printed


def main(paths: list[Path]) -> None:
    os.environ.setdefault("MPLBACKEND", "Agg")
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            printed = run(notebook, Path(folder))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, text) in enumerate(zip(cells, printed, strict=True), start=1):
            stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            cell |= {"execution_count": number, "outputs": [stream] if text else []}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb")))
