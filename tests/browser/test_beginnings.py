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
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import DESK, PHONE, Visit, visiting
from tests.serving import ServiceProcess, running_service

OPERATOR = "the-operators-own-key"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service without datasets; tests delete what they create."""
    with running_service(tmp_path_factory.mktemp("empty")) as service:
        yield service


@pytest.fixture
def visit(browser: Browser, empty: ServiceProcess) -> Iterator[Visit]:
    for dataset in httpx.get(f"{empty.url}/datasets").json()["datasets"]:
        httpx.delete(f"{empty.url}/datasets/{dataset['name']}").raise_for_status()
    with visiting(browser, empty.url, refused={409, 422}) as opened:
        opened.open()
        opened.page.get_by_text("No dataset yet").wait_for()
        yield opened


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with datasets and runs whose names are alike."""
    with running_service(tmp_path_factory.mktemp("named")) as service, httpx.Client(base_url=service.url) as http:
        for dataset in ("guru-math", "guru-code", "unlike"):
            http.put(f"/datasets/{dataset}", json={"tasks": [{"id": "t1"}]}).raise_for_status()
        for run in ("qwen-7b", "qwen-1.5b"):
            http.put(f"/datasets/guru-math/runs/{run}", json={}).raise_for_status()
        yield service


def choose(page: Page, file: Path) -> None:
    page.locator("#task-file").set_input_files(file)


def created(service: ServiceProcess, name: str, run: str = "default") -> dict[str, dict]:
    """Return the tasks of a dataset, by their ids."""
    tasks = httpx.get(f"{service.url}/datasets/{name}/runs/{run}/tasks").raise_for_status().json()["tasks"]
    return {task["id"]: task for task in tasks}


def reference_models(service: ServiceProcess, name: str) -> list[str]:
    return httpx.get(f"{service.url}/datasets/{name}").raise_for_status().json()["reference_models"]


