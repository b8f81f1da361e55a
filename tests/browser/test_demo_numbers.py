"""What `bots demo` says at its end is what the page shows."""

import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chromium import PERCENT, visiting
from tests.cli.running import BOTS, clean_environment
from tests.demo.closing_tables import ClosingTable, closing_table_in
from tests.serving import running_service

STEPS, DATASET = 60, "rlvr-run-678"  # the smaller of its two replays
DEMO_S = 180


def replay_at(url: str, folder: Path) -> ClosingTable:
    """Run the demo at a service, as a script would."""
    command = [*BOTS, "demo", "--exit", "--both-references", "--steps", str(STEPS), "--url", url]
    environment = clean_environment(COLUMNS="100")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEMO_S, check=True
    )
    return closing_table_in(done.stdout)


def compact(number: str) -> str:
    """Return a count as the page's tiles show it: 43061 is 43.1K."""
    value = int(number.replace(",", ""))
    return str(value) if value < 1000 else f"{value / 1000:.1f}".removesuffix(".0") + "K"


def tile(page: Page, name: str) -> Locator:
    """Return a tile of a run's page by its name."""
    return page.locator(".tiles > div").filter(has=page.get_by_text(name, exact=True))


def test_the_demos_numbers_are_those_of_the_page(browser: Browser, tmp_path: Path):
    with running_service(tmp_path / "service") as service, visiting(browser, service.url) as visit:
        said = replay_at(service.url, tmp_path)
        runs = httpx.get(f"{service.url}/overview").raise_for_status().json()["runs"]
        (rows,) = said.replays.values()
        for label, cells in rows.items():
            (run,) = (one["run"] for one in runs if one["run"].startswith(label))
            page = visit.open(f"datasets/{DATASET}/runs/{run}")
            tile(page, "Tasks met").get_by_text(f"{cells['tasks met']} different").wait_for()
            shown = tile(page, "Effective task ratio").locator(".value").inner_text().removesuffix(PERCENT)
            assert float(shown) == pytest.approx(100 * float(cells["last 50 steps"]))
            if label == "uniform":
                continue
            tile(page, "vs uniform").get_by_text(cells["vs uniform"].replace("x", "\u00d7"), exact=True).wait_for()
            tile(page, "Rollouts saved").get_by_text(compact(cells["rollouts saved"]), exact=True).wait_for()
        page = visit.open(f"datasets/{DATASET}")
        best = max((run for run in runs if is_healthy(run)), key=lambda run: run["gain"]["factor"])
        change = round(100 * (best["gain"]["factor"] - 1))
        expect(page.locator(".headline")).to_have_text(
            f"+{change}{PERCENT} effective tasks for the same {said.rollouts} rollouts"
        )
        gains = {run["run"].rpartition("-")[0]: run["gain"]["factor"] for run in runs if run["gain"]}
        for label, percent in said.percents.items():
            assert percent == round(100 * (gains[label] - 1))


def is_healthy(run: dict[str, Any]) -> bool:
    """Return whether a run may be praised."""
    return run["verdict"]["kind"] == "healthy" and run["gain"] is not None
