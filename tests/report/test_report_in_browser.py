"""The page in a real browser: what a person sees, presses and downloads."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from trevision.data.files.reading import Reading
from trevision.report.page import write_report
from trevision.runs.settings import Settings

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
Select = pytest.importorskip("selenium.webdriver.support.ui").Select

SCRIPT = "<script>alert(1)</script>"
# Everything that ends a script, an attribute, a CSV field or a line of JavaScript.
AWKWARD = "a \"quoted\", 'single' & </script><!-- =1+1 \u2028 \n é 漢"


class Page:
    """One page in the browser, in a window of a given width."""

    def __init__(
        self, browser: Any, path: Path, width: int = 1280, scheme: str = "light", height: int = 900
    ) -> None:
        self.browser, self.path = browser, path
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=width < 600)  # fmt: skip
        # Without motion, or a click could meet a page that is still scrolling.
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.command("Emulation.setEmulatedMedia", features=features)
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(path.parent))
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(path.as_uri())

    def command(self, name: str, **arguments: Any) -> None:
        self.browser.execute_cdp_cmd(name, arguments)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.execute_script(text, *arguments)

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.one(selector).text

    def click(self, selector: str) -> None:
        # The driver scrolls a thing to the edge of the window, under the bar that stays there.
        self.script("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.one(selector).click()

    def start_review(self) -> None:
        """As Tab from the link before the list does."""
        self.script("document.querySelector('.suspect[aria-current]').focus()")

    def press(self, *keys: str) -> None:
        """Each key goes to whatever has the focus then, as from a person's keyboard."""
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def current(self) -> str:
        """The title of the row that has the focus."""
        return self.script("return document.activeElement.querySelector('.name').textContent")

    def choose(self, control: str, label: str) -> None:
        select = Select(self.one(f"#{control}"))
        value = next(one.get_attribute("value") for one in select.options if one.text.startswith(label))
        select.select_by_value(value)

    def rows(self) -> list[tuple[str, str]]:
        """The given and the suggested label of every row that is shown."""
        return [
            tuple(pair)
            for pair in self.of_all_rows(
                "['.given', '.suggested'].map(part => row.querySelector(part + ' .label').textContent)"
            )
        ]

    def names(self) -> list[str]:
        return self.of_all_rows("row.querySelector('.name').textContent")

    def of_all_rows(self, expression: str) -> list[Any]:
        """What an expression says of each row of the list, which only holds the rows near its window."""
        return self.browser.execute_async_script(
            f"""
            const done = arguments[arguments.length - 1];
            (async () => {{
              const told = [];
              for (const chunk of document.querySelectorAll('.chunk')) {{
                chunk.scrollIntoView();
                while (!chunk.children.length) await new Promise(requestAnimationFrame);
                told.push(...[...chunk.children].map((row) => {expression}));
              }}
              done(told);
            }})();
            """
        )

    def download(self) -> list[dict[str, str]]:
        target = self.path.parent / "corrections-run.csv"
        target.unlink(missing_ok=True)
        self.script("document.getElementById('download').click()")
        deadline = time.monotonic() + 60
        while not target.exists() or target.stat().st_size == 0:
            assert time.monotonic() < deadline, "nothing was downloaded"
            time.sleep(0.05)
        with target.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def opened(browser):
    """Opens the page of a run, with nothing remembered from other pages."""

    def open_page(
        folder: Path, width: int = 1280, scheme: str = "light", height: int = 900, **options: Any
    ) -> Page:
        written = write_report(folder, **options)
        page = Page(browser, written.path, width, scheme, height)
        page.script("localStorage.clear()")
        browser.refresh()
        return page

    return open_page


def line(issue: dict[str, Any], corrected: str, decision: str) -> dict[str, str]:
    return {
        "row": str(issue["row"]),
        "name": issue["name"],
        "given": issue["given"],
        "corrected": corrected,
        "decision": decision,
    }


