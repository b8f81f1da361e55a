"""A real browser, and what every visit must do without: errors, and requests to other hosts."""

import csv
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Playwright, expect

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SOON_MS = 30_000.0
expect.set_options(timeout=SOON_MS)
PERCENT = "\N{NO-BREAK SPACE}%"  # after a number: a line never ends between the two
DRAWN = ".plot svg"
WAITING = "figure:not([hidden]) .plot[aria-busy]"
DESK = (1320, 900)
PHONE = (390, 844)
ColorScheme = Literal["light", "dark"]
SCHEMES: tuple[ColorScheme, ...] = get_args(ColorScheme)
OF_COLORS = ("color-contrast", "link-in-text-block")  # axe's rules whose verdict another scheme can change
# The first one has no windows: a visit takes a third less of the processor.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# For its address bar, which nobody sees here, a window of the others loads two pages: half of a visit's time.
NO_PAGES_OF_ITS_OWN = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"


def open_chromium(playwright: Playwright) -> Browser:
    """Start the Chromium that is installed here."""
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        raise RuntimeError(
            "there is no Chromium here: `apt-get install chromium-headless-shell`, or `make test-browser` as root"
        )
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # it refuses to be root in its sandbox
    return playwright.chromium.launch(executable_path=path, args=[*sandbox, NO_PAGES_OF_ITS_OWN])


@dataclass(slots=True)
class Visit:
    """A page at a service, and what went wrong on it.

    refused: statuses that this visit brings about on purpose.
    rules: of axe, by which barriers are looked for; empty: all.
    """

    url: str
    page: Page
    refused: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    rules: tuple[str, ...] = ()

    def open(self, view: str = "") -> Page:
        self.page.goto(f"{self.url}/#/{view}")
        self.page.wait_for_selector("#live[data-state=live]")
        return self.page

    def drawn(self) -> Page:
        self.page.wait_for_function(f"() => document.querySelector('{DRAWN}') && !document.querySelector('{WAITING}')")
        return self.page

    def chart(self, title: str) -> Locator:
        return self.page.locator("figure", has=self.page.get_by_role("heading", name=title, exact=True))

    def data(self, title: str) -> dict[str, list[Any]]:
        button = self.chart(title).get_by_role("button", name="CSV")
        expect(button).to_be_enabled()
        with self.page.expect_download() as saved:
            button.click()
        head, *rows = csv.reader(saved.value.path().read_text("utf-8").splitlines())
        return {name: [float(row[place]) if row[place] else None for row in rows] for place, name in enumerate(head)}

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return a table's rows by the names of its columns; of cells with two lines, each by its own."""
        table = self.page.get_by_role("table", name=name)
        heads = [head.split("\n") for head in table.locator("thead th").all_inner_texts()]
        lines = [
            [cell.split("\n") for cell in row.locator("th, td").all_inner_texts()]
            for row in table.locator("tbody tr").all()
        ]
        return [
            {
                name: line
                for names, said in zip(heads, row, strict=True)
                for name, line in zip(names, said, strict=False)
            }
            for row in lines
        ]

    def keep(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def in_each_scheme(self) -> Iterator[ColorScheme]:
        """Show the page as a system in light colours has it, then as one in dark colours; that needs no new visit.

        In the second one, barriers are only looked for in what the first one does not tell of: the colours.
        """
        try:
            for scheme in SCHEMES:
                self.page.emulate_media(color_scheme=scheme)
                # Colors change over a moment, and would be judged halfway.
                self.page.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished))")
                yield scheme
                self.rules = OF_COLORS
        finally:
            self.rules = ()

    def barriers(self, within: str | None = None) -> list[str]:
        """Return what keeps people out of the page, or of a part of it given as a selector, by axe's rules."""
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(self.rules)} if self.rules else {})
        found = Axe().run(self.page, within, options).response["violations"]
        return [f"{one['impact']}: {one['help']}: {[node['html'][:200] for node in one['nodes']]}" for one in found]


@contextmanager
def visiting(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = DESK,
    scheme: ColorScheme = "light",
    refused: set[int] | None = None,
) -> Iterator[Visit]:
    """Open a browser's window at a service; at the end, nothing may have gone wrong in it."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(SOON_MS)
    visit = Visit(url, context.new_page(), refused or set())
    watch(visit)
    try:
        yield visit
    finally:
        context.close()
    assert not visit.wrong, visit.wrong


def watch(visit: Visit) -> None:
    home = urlsplit(visit.url).netloc

    def said(kind: str, text: str) -> None:
        is_on_purpose = any(f"status of {status}" in text for status in visit.refused)
        if kind in ("error", "warning") and not is_on_purpose:
            visit.wrong.append(f"console: {text}")

    def asked(url: str) -> None:
        if urlsplit(url).scheme != "data" and urlsplit(url).netloc != home:
            visit.wrong.append(f"asked another host: {url}")

    visit.page.on("console", lambda message: said(message.type, message.text))
    visit.page.on("pageerror", lambda error: visit.wrong.append(f"error: {error}"))
    visit.page.on("request", lambda request: asked(request.url))
