"""`bots top`: the runs of a service, once and live."""

import re
import signal
from dataclasses import replace
from typing import get_args

import pytest

from bots_client import Client, InvalidRequestError, Outcome, Task
from bots_service.cli.tasks import SegmentName
from bots_service.cli.top import Order, StatusFilter
from bots_service.cli.top_table import ROWS_BESIDES, RunTable, screen
from bots_service.core.segments import SEGMENTS
from bots_service.core.summary.verdict import RunStatus
from bots_service.usecases.summarize_runs import SORTS
from tests.cli.running import CommandLine
from tests.cli.terminals import terminals
from tests.cli.test_cli_widths import rendered, widest_line
from tests.serving import ServiceProcess, running_service


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A service with a dataset of three runs, two of which trained: one uniformly, and one on better tasks."""
    with running_service(tmp_path_factory.mktemp("top-service")) as service, Client(service.url) as client:
        client.create_dataset("guru", [Task(f"t{number}") for number in range(8)])
        for run, strategy, solved in (("even", "uniform", (0, 1)), ("chosen", "pass", (1, 1))):
            client.create_run("guru", run, strategy=strategy)
            client.report("guru", [Outcome.counts(f"t{place}", each, 2) for place, each in enumerate(solved)], run=run)
        with pytest.raises(InvalidRequestError):
            client.report("guru", [Outcome.rewards("t0", [-1.0, 1.0])])
        while client.overview().totals.unjudged:
            pass
        yield service


@pytest.fixture
def overview(trained):
    with Client(trained.url) as client:
        return client.overview(sort="-attention")


def rows_of(text):
    """The cells of the table by the names of the runs."""
    return {cells[0]: cells[1:] for line in text.splitlines() if (cells := re.split(r"\s\s+", line.strip()))[0]}


def test_once_shows_each_run_with_its_gain_over_the_uniform_one(trained, overview, tmp_path):
    shown = rows_of(CommandLine(trained.url, tmp_path).ok("top", "--once"))
    chosen, even = ("guru/chosen", "guru/even")
    factor = (2 / 2) / (1 / 2)
    assert shown[chosen][:3] == ["running", "starting", "1.000"]
    assert shown[chosen][4:7] == [f"{factor:.2f}x", "1", "4"]
    assert shown[even][:3] == ["running", "starting", "0.500"]
    assert shown[even][4] == "baseline"
    assert "┃" in shown[chosen][3]
    assert shown["guru/default"][:3] == ["new", "reports refused", "-"]
    assert [run for run in shown if run.startswith("guru/")] == [f"guru/{run.run}" for run in overview.runs]


def test_json_is_the_overview_of_the_api(trained, overview, tmp_path):
    bots = CommandLine(trained.url, tmp_path)
    found = bots("top", "--json").json
    assert (found["matching"], found["totals"]["runs"]) == (overview.matching, 3)
    assert [run["gain"] and run["gain"]["factor"] for run in found["runs"]] == [
        run.gain and run.gain.factor for run in overview.runs
    ]
    assert [run["verdict"]["kind"] for run in found["runs"]] == ["reports_refused", "starting", "starting"]
    assert [run["refused"] and run["refused"]["count"] for run in found["runs"]] == [1, None, None]
    assert [run["run"] for run in bots("top", "--attention", "--json").json["runs"]] == ["default"]
    assert [run["run"] for run in bots("top", "--search", "RU/E", "--json").json["runs"]] == ["even"]
    assert [run["run"] for run in bots("top", "--status", "new", "--json").json["runs"]] == ["default"]
    assert bots("top", "--dataset", "other", "--json").json["runs"] == []
    by_ratio = bots("top", "--sort", "-effective_task_ratio", "--limit", 2, "--json").json["runs"]
    assert [run["run"] for run in by_ratio] == ["chosen", "even"]
    assert "no run matches" in bots.ok("top", "--search", "nowhere")
    assert "not one of attention, name" in bots("top", "--sort", "-colour").assert_one_line(2)


def test_the_options_have_the_values_that_the_api_accepts():
    assert [*StatusFilter] == [*get_args(RunStatus)]
    assert {*Order} == {*SORTS}
    assert get_args(SegmentName) == SEGMENTS


@pytest.mark.parametrize(
    ("width", "cells"),
    [
        (40, ["starting", "1.000"]),
        (60, ["running", "starting", "1.000", "2.00x"]),
        (80, ["running", "starting", "1.000", "━━━━━━━┃━━━━━━", "2.00x", "0 s"]),
        (120, ["running", "starting", "1.000", "━━━━━━━┃━━━━━━", "2.00x", "1", "4", "0 s"]),
    ],
)
def test_a_narrow_table_leaves_out_columns_by_their_rank(overview, width, cells):
    text = rendered(RunTable(overview.runs, now=0.0), width)
    assert widest_line(text) <= width
    assert rows_of(text)["guru/chosen"] == cells


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_screen_says_how_to_quit_on_one_line_and_over_which_steps_its_numbers_are(overview, width):
    address = "http://a-machine-with-a-long-name.example.org:8000"
    lines = rendered(screen(overview, address, None, now=0.0), width).splitlines()
    assert "q quits" in lines[0]
    assert lines[1].strip() == ""
    head = " ".join(" ".join(lines[2:]).split())
    assert all(word in head for word in ("last", "50", "all"))
    assert len(lines) - len(overview.runs) <= ROWS_BESIDES


def test_a_long_name_loses_its_beginning(overview):
    name = "a-dataset-with-a-long-name"
    text = rendered(RunTable([replace(run, dataset=name) for run in overview.runs], now=0.0), 40)
    assert widest_line(text) <= 40
    shown = [cells.removeprefix("…") for cells in rows_of(text) if cells.startswith("…")]
    assert all(f"{name}/{run.run}".endswith(end) for run, end in zip(overview.runs, shown, strict=True))


def test_live_it_shows_new_steps_survives_a_restart_and_quits_on_q(tmp_path):
    service = ServiceProcess(tmp_path / "service")
    service.start()
    try:
        with Client(service.url) as client, terminals(tmp_path, BOTS_URL=service.url) as start:
            client.create_dataset("guru", [Task("a")])
            terminal = start("top", "--every", "0.2")
            terminal.read_until("guru/default")
            terminal.read_until("new")
            client.report("guru", [Outcome.counts("a", 1, 2)])
            terminal.read_until("running")
            service.kill()
            terminal.read_until("no answer since")
            service.start()
            terminal.forget()
            terminal.read_until("q quits")
            terminal.type("q")
            assert terminal.end() == 0
    finally:
        service.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_live_it_ends_by_a_signal_and_gives_the_terminal_back(trained, tmp_path, number, code):
    with terminals(tmp_path, BOTS_URL=trained.url) as start:
        terminal = start("top")
        terminal.read_until("guru/chosen")
        terminal.process.send_signal(number)
        assert terminal.end() == code
        assert "\x1b[?1049l" in terminal.shown  # shows the screen from before


def test_a_key_that_is_refused_ends_it_with_what_to_do(tmp_path):
    with running_service(tmp_path / "service") as service, Client(service.url) as client:
        admin = client.create_key("root", scopes=["admin"], datasets=["*"])
        with Client(service.url, api_key=admin.key) as root, terminals(tmp_path, BOTS_URL=service.url) as start:
            reader = root.create_key("reader", scopes=["read"], datasets=["*"])
            assert reader.key is not None
            terminal = start("top", "--every", "0.2", BOTS_API_KEY=reader.key)
            terminal.read_until("no runs yet")
            root.revoke_key(reader.id)
            assert terminal.end() == 1
    assert "set BOTS_API_KEY to a valid key" in " ".join(terminal.shown.split())
