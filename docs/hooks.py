"""What the site needs beyond Markdown: pages from the root of the project, links to source, notebooks.

The pages are written for a reader of the repository: relative links, lists right after a paragraph. Here they
become pages of the site. Warnings end `mkdocs build --strict`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
log = logging.getLogger("mkdocs.hooks.trevision")

PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
"""Pages outside of docs, and where they are in the site."""

LINK = re.compile(r"(?<=\]\()([^()#\s:]+)((?:#[^()\s]*)?)(?=\))")
FENCE = re.compile(r"^ *(?:```|~~~)")
ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) +")
LOADS = re.compile(
    r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?(?:https?:)?//|<link[^>]*rel=[\"']?(?:stylesheet|preload"
    r"|preconnect)[^>]*(?:https?:)?//|@import\s+url\((?:https?:)?//"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, the notebooks, and the source files that pages link to."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        uri = path.relative_to(DOCS).with_suffix(".md").as_posix()
        files.append(File.generated(config, uri, content=notebook_page(path)))
    for path in sorted({path for page in files.documentation_pages() for path in linked_sources(page)}):
        files.append(File.generated(config, source_uri(path), content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages of the site, and part lists and tables from the paragraph before them."""
    here = origin(page.file)

    def follow(match: re.Match[str]) -> str:
        target = (here.parent / match[1]).resolve()
        uri = site_uri(target)
        if uri is None:
            return match[0]
        return os.path.relpath(uri, Path(page.file.src_uri).parent).replace(os.sep, "/") + match[2]

    return spaced(outside_code(markdown, lambda line: LINK.sub(follow, line)))


def on_post_build(config: MkDocsConfig) -> None:
    """The site must not load anything from elsewhere."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = LOADS.search(path.read_text(encoding="utf-8"))
        if found:
            log.warning("%s loads something from elsewhere: %s", path.name, found[0])


def origin(file: File) -> Path:
    """The file in the repository that a page of the site was written as."""
    known = {uri: path for path, uri in PAGES.items()}
    return ROOT / known[file.src_uri] if file.src_uri in known else DOCS / file.src_uri


def site_uri(target: Path) -> str | None:
    """Where a file of the repository is in the site; None where it is not."""
    if target.is_dir():
        target = target / "README.md"
    if not target.is_relative_to(ROOT):
        return None
    inside = target.relative_to(ROOT).as_posix()
    if inside in PAGES:
        return PAGES[inside]
    if target.is_relative_to(DOCS):
        uri = target.relative_to(DOCS)
        return uri.with_suffix(".md").as_posix() if uri.suffix == ".ipynb" else uri.as_posix()
    return source_uri(target) if target.is_file() else None


def source_uri(path: Path) -> str:
    return f"source/{path.relative_to(ROOT).as_posix()}.txt"


def linked_sources(file: File) -> list[Path]:
    """The files outside of docs that a page links to and that are no pages."""
    here = origin(file)
    if not here.is_file():
        return []
    targets = [(here.parent / found[0]).resolve() for found in LINK.findall(here.read_text(encoding="utf-8"))]
    return [path for path in targets if path.is_file() and (site_uri(path) or "").startswith("source/")]


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Apply `change` to each line that is not in a fenced block."""
    lines, inside = [], False
    for line in markdown.split("\n"):
        inside ^= bool(FENCE.match(line))
        lines.append(line if inside else change(line))
    return "\n".join(lines)


def spaced(markdown: str) -> str:
    """Lists and tables as Python-Markdown reads them.

    It wants an empty line before them, and four spaces for each level of a list; GitHub wants neither.
    """
    lines: list[str] = []
    levels: list[int] = []  # where the text of each open list item begins
    inside = False
    paragraphs = False  # whether the last item has more than one
    for line in markdown.split("\n"):
        item = None if inside else ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        after_gap = not lines or not lines[-1].strip()
        if line.strip() and not inside and (item or after_gap or FENCE.match(line)):
            while levels and indent < levels[-1]:
                levels.pop()
        if not after_gap and (_begins(item, line, lines[-1], inside) or (item and paragraphs)):
            lines.append("")
        paragraphs = not item and (paragraphs or not line.strip())
        cut = min(indent, levels[-1]) if levels else 0
        lines.append(" " * 4 * len(levels) + line[cut:] if line.strip() else "")
        if item:
            levels.append(len(item[0]))
        inside ^= bool(FENCE.match(line))
    return "\n".join(lines)


def _begins(item: re.Match[str] | None, line: str, before: str, inside: bool) -> bool:
    """Whether a list or a table begins here, right after the line of a paragraph or of an outer item."""
    if inside or before.startswith("#"):
        return False
    if line.startswith("|"):
        return not before.startswith("|")
    deeper = len(line) - len(line.lstrip()) > 0
    in_list = ITEM.match(before.lstrip()) or before.startswith("    ")
    return item is not None and not deeper and not in_list


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed when it was last run."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        printed = "".join("".join(output["text"]) for output in cell["outputs"]).rstrip("\n")
        if printed:
            parts.append(f"```text\n{printed}\n```")
    return "\n\n".join([*parts, f"This page is the notebook `docs/notebooks/{path.name}`.", ""])
