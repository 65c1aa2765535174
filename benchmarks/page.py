"""The report page: does its list stay fluid with 10,000 suspects and their thumbnails?

Claims, in headless Chromium at 1280 x 800:
- while the list of 10,000 suspects with thumbnails is scrolled by script, down and back, at least 99 in 100
  frames come at 30 a second or better, one by one and in the grid;
- the same for 10,000 suspects with text;
- a frame takes the page's own thread less than 33 ms of processor time on average;
- a key press in that list is answered within 50 ms.
docs/report.md has what was measured.

    python -m benchmarks page                   # writes the pages to a temporary folder
    TREVISION_PAGES=pages python -m benchmarks page     # keeps them

A frame's time is what lies between two calls of requestAnimationFrame while the list moves by 160 pixels a
frame, or jumps anywhere. On a busy machine it says how busy that is. Two columns do not: the processor time
of the page's thread (script, style and layout, by the browser's own count) and that of all processes of the
browser, drawing included. Headless Chromium draws without a graphics card, so that a browser on a desk has
more time to spare.
"""

from __future__ import annotations

import base64
import io
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from trevision.report.evidence import Evidence, FieldEvidence
from trevision.report.page import Pictures, render
from trevision.report.run_files import RunRecord, Suspect
from trevision.report.source_rows import THUMBNAIL, Thumbnails
from trevision.runs.issue_files import FoundNoise
from trevision.runs.settings import Settings

SUSPECTS = 10_000
CLASSES = tuple(f"class {place}" for place in range(10))
STEP, FRAMES = 160, 300
FRAMES_IN_JUMPS = 60
SCROLL = """
const [step, frames, done] = arguments;
const pane = document.getElementById('pane');
const times = [];
let before = performance.now();
const next = (now) => {
  times.push(now - before);
  before = now;
  if (times.length > frames) return done(times.slice(1));
  if (step) pane.scrollTop += times.length < frames / 2 ? step : -step;
  else pane.scrollTop = (times.length * 7919 % 100) / 100 * pane.scrollHeight;
  requestAnimationFrame(next);
};
requestAnimationFrame(next);
"""
"""Moves the list by `step` pixels a frame, down and back, or without a step to anywhere."""
PRESS = """
const row = document.querySelector('.suspect[aria-current]');
row.focus();
const times = [];
for (let press = 0; press < 200; press++) {
  const start = performance.now();
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', bubbles: true}));
  document.body.offsetHeight;
  times.push(performance.now() - start);
}
return times;
"""


def run_of(source: str, shape: tuple[int, ...]) -> tuple[RunRecord, list[Suspect]]:
    """A made-up run with so many suspects."""
    rng, size = np.random.default_rng(0), len(CLASSES)
    given = rng.integers(size, size=SUSPECTS)
    suggested = (given + rng.integers(1, size, size=SUSPECTS)) % size
    sure = np.sort(rng.uniform(0.5, 1, SUSPECTS))[::-1]
    suspects = [
        Suspect(row, f"folder/{row}.jpg", CLASSES[given[row]], CLASSES[suggested[row]],
                1 - sure[row], sure[row], True, 1 - sure[row])
        for row in range(SUSPECTS)
    ]  # fmt: skip
    transition = 0.9 * np.eye(size) + 0.1 / size
    noise = FoundNoise(CLASSES, 10 * SUSPECTS, 0.9, (SUSPECTS, None, None), transition, None, None,
                       transition * SUSPECTS, (), "Made up.", None)  # fmt: skip
    return RunRecord(None, source, Settings(), {}, [], shape, noise, suspects, None), suspects


