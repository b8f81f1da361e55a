"""A trainer that dies in the middle of a generation and resumes from a checkpoint of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bots_client import Selector
from tests.client.resilience.worlds import IDS
from tests.serving import NOWHERE

ROOT = Path(__file__).parents[3]

# Saves a checkpoint after each step, asks for the tasks of one more, and never gets to report them.
TRAINER = """
import json, sys, time
from pathlib import Path
from bots_client import ResilientClient, Selector
url, dataset, folder, ids = sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
selector = Selector(ResilientClient(url, spool=folder / "spool"), dataset, ids=ids)
for step in (1, 2, 3):
    for task in selector.next(4).ids:
        selector.observe(task, [1, 0])
    selector.step()
    (folder / f"checkpoint-{step}.json").write_text(json.dumps(selector.state_dict(step=step)))
print(json.dumps(selector.next(4).ids), flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed(service, dataset, tmp_path):
    """The folder of a trainer that was killed while it generated, and the tasks that it had in flight."""
    command = [sys.executable, "-c", TRAINER, service.url, dataset, str(tmp_path), json.dumps(IDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as trainer:
        assert trainer.stdout is not None
        in_flight = json.loads(trainer.stdout.readline())
        trainer.send_signal(signal.SIGKILL)
    return tmp_path, in_flight


def step(selector, tasks, rewards=(1, 0)):
    for task in tasks:
        selector.observe(task, rewards)
    return selector.step()


@pytest.mark.parametrize("saved_at", [3, 1], ids=["newest", "older"])
def test_tasks_in_flight_when_a_trainer_was_killed_are_handed_out_first(selector, killed, saved_at):
    folder, in_flight = killed
    state = json.loads((folder / f"checkpoint-{saved_at}.json").read_text())
    selector.load_state_dict(state, step=saved_at)
    selections = [selector.next(count) for count in (3, 3)]
    assert {task for one in selections for task in one.ids[:3]} >= set(in_flight)
    assert set(selections[0].ids) <= set(in_flight)
    assert [one.epoch for one in selections] == [1, 1]
    receipt = step(selector, {task for one in selections for task in one.ids})
    assert (receipt.step, receipt.reported, receipt.late) == (saved_at + 1, 6, 0)
    assert selector.client.direct.run(selector.dataset).leased == 0


def test_tasks_in_flight_when_the_checkpoint_was_saved_are_handed_out_first_though_reported_since(selector):
    early, late = selector.next(4), selector.next(4)
    step(selector, early.ids)
    state = selector.state_dict()
    step(selector, late.ids)
    selector.load_state_dict(state)
    assert set(state["in_flight"]) == set(late.ids) == set(selector.next(4).ids)


def test_all_tasks_of_a_large_selection_are_saved_though_the_service_names_a_thousand(connect, service):
    ids = [f"t{n}" for n in range(2500)]
    selector = Selector(connect(service), "large", ids=ids)
    selector.register()
    mine = selector.next(1536)
    step(selector, mine.ids[:36])
    Selector(connect(service), "large", ids=ids).next(8)
    state = selector.state_dict()
    selector.load_state_dict(state)
    assert sorted(state["in_flight"]) == sorted(mine.ids[36:])
    assert set(selector.next(1500).ids) == set(mine.ids[36:])


def test_only_tasks_of_this_job_that_nobody_reported_are_saved_as_in_flight(selector, connect, service):
    mine = selector.next(4)
    Selector(connect(service), selector.dataset, ids=IDS).next(4)
    selector.client.report(selector.dataset, [], selection=mine, close_step=True)
    step(selector, mine.ids[:1])
    assert set(selector.state_dict()["in_flight"]) == set(mine.ids[1:])


def test_tasks_in_flight_are_handed_out_first_while_the_service_is_away(selector, connect):
    state = selector.state_dict() | {"in_flight": ["t7", "unknown", "t3"]}
    away = connect(NOWHERE, select_deadline_s=0.1, report_deadline_s=0.1)
    resumed = Selector(away, selector.dataset, ids=IDS)
    resumed.load_state_dict(state)
    assert resumed.next(4).ids[:2] == ("t7", "t3")
    assert set(resumed.next(4).ids[:2]) != {"t7", "t3"}  # only once, though chance may choose one of them again


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [({"step": 300}, {"step": 400}), ({"step": 3, "checkpoint": "a"}, {"step": 3, "checkpoint": "b"})],
)
def test_a_state_of_another_checkpoint_is_said_aloud_and_takes_the_run_nowhere(
    selector, connect, service, caplog, saved, resumed
):
    state = selector.state_dict(**saved)
    step(selector, selector.next(4).ids)
    name, now = list(resumed.items())[-1]
    with pytest.raises(ValueError, match=f"{name} {saved[name]!r}, but the trainer resumes from {name} {now!r}"):
        selector.load_state_dict(state, **resumed)
    caplog.clear()
    Selector(connect(service, on_mistake="warn"), selector.dataset, ids=IDS).load_state_dict(state, **resumed)
    assert f"{name} {saved[name]!r}" in caplog.text
    run = selector.client.direct.run(selector.dataset)
    assert (run.step, run.epoch) == (1, 0)


@pytest.mark.parametrize("saved", [{}, {"step": 3}, {"step": 3, "checkpoint": "a"}])
def test_what_is_not_known_of_a_checkpoint_is_not_compared(selector, saved):
    state = selector.state_dict(**saved)
    step(selector, selector.next(4).ids)
    selector.load_state_dict(state, step=3)
    assert selector.client.direct.run(selector.dataset).step == 0


def test_a_run_that_was_made_anew_since_the_checkpoint_is_said_aloud_and_not_taken_back(selector, caplog):
    for _ in range(3):
        step(selector, selector.next(4).ids)
    state = selector.state_dict()
    selector.client.direct.delete_run(selector.dataset, "default")  # which is there again at once, empty
    for _ in range(2):
        step(selector, selector.next(4).ids)
    selector.load_state_dict(state)
    assert "its journal has 2 entries, and had 3 when the checkpoint was saved" in caplog.text
    assert selector.client.direct.run(selector.dataset).epoch == 0
