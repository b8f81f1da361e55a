"""The example of a real finetuning run, in its small form: all parts are real, and the service is killed in between."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bots_client import Client, JournalEntry
from examples.grpo_cpu.course import Course
from examples.grpo_cpu.plan import ARMS
from tests.serving import ServiceProcess, running_service
from tests.sizes import SOAK

ROOT = Path(__file__).parents[2]
STEPS = 600 if SOAK else 40
AWAY_S = 60.0 if SOAK else 3.0
SEEN_BEFORE = 3  # reports of either arm before the service is killed
RUN_S = 1800.0 if SOAK else 240.0


@dataclass(frozen=True)
class Example:
    """A finished run of the example: what it wrote, and the service that it used."""

    courses: dict[str, Course]
    results: dict[str, object]
    client: Client
    dataset: str
    said: str

    def reports(self, arm: str) -> list[JournalEntry]:
        entries = list(self.client.journal(self.dataset, run=arm))
        return sorted((entry for entry in entries if entry.kind == "report"), key=lambda entry: entry.seq)


def wait_for_reports(client: Client, process: subprocess.Popen[str]) -> str:
    """Return the dataset's name once both arms have reported a few steps."""
    while process.poll() is None:
        for dataset in client.datasets():
            runs = [run for run in client.runs(dataset.name) if run.run in ARMS]
            if len(runs) == len(ARMS) and all(run.step >= SEEN_BEFORE for run in runs):
                return dataset.name
        time.sleep(0.2)
    pytest.fail(f"the example ended early:\n{process.communicate()[1]}")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """Run the example on a service that is killed after some steps, and comes back on the same database."""
    folder = tmp_path_factory.mktemp("grpo")
    with running_service(folder / "service") as service, Client(service.url) as client:
        yield run_with_outage(folder, service, client)


def run_with_outage(folder: Path, service: ServiceProcess, client: Client) -> Example:
    options = ["--small", "--seeds", "1", "--steps", str(STEPS), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.grpo_cpu", *options, "--output", str(folder / "out"), "--url", service.url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        dataset = wait_for_reports(client, process)
        service.kill()
        time.sleep(AWAY_S)
        service.start()
        printed, said = process.communicate(timeout=RUN_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    results = json.loads(printed)
    courses = {course["arm"]: Course.from_json(course) for course in results["courses"]}
    return Example(courses, results, client, dataset, said)


@pytest.mark.parametrize("arm", ARMS)
def test_training_goes_on_while_the_service_is_away(example: Example, arm: str) -> None:
    course = example.courses[arm]
    assert course.local_selects > 0
    assert len(course.solved) == STEPS
    assert course.evaluations[-1].step == STEPS


@pytest.mark.parametrize("arm", ARMS)
def test_every_report_is_in_the_journal_once(example: Example, arm: str) -> None:
    # A step may come in two entries: a task chosen while the service was away may be in flight from before, too.
    reports = example.reports(arm)
    assert example.courses[arm].kept == 0
    assert sum(entry.closed is True for entry in reports) == STEPS
    assert sum(entry.tasks or 0 for entry in reports) == STEPS * 16
    assert sum(entry.rollouts or 0 for entry in reports) == STEPS * 16 * 8


@pytest.mark.parametrize("arm", ARMS)
def test_every_step_counts_as_it_was(example: Example, arm: str) -> None:
    course = example.courses[arm]
    history = sorted(example.client.history(example.dataset, run=arm), key=lambda step: step.step)
    seen = [(step.reported, step.effective, round((step.mean_pass_rate or 0.0) * step.rollouts)) for step in history]
    assert Counter(seen) == Counter((16, *step) for step in zip(course.effective, course.solved, strict=True))


@pytest.mark.parametrize("arm", ARMS)
def test_the_posterior_moved(example: Example, arm: str) -> None:
    tried = [task for task in example.client.tasks(example.dataset, run=arm) if task.last_step is not None]
    assert tried
    assert all(task.alpha and task.beta and task.alpha + task.beta > 2 for task in tried)


def test_some_groups_give_a_gradient(example: Example) -> None:
    assert all(sum(course.effective) > 0 for course in example.courses.values())


def test_both_ways_of_choosing_begin_alike_and_spend_as_many_rollouts(example: Example) -> None:
    uniform, bots = (example.courses[arm] for arm in ("uniform", "bots"))
    assert uniform.evaluations[0].by_level == bots.evaluations[0].by_level
    rollouts = [example.client.run(example.dataset, run=arm).totals.rollouts for arm in ARMS]
    assert rollouts == [STEPS * 16 * 8] * 2