def test_the_page_renders_without_a_console_message_or_a_network_request(picture_run, opened):
    folder, issues = picture_run(data_notes=["2 files were skipped."])
    page = opened(folder)
    wrong = json.loads((folder / "noise.json").read_text())["wrong"]["estimate"]
    assert f"About {wrong:.0f} of 400 labels" in page.text("h1")
    assert "2 files were skipped." in page.text(".notes")
    assert len(page.all("table.matrix")) == 1
    assert page.text("#progress-text") == f"0 of {sum(one['suspect'] for one in issues)} decided"
    assert page.script("return document.querySelector('.suspect img').naturalWidth") == 8
    assert page.browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")]
    asked = [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert all(url.startswith("data:") or url == page.path.as_uri() for url in asked)


def test_the_downloaded_file_says_what_was_pressed(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    page.start_review()
    other = next(
        name
        for name in ("cat", "dog", "eel", "fox")
        if name not in (issues[3]["given"], issues[3]["suggested"])
    )
    page.press("a", "k", "s", "c")
    Select(page.one("#choose-class")).select_by_visible_text(other)
    page.press(Keys.ENTER)
    page.press("a", "u", "k", Keys.ARROW_DOWN, "a")
    assert page.download() == [
        line(issues[0], issues[0]["suggested"], "accept"),
        line(issues[1], issues[1]["given"], "keep"),
        line(issues[3], other, "change"),
        line(issues[4], issues[4]["given"], "keep"),
        line(issues[6], issues[6]["suggested"], "accept"),
    ]
    assert "5 of 40 decided, 1 skipped" in page.text("#progress-text")


def test_buttons_decide_as_the_keys_do_and_decisions_are_announced(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    page.click(".suspect:nth-child(2) [data-action=accept]")
    assert f"Changed to {issues[1]['suggested']}" in page.text(".suspect:nth-child(2) .outcome")
    announced = page.script("return document.getElementById('announce').textContent")
    assert issues[1]["name"] in announced
    assert "1 of 40 decided" in announced
    assert page.current() == issues[2]["name"]
    page.click("#undo")
    assert page.current() == issues[1]["name"]
    assert not page.one("#download").is_enabled()


def test_a_class_pair_filters_the_list_and_keys_act_on_what_is_shown(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    likely = [one for one in issues if one["suspect"]]
    pair = likely[5]["given"], likely[5]["suggested"]
    fitting = [one for one in likely if (one["given"], one["suggested"]) == pair]
    page.choose("filter-given", pair[0])
    page.choose("filter-suggested", pair[1])
    assert page.rows() == [pair] * len(fitting)
    page.click(".suspect")
    page.press("a")
    assert page.download() == [line(fitting[0], pair[1], "accept")]
    page.click("#clear-filters")
    assert len(page.rows()) == 40
    button = page.one("#mix-ups button[data-given]")
    pair = button.get_attribute("data-given"), button.get_attribute("data-suggested")
    page.click("#mix-ups button[data-given]")
    assert set(page.rows()) == {pair}


def test_the_list_is_sorted_as_asked(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    likely = [one for one in issues if one["suspect"]]

    assert page.names() == [one["name"] for one in likely]
    page.choose("sort", "row number")
    assert page.names() == [one["name"] for one in sorted(likely, key=lambda one: one["row"])]
    page.choose("sort", "least")
    assert page.names() == [one["name"] for one in likely[::-1]]


def test_a_reload_keeps_the_progress_and_another_list_does_not_take_it_over(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    page.start_review()
    page.press("a", "k", "s")
    page.browser.refresh()
    assert "2 of 40 decided, 1 skipped" in page.text("#progress-text")
    assert [one["decision"] for one in page.download()] == ["accept", "keep"]
    assert page.script(
        "const box = (one) => document.querySelector(one).getBoundingClientRect();"
        "return box('[aria-current]').top >= box('.head').bottom - 1"
        " && box('[aria-current]').bottom <= box('#pane').bottom"
    )
    page.start_review()
    assert page.current() == issues[3]["name"]
    shorter = Page(page.browser, write_report(folder, suspects=20).path)
    assert shorter.text("#progress-text") == "0 of 20 decided"


def test_without_local_storage_the_review_works_and_says_that_nothing_is_kept(table_run, browser):
    folder, issues = table_run()
    forbid = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('forbidden') }})"
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": forbid})
    try:
        page = Page(browser, write_report(folder).path)
        assert page.one("#not-kept").is_displayed()
        page.start_review()
        page.press("a")
        assert page.download() == [line(issues[0], issues[0]["suggested"], "accept")]
        assert browser.get_log("browser") == []
        page.press("u")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_names_that_are_markup_are_shown_as_text_and_come_back_whole(table_run, opened):
    folder, issues = table_run((SCRIPT, "b & c", "'quoted'"), remark=AWKWARD)
    page = opened(folder)
    assert page.script("return document.scripts.length") == 8
    assert SCRIPT in page.text(".matrix th[scope=row]")
    assert SCRIPT in page.text("#details")
    first = next(place for place, one in enumerate(issues) if one["suggested"] == SCRIPT)
    shown = page.script("return document.querySelectorAll('.suspect')[arguments[0]].textContent", first)
    assert SCRIPT in shown
    assert issues[first]["name"] in shown
    assert f"{AWKWARD} {issues[first]['row']}" in shown
    page.click(f".suspect:nth-child({first + 1}) [data-action=accept]")
    assert page.download() == [line(issues[first], SCRIPT, "accept")]
    assert page.browser.get_log("browser") == []


def test_ten_thousand_suspects_keep_the_page_small_and_the_keys_working(table_run, opened):
    folder, issues = table_run(rows=12_000, suspects=10_000)
    page = opened(folder)
    page.start_review()
    page.press("k" * 51)
    assert "51 of 10,000 decided" in page.text("#progress-text")
    assert page.current() == issues[51]["name"]
    page.press(Keys.END)
    assert page.current() == issues[9_999]["name"]
    time.sleep(0.5)
    assert page.script("return document.querySelectorAll('.suspect').length") < 200
    assert len(page.download()) == 51


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, of a computed colour."""
    numbers = [float(one) for one in re.findall(r"[\d.]+(?:e-\d+)?", colour)][:3]
    parts = numbers if colour.startswith("color(") else [one / 255 for one in numbers]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasts(page: Page) -> dict[str, float]:
    """The contrast of every kind of text with what lies behind it."""
    found = page.script(
        """
        const behind = (element) => {
          for (let one = element; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (!/^rgba\\(.*, 0\\)$/.test(colour)) return colour;
          }
        };
        const table = document.querySelector('.matrix tbody tr');
        for (const kind of ['right', 'wrong']) for (let level = 0; level <= 10; level++) {
          const cell = table.insertCell();
          cell.className = `${kind}-${level}`;
          cell.textContent = '5';
        }
        const told = {};
        for (const element of document.querySelectorAll('main *, header *, footer')) {
          if (!element.offsetParent && element.tagName !== 'FOOTER') continue;
          const texts = [...element.childNodes].some(one => one.nodeType === 3 && one.data.trim());
          if (!texts || element.tagName === 'text') continue;
          const kind = `${element.tagName}.${element.className}`;
          told[kind] = [getComputedStyle(element).color, behind(element)];
        }
        return told;
        """
    )
    levels = {name: [luminance(one) for one in colours] for name, colours in found.items()}
    return {name: (max(pair) + 0.05) / (min(pair) + 0.05) for name, pair in levels.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_aa_asks_for(picture_run, opened, scheme):
    page = opened(picture_run()[0], scheme=scheme)
    page.start_review()
    page.press("a", "k", "s")
    found = contrasts(page)
    assert {"TD.wrong-10", "TD.right-0", "P.outcome", "BUTTON.primary"} <= found.keys()
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_the_page_is_dark_where_the_system_is_and_a_button_overrules_it(picture_run, opened):
    folder, _ = picture_run()

    def background(page: Page) -> float:
        return luminance(page.script("return getComputedStyle(document.body).backgroundColor"))

    page = opened(folder, scheme="dark")
    assert background(page) < 0.05
    page.click("#theme")
    assert page.text("#theme") == "Theme: light"
    assert background(page) > 0.8
    page.browser.refresh()
    assert background(page) > 0.8
    assert background(opened(folder, scheme="light")) > 0.8


@pytest.mark.parametrize(("classes", "width"), [(4, 390), (40, 360), (120, 390)])
def test_a_phone_shows_the_page_without_scrolling_sideways(table_run, opened, classes, width):
    names = [f"a rather long name of a class, number {place}" for place in range(classes)]
    page = opened(table_run(names, rows=1000, suspects=100)[0], width=width)
    assert page.script("return [document.documentElement.scrollWidth, innerWidth]") == [width, width]
    # What is wider than the window lies in something that scrolls within itself.
    cut_off = page.script(
        """
        const scrolls = (one) => one
          && (/auto|scroll/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
        return [...document.querySelectorAll('main *')]
          .filter((one) => one.offsetParent && !one.closest('.unseen, .head'))
          .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one.parentElement))
          .map((one) => one.outerHTML.slice(0, 90));
        """
    )
    assert cut_off == []
    page.script("document.querySelector('.suspect [data-action=accept]').click()")
    assert "1 of 100 decided" in page.text("#progress-text")


def test_arrow_keys_walk_the_matrix_and_tell_value_and_interval(picture_run, opened):
    folder, _ = picture_run()
    page = opened(folder)
    noise = json.loads((folder / "noise.json").read_text())
    page.script("document.querySelector('#transition td[tabindex]').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    value, low, high = (100 * noise[name][1][2] for name in ("transition", "low", "high"))
    expected = f"Truly dog, labelled eel: {value:.1f}% ({low:.1f}% to {high:.1f}%)"
    assert page.text("#readout") == expected
    assert len(page.all("#readout svg .interval")) == 1


def test_a_screen_reader_finds_landmarks_headings_and_headers(picture_run, opened):
    page = opened(picture_run()[0])
    assert len(page.all("main")) == 1
    assert len(page.all("h1")) == 1
    sections = page.all("main > section")
    assert all(page.all(f"#{one.get_attribute('aria-labelledby')}") for one in sections)
    unnamed = page.script(
        "return [...document.querySelectorAll('button, select, progress')].filter(one => "
        "!one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels?.length).length"
    )
    assert unnamed == 0
    assert page.script("return [...document.querySelectorAll('thead th, tbody th')].every(one => one.scope)")
    assert page.one("#announce").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("maker", ["picture_run", "table_run"])
def test_the_first_suspect_and_its_keys_are_seen_without_scrolling(maker, request, opened):
    page = opened(request.getfixturevalue(maker)()[0], height=800)
    low = page.script(
        "return ['.keys', '.suspect', '.suspect .given kbd', '.suspect .suggested kbd'].map("
        "one => document.querySelector(one).getBoundingClientRect().bottom)"
    )
    assert max(low) < 700
    assert page.script("return getComputedStyle(document.querySelector('.suspect kbd')).display") != "none"
    headings = [one.text.split(",")[0] for one in page.all("h2")]
    assert headings == ["40 suspect labels", "What follows the review", "Details"]


@pytest.mark.parametrize("maker", ["picture_run", "table_run"])
def test_on_a_phone_the_first_decision_can_be_made_without_scrolling(maker, request, opened):
    page = opened(request.getfixturevalue(maker)()[0], width=390, height=844)
    for action in ("accept", "keep"):
        button = page.one(f".suspect [data-action={action}]")
        assert page.script("return arguments[0].getBoundingClientRect().bottom", button) < 844
    assert not page.one("#search").is_displayed()
    page.one("#tools-open").click()
    assert page.one("#search").is_displayed()
    assert page.one("#tools-open").get_attribute("aria-expanded") == "true"


def test_the_keys_work_from_the_moment_the_page_opens(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    page.press("a", "k")
    assert page.current() == issues[2]["name"]
    page.press(Keys.ARROW_UP, "s", "z", "z", "z")
    assert page.text("#progress-text") == "0 of 40 decided"
    page.press("/")
    assert page.script("return document.activeElement.id") == "search"
    page.press(*"az")  # typed, not decided
    assert page.text("#progress-text") == "0 of 40 decided"
    page.press(Keys.ESCAPE)
    assert page.current() == issues[0]["name"]


def test_a_search_lists_the_rows_that_hold_the_words(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    wanted = issues[7]["row"]
    page.one("#search").send_keys(f"PLAIN {wanted}")
    fitting = [one["name"] for one in issues if one["suspect"] and f"plain {wanted}" in f"plain {one['row']}"]
    assert page.names() == fitting
    assert page.text("#shown-text") == f"{len(fitting)} shown"
    page.one("#search").send_keys("no such words")
    assert page.names() == []
    assert page.one("#nothing").is_displayed()
    page.click("#clear-filters")
    assert len(page.names()) == 40


def test_a_mix_up_is_accepted_above_a_confidence_and_taken_back_whole(table_run, opened):
    folder, issues = table_run(("cat", "dog"), rows=900, suspects=200)
    page = opened(folder)
    page.press("k")
    first = issues[1]
    page.press("b")
    assert page.one("#bulk").is_displayed()
    # The row under the cursor says which mix-up is meant.
    assert page.script("return document.getElementById('bulk-pair').selectedOptions[0].text").startswith(
        f"{first['given']} → {first['suggested']} ("
    )
    page.script(
        "const range = document.getElementById('bulk-least'); range.value = 80;"
        "range.dispatchEvent(new Event('input'))"
    )
    fitting = [
        one
        for one in issues[1:200]
        if (one["given"], one["suggested"]) == (first["given"], first["suggested"])
        and round(one["p_suggested"], 4) >= 0.8
    ]
    assert page.text("#bulk-take") == f"Accept {len(fitting)}"
    page.click("#bulk-take")
    assert page.text("#progress-text") == f"{len(fitting) + 1} of 200 decided"
    downloaded = page.download()
    assert downloaded[0]["decision"] == "keep"
    assert downloaded[1:] == [line(one, one["suggested"], "accept") for one in fitting]
    page.press("z")
    assert page.text("#progress-text") == "1 of 200 decided"
    page.press("z")
    assert page.text("#progress-text") == "0 of 200 decided"


def test_the_chooser_leaves_out_the_label_that_a_row_has(table_run, opened):
    folder, issues = table_run()
    page = opened(folder)
    page.press("c")
    offered = [one.text for one in Select(page.one("#choose-class")).options]
    assert sorted([*offered, issues[0]["given"]]) == ["cat", "dog", "eel", "fox"]


def test_words_that_speak_for_a_class_are_marked_and_stay_text(table_run, opened):
    settings = Settings(reading=Reading(label_column="label", name_column="id", text_column=("remark",)))
    remark = "<img src=x onerror=alert(1)> marked"
    folder, issues = table_run(("cat", "dog"), rows=900, suspects=60, remark=remark, settings=settings)
    write_told_words(folder.parent / "table.csv", issues)
    list_all_rows(folder)
    page = opened(folder)
    first = page.one(".suspect .text")
    given, suggested = issues[0]["given"], issues[0]["suggested"]
    assert first.text == f"{remark} is-{given} was-{suggested}"
    marks = page.script("return [...document.querySelector('.suspect').querySelectorAll('mark')].map(one => "
                        "[one.className, one.textContent, one.title])")  # fmt: skip
    assert [mark[:2] for mark in marks] == [["against", given], ["for", suggested]]
    assert f"rows labelled {suggested} than of those labelled {given}" in marks[1][2]
    assert page.all("img") == []
    assert page.browser.get_log("browser") == []


def list_all_rows(folder: Path) -> None:
    """Adds the rows that the made-up issues leave out, with the labels of the table, as no suspects."""
    path = folder / "issues.parquet"
    listed = pyarrow.parquet.read_table(path).to_pylist()
    known = {one["row"] for one in listed}
    with (folder.parent / "table.csv").open(newline="", encoding="utf-8") as file:
        for row, fields in enumerate(csv.DictReader(file)):
            if row not in known:
                same = {"given": fields["label"], "suggested": fields["label"]}
                listed.append({**listed[-1], "row": row, "name": fields["id"], "suspect": False, **same})
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(listed), path)


def write_told_words(table: Path, issues: list[dict[str, Any]]) -> None:
    """Gives each row the name of its class in its text; suspects also that of the suggested one."""
    suspects = {one["row"]: one for one in issues if one["suspect"]}
    with table.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with table.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        for number, (name, age, text, label) in enumerate(rows):
            said = f"{text.rsplit(' ', 1)[0]} is-{label}"
            other = f" was-{suspects[number]['suggested']}" if number in suspects else ""
            lines.writerow([name, age, said + other, label])


def test_a_grid_of_pictures_is_walked_and_decided_by_keys_and_can_be_enlarged(picture_run, opened):
    folder, _ = picture_run(suspects=60)
    page = opened(folder)

    def picture_width() -> float:
        return page.script("return document.querySelector('.suspect img').getBoundingClientRect().width")

    page.press("g")
    assert page.one("#as-grid").get_attribute("aria-pressed") == "true"
    columns = int(page.script("return document.getElementById('rows').style.getPropertyValue('--columns')"))
    assert columns > 4
    tops = page.script(
        "return [...document.querySelectorAll('.suspect')].map(one => one.getBoundingClientRect().top)"
    )
    assert len(set(tops[:columns])) == 1
    assert tops[columns] > tops[0]

    def cursor() -> int:
        return int(page.script("return document.querySelector('[aria-current]').dataset.index"))

    page.press(Keys.ARROW_DOWN)
    assert cursor() == columns
    page.press(Keys.ARROW_RIGHT, "a", Keys.ARROW_UP)
    assert cursor() == 2
    assert "1 of 60 decided" in page.text("#progress-text")
    assert picture_width() == 112
    page.script(
        "const zoom = document.getElementById('zoom');"
        "zoom.value = 200; zoom.dispatchEvent(new Event('input'))"
    )
    assert picture_width() == 200
    assert cursor() == 2
    page.press("g")
    assert page.one("#suspects .head").is_displayed()


def test_column_headers_stay_while_the_list_scrolls(table_run, opened):
    page = opened(table_run(rows=900, suspects=300)[0])
    page.press(Keys.ARROW_DOWN, Keys.END)
    place = page.script(
        "const box = (id) => document.querySelector(id).getBoundingClientRect();"
        "return [box('.head').top - box('#pane').top, box('[aria-current]').top - box('.head').bottom]"
    )
    assert abs(place[0]) <= 1.5
    assert place[1] > -1


def test_similar_rows_are_shown_beside_the_row_that_has_the_cursor(picture_run, opened):
    folder, issues = picture_run()
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(4), 400), np.zeros(400, dtype=int)
    np.savez(folder / "probabilities.npz", probs=probs, labels=labels, rows=np.arange(400), folds=5)
    page = opened(folder)
    page.press("r")
    told = page.script(
        "return [...document.querySelectorAll('.alike li')].map("
        "one => [one.textContent, one.querySelector('img').naturalWidth])"
    )
    unlisted = {f"{one['given']} row {one['row']}" for one in issues if not one["suspect"]}
    assert len(told) == 4
    assert {text for text, _ in told} <= unlisted
    assert {width for _, width in told} == {8}
    page.press(Keys.ARROW_DOWN)
    assert len(page.all(".suspect:nth-child(2) .alike li")) == 4
    assert len(page.all(".alike")) == 1
    page.press("r")
    assert page.all(".alike") == []


def test_the_next_command_is_copied_whole(table_run, opened):
    folder, _ = table_run()
    page = opened(folder)
    page.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.click("[data-copies=fit-command]")
    deadline = time.monotonic() + 10  # the browser answers when it has copied
    while page.text("[data-copies=fit-command]") == "Copy" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert page.text("[data-copies=fit-command]") in ("Copied", "Selected")
    command = page.text("#fit-command")
    assert command.startswith("trevision fit cleaned.csv ")
    assert "--label-column label" in command
    copied = page.script("return getSelection().toString()")
    if page.text("[data-copies=fit-command]") == "Selected":
        assert copied == command


AXE = os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js")


@pytest.mark.skipif(not Path(AXE).is_file(), reason="needs axe-core: npm install axe-core, or AXE_CORE=PATH")
@pytest.mark.parametrize(
    ("maker", "width", "scheme"),
    [("picture_run", 1280, "light"), ("table_run", 1280, "dark"), ("table_run", 390, "light")],
)
def test_axe_finds_no_serious_fault(maker, width, scheme, request, opened):
    page = opened(request.getfixturevalue(maker)()[0], width=width, scheme=scheme)
    page.press("a", "k", "s")
    page.script(Path(AXE).read_text(encoding="utf-8"))
    found = page.browser.execute_async_script("axe.run(document).then(arguments[0])")
    assert found["passes"]
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