def page_of_pictures() -> str:
    from PIL import Image

    run, suspects = run_of("pictures", (3, 64, 64))
    rng = np.random.default_rng(1)
    encoded = []
    for _ in range(SUSPECTS):
        # Smooth colours, as photographs have them, and about as large when compressed.
        small = Image.fromarray(rng.integers(256, size=(9, 9, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BICUBIC).save(file, "JPEG", quality=80)
        encoded.append(base64.b64encode(file.getvalue()).decode("ascii"))
    return render(run, suspects, Evidence(), Pictures(Thumbnails("image/jpeg", encoded, THUMBNAIL), SUSPECTS))


def page_of_texts() -> str:
    run, suspects = run_of("texts", (1,))
    rng = np.random.default_rng(2)
    words = np.array([f"word{number}" for number in range(500)])
    drawn = [rng.choice(words, rng.integers(5, 40)) for _ in suspects]
    fields = FieldEvidence(
        columns=["text"],
        texts=1,
        rows=[[" ".join(row)] for row in drawn],
        order=[[0] for _ in drawn],
        usual=[{}],
        words=[(row[:3].tolist(), row[3:5].tolist()) for row in drawn],
        columns_in_source=1,
    )
    return render(run, suspects, Evidence(fields))


def browser() -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "window-size=1280,800",
    ):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(300)
    driver.command_executor.client_config.timeout = 400
    return driver


def thread_seconds(driver: Any) -> float:
    """Processor time that the page's main thread has used."""
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


def browser_seconds(driver: Any) -> float:
    """Processor time that all processes of the browser have used: also those that draw."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        used[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    root = driver.service.process.pid

    def belongs(number: int) -> bool:
        return number == root or (number in parents and belongs(parents[number]))

    return sum(seconds for number, seconds in used.items() if belongs(number))


def main() -> None:
    kept = os.environ.get("TREVISION_PAGES")
    folder = Path(kept or tempfile.mkdtemp(prefix="trevision-pages-"))
    folder.mkdir(parents=True, exist_ok=True)
    columns = ("list", "median", "99%", "longest", "30 a second", "thread, ms", "all, ms", "opened, s", "MB")
    table = Table(*columns, title=f"milliseconds a frame, {SUSPECTS:,} suspects")
    driver = browser()
    try:
        for name, page in (("pictures", page_of_pictures), ("texts", page_of_texts)):
            path = (folder / f"{name}.html").resolve()
            path.write_text(page(), encoding="utf-8")
            start = time.perf_counter()
            driver.execute_cdp_cmd("Performance.disable", {})
            driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            driver.get(path.as_uri())
            opened = f"{time.perf_counter() - start:.1f}", f"{path.stat().st_size / 1e6:.1f}"
            views = [("one by one", STEP, FRAMES), ("in jumps", 0, FRAMES_IN_JUMPS)]
            if name == "pictures":
                views += [("grid", STEP, FRAMES), ("grid, in jumps", 0, FRAMES_IN_JUMPS)]
            for view, step, frames in views:
                if view == "grid":
                    driver.execute_script("document.getElementById('as-grid').click()")
                driver.execute_script("document.getElementById('pane').scrollTop = 0")
                before, all_before = thread_seconds(driver), browser_seconds(driver)
                times = np.array(driver.execute_async_script(SCROLL, step, frames))
                own = f"{1000 * (thread_seconds(driver) - before) / len(times):.1f}"
                every = f"{1000 * (browser_seconds(driver) - all_before) / len(times):.1f}"
                cells = f"{np.median(times):.1f}", f"{np.quantile(times, 0.99):.1f}", f"{times.max():.1f}"
                often = f"{(times <= 1000 / 30 + 0.5).mean():.1%}"
                table.add_row(f"{name}, {view}", *cells, often, own, every, *opened)
                print(name, view, *cells, often, own, every, *opened, flush=True)  # as it comes
            driver.get(path.as_uri())
            presses = np.array(driver.execute_script(PRESS))
            cells = f"{np.median(presses):.1f}", f"{np.quantile(presses, 0.99):.1f}", f"{presses.max():.1f}"
            table.add_row(f"{name}, a key press", *cells, "", "", "", *opened)
    finally:
        driver.quit()
        if kept is None:
            shutil.rmtree(folder)
    Console(width=110).print(table)