def test_a_dropped_csv_becomes_a_dataset_whose_id_column_is_suggested(visit: Visit, empty: ServiceProcess, tmp_path):
    rows = [("a,b", 'with a "quote"', "0.25"), ("short", "line\nbreak", ""), ("plain", "x", "1")]
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    page, text = visit.page, "\ufeffproblem_id,text,pass_rate\r\n" + "\r\n".join(quoted) + "\r\n"
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "My problems (1).csv", { type: "text/csv" }));
            const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
            document.querySelector(".drop-zone").dispatchEvent(drop);
        }""",
        text,
    )
    expect(page.get_by_label("Name of the dataset")).to_have_value("My-problems-1")
    expect(page.get_by_label("Column with the task ids")).to_have_value("problem_id")
    expect(page.get_by_label("Column with a model")).to_have_value("pass_rate")
    assert not visit.barriers()
    page.get_by_role("button", name="Create dataset").click()
    page.wait_for_function("() => location.hash === '#/datasets/My-problems-1/runs/default'")
    assert set(created(empty, "My-problems-1")) == {row[0] for row in rows}
    assert reference_models(empty, "My-problems-1") == ["pass_rate"]


def test_json_lines_in_the_services_own_form_are_sent_as_they_are(visit: Visit, empty: ServiceProcess, tmp_path):
    lines = [
        {"reference_models": ["weak", "strong"]},
        {"id": "one", "reference_pass_rates": [0.25, 0.5], "tags": ["math"]},
        {"id": "two"},
    ]
    file = tmp_path / "pool.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    choose(visit.page, file)
    expect(visit.page.get_by_label("Name of the dataset")).to_have_value("pool")
    assert visit.page.get_by_label("Column with the task ids").count() == 0
    visit.page.get_by_role("button", name="Create dataset").click()
    visit.page.wait_for_function("() => location.hash.includes('/runs/')")
    assert created(empty, "pool")["one"]["tags"] == ["math"]
    assert reference_models(empty, "pool") == ["weak", "strong"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("twice.csv", "id\na\nb\na\n", "task ids must differ"),
        ("rates.csv", "id,pass_rate\na,0.5\nb,1.5\n", "task 2"),
        ("words.csv", "id,pass_rate\na,often\n", "Expected"),
        ("bare.csv", "id\n", "at least one task"),
    ],
)
def test_what_the_service_refuses_is_said_in_words_and_can_be_tried_again(
    visit: Visit, empty: ServiceProcess, tmp_path, name, content, words
):
    file = tmp_path / name
    file.write_text(content)
    choose(visit.page, file)
    visit.page.get_by_role("button", name="Create dataset").click()
    alert = visit.page.locator(".welcome [role=alert]")
    expect(alert).not_to_be_empty()
    assert words in alert.inner_text()
    expect(visit.page.get_by_role("button", name="Create dataset")).to_be_enabled()
    file.write_text("id\nright\n")
    choose(visit.page, file)
    expect(alert).to_be_empty()
    visit.page.get_by_role("button", name="Create dataset").click()
    visit.page.wait_for_function("() => location.hash.includes('/runs/')")
    assert set(created(empty, name.removesuffix(".csv"))) == {"right"}


def test_names_in_a_file_never_become_markup(visit: Visit, empty: ServiceProcess, tmp_path):
    file = tmp_path / "names.csv"
    file.write_text("<img src=x onerror=alert(1)>,id\n<b>bold</b>,<i>task</i>\n")
    choose(visit.page, file)
    visit.page.get_by_label("Column with the task ids").select_option("<img src=x onerror=alert(1)>")
    assert visit.page.locator(".welcome img").count() == 0
    visit.page.get_by_role("button", name="Create dataset").click()
    visit.page.wait_for_function("() => location.hash.includes('/runs/')")
    assert set(created(empty, "names")) == {"<b>bold</b>"}


def copied(visit: Visit, label: str) -> str:
    """Press a copy button, and return what is in the clipboard then."""
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.get_by_role("button", name=f"Copy {label}").click()
    visit.page.get_by_role("status").get_by_text(f"Copied {label}").wait_for()
    return visit.page.evaluate("() => navigator.clipboard.readText()")


def test_the_program_to_copy_runs_as_it_is(visit: Visit, empty: ServiceProcess):
    program = copied(visit, "the program")
    assert len([line for line in program.splitlines() if line]) <= 8
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert len(done.stdout.splitlines()) == 20
    visit.page.get_by_role("link", name="default").wait_for()  # appears without a reload
    assert httpx.get(f"{empty.url}/datasets/first/runs/default").json()["step"] == 20


def test_an_empty_service_is_readable_by_all(visit: Visit):
    for width, height in (DESK, PHONE):
        visit.page.set_viewport_size({"width": width, "height": height})
        for _ in visit.in_each_scheme():
            assert not visit.barriers()
            assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("address", "title", "near"),
    [
        ("datasets/guru-mth", "There is no dataset guru-mth", ["guru-math"]),
        ("datasets/GURU", "There is no dataset GURU", ["guru-code", "guru-math"]),
        ("datasets/guru-math/runs/qwen7b", "Dataset guru-math has no run qwen7b", ["qwen-7b"]),
        ("datasets/unlike/runs/qwen-7b", "Dataset unlike has no run qwen-7b", ["guru-math / qwen-7b"]),
        ("datasets/zzz", "There is no dataset zzz", []),
        ("dataset/guru-math", "This page has no view #/dataset/guru-math", []),
    ],
)
def test_an_address_that_leads_nowhere_says_what_is_missing_and_offers_near_names(
    browser: Browser, named: ServiceProcess, address, title, near
):
    with visiting(browser, named.url, refused={404}) as visit:
        page = visit.open(address)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        links = page.locator(".near a")
        expect(links).to_have_count(len(near))
        assert sorted(links.all_inner_texts()) == sorted(near)
        assert not visit.barriers()
        if near:
            links.first.click()
            page.wait_for_selector(".grid, .compare")
        else:
            page.get_by_role("link", name="All runs").click()
            page.locator(".runs").wait_for()


def test_the_command_at_sign_in_works_as_printed(browser: Browser, tmp_path):
    with (
        running_service(tmp_path, admin_key=OPERATOR) as service,
        visiting(browser, service.url, refused={401}) as visit,
    ):
        page = visit.page
        page.goto(service.url)
        page.get_by_text("How do I get a key?").click()
        command = page.locator(".sign-in pre").inner_text()
        environment = {
            **os.environ,
            "BOTS_API_KEY": OPERATOR,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        made = subprocess.run(
            [*shlex.split(command), "--json"], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        assert not visit.barriers()
        page.get_by_label("API key").fill(json.loads(made.stdout)["key"])
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_text("Your key can't create datasets").wait_for()


def test_a_key_that_may_create_datasets_does_so_from_the_page(browser: Browser, tmp_path):
    with (
        running_service(tmp_path, admin_key=OPERATOR) as service,
        visiting(browser, service.url, refused={401}) as visit,
    ):
        page, file = visit.page, tmp_path / "own.csv"
        file.write_text("id\none\n")
        page.goto(service.url)
        page.get_by_label("API key").fill(OPERATOR)
        page.get_by_role("button", name="Sign in", exact=True).click()
        choose(page, file)
        page.get_by_role("button", name="Create dataset").click()
        page.wait_for_function("() => location.hash === '#/datasets/own/runs/default'")
