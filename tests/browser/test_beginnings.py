"""Where a visit begins: a service without datasets, a key that is asked for, an address that leads nowhere."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from playwright.sync_api import Browser

from tests.browser.chromium import DESK, PHONE, visiting
from tests.serving import ServiceProcess, running_service

OPERATOR = "the-operators-own-key"


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("named")) as service:
        httpx.put(f"{service.url}/datasets/guru", json={"tasks": [{"id": "t1"}]}).raise_for_status()
        yield service


def test_an_empty_service_is_readable_by_all_and_its_program_runs_as_it_is(browser: Browser, tmp_path: Path):
    with running_service(tmp_path) as service, visiting(browser, service.url) as visit:
        page = visit.open()
        page.get_by_text(f"bots demo --url {service.url}").wait_for()
        for width, height in (DESK, PHONE):
            page.set_viewport_size({"width": width, "height": height})
            assert not visit.barriers()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        visit.keep("empty")
        program = page.get_by_role("region", name="the program", exact=True)
        program.click()
        assert page.evaluate("() => getSelection().toString().trim()") == program.inner_text().strip()
        command = [sys.executable, "-c", program.inner_text()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert len(done.stdout.splitlines()) == 20
        page.get_by_role("link", name="default").wait_for()  # appears without a reload


@pytest.mark.parametrize("view", ["datasets/guru", "datasets/guru/runs/first"])
def test_a_dataset_without_a_step_shows_how_a_trainer_is_connected_to_it(browser: Browser, tmp_path: Path, view: str):
    with running_service(tmp_path) as service, visiting(browser, service.url) as visit:
        httpx.put(f"{service.url}/datasets/guru", json={"tasks": [{"id": "t1"}, {"id": "t2"}]}).raise_for_status()
        httpx.put(f"{service.url}/datasets/guru/runs/first", json={}).raise_for_status()
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = visit.open(view)
        page.get_by_role("button", name="Copy the lines for verl").click()
        page.get_by_role("button", name="Copy the lines for verl").get_by_text("Copied").wait_for()
        lines = yaml.safe_load(page.evaluate("() => navigator.clipboard.readText()"))
        assert lines["data"]["bots"].items() >= {"dataset": "guru", "run": "first", "url": service.url}.items()
        compile(page.get_by_role("region", name="the lines for TRL").inner_text(), "TRL", "exec")
        for width, height in (DESK, PHONE):
            page.set_viewport_size({"width": width, "height": height})
            assert not visit.barriers()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        program = page.get_by_role("region", name="the lines for Python").inner_text()
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
        page.get_by_role("heading", name="Connect your trainer").wait_for(state="detached")
        visit.drawn()


def test_a_further_dataset_begins_at_the_table_of_all_runs(browser: Browser, named: ServiceProcess):
    with visiting(browser, named.url) as visit:
        visit.open().get_by_role("link", name="New dataset").click()
        visit.page.get_by_text(
            f"bots datasets import problems.csv --name problems --id problem --url {named.url}"
        ).wait_for()


@pytest.mark.parametrize(
    ("address", "title", "leads_to"),
    [
        ("datasets/zzz", "There is no dataset zzz", "All runs"),
        ("datasets/guru/runs/qwen", "Dataset guru has no run qwen", "Runs of guru"),
        ("dataset/guru", "This page has no view #/dataset/guru", "All runs"),
    ],
)
def test_an_address_that_leads_nowhere_says_what_is_missing(
    browser: Browser, named: ServiceProcess, address: str, title: str, leads_to: str
):
    with visiting(browser, named.url, refused={404}) as visit:
        page = visit.open(address)
        page.get_by_role("heading", name=title).wait_for()
        assert not visit.barriers()
        page.get_by_role("link", name=leads_to, exact=True).click()
        page.get_by_role("link", name="default").wait_for()


def test_what_is_missing_is_shown_once_it_exists(browser: Browser, named: ServiceProcess):
    with visiting(browser, named.url, refused={404}) as visit:
        page = visit.open("datasets/guru/runs/later")
        page.get_by_role("heading", name="Dataset guru has no run later").wait_for()
        httpx.put(f"{named.url}/datasets/guru/runs/later", json={}).raise_for_status()
        page.get_by_role("note", name="Verdict").wait_for()


def test_the_command_at_sign_in_works_as_printed(browser: Browser, tmp_path: Path):
    with (
        running_service(tmp_path, admin_key=OPERATOR) as service,
        visiting(browser, service.url, refused={401}) as visit,
    ):
        page = visit.page
        page.goto(service.url)
        page.get_by_text("How do I get a key?").click()
        command = page.get_by_role("region", name="the command that creates a key").inner_text()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "BOTS_API_KEY": OPERATOR, "PATH": path}
        made = subprocess.run(
            [*shlex.split(command), "--json"], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        assert not visit.barriers()
        page.get_by_label("API key").fill(json.loads(made.stdout)["key"])
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_text("No dataset yet").wait_for()
