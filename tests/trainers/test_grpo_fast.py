"""The fast finetuning run in its small form, as a command: a service of its own, HTTP, the journal, GRPO."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bots_client import Client, JournalEntry
from examples.grpo_cpu.tasks import LEVELS, drawn, problems_of_sizes
from examples.grpo_fast.course import Course, Record
from examples.grpo_fast.model import Model, encoded
from examples.grpo_fast.plan import ARMS, SMALL, Lessons, Plan
from examples.grpo_fast.sampling import effective_probabilities, success_probabilities
from examples.grpo_fast.train import Learner, advantages_of
from examples.grpo_fast.warm_up import look, reference_rates, warmed_up
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
RUN_S = 600.0  # a busy machine
TRIED = ("shuffle", "pass-r2", "pass-tags")  # an arm of each kind


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from more, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Example:
    """A finished comparison, and the service that it used."""

    records: list[Record]
    client: Client
    folder: Path

    def reports(self, course: Course) -> list[JournalEntry]:
        (dataset,) = (one.name for one in self.client.datasets() if f"-{course.arm}-" in one.name)
        return [entry for entry in self.client.journal(dataset, run=course.arm) if entry.kind == "report"]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("grpo_fast")
    with running_service(folder / "service") as service, Client(service.url) as client:
        options = ["--small", "--seeds", "1", "--arms", ",".join(TRIED), "--json"]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "examples.grpo_fast",
                *options,
                "--output",
                str(folder / "out"),
                "--url",
                service.url,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield Example([Record.from_line(line) for line in done.stdout.splitlines()], client, folder / "out")


def test_every_arm_is_run_from_the_same_start(example: Example) -> None:
    courses = [record.course for record in example.records]
    assert [course.arm for course in courses] == list(TRIED)
    assert {tuple(course.by_level[0]) for course in courses} == {tuple(courses[0].by_level[0])}
    assert {len(course.accuracies) for course in courses} == {SMALL.evaluations}


def test_the_file_holds_what_was_printed(example: Example) -> None:
    lines = (example.folder / "results.jsonl").read_text("utf-8").splitlines()
    assert [Record.from_line(line) for line in lines] == example.records


def test_every_step_is_in_the_journal_once(example: Example) -> None:
    for course in (record.course for record in example.records):
        reports = example.reports(course)
        assert len(reports) == SMALL.steps
        assert all(entry.closed for entry in reports)
        assert sum(entry.rollouts or 0 for entry in reports) == SMALL.steps * SMALL.tasks_per_step * SMALL.rollouts
        assert sum(course.visits) == SMALL.steps * SMALL.tasks_per_step


def test_only_the_arms_that_say_so_know_references_and_tags(example: Example) -> None:
    for dataset in example.client.datasets():
        arm = next(ARMS[name] for name in TRIED if f"-{name}-" in dataset.name)
        assert bool(dataset.reference_models) is arm.references
        assert bool(dataset.tags) is arm.tags


def test_shuffle_visits_every_task_as_often_as_any_other(example: Example) -> None:
    course = next(record.course for record in example.records if record.course.arm == "shuffle")
    assert max(course.visits) - min(course.visits) <= 1


def test_a_warm_up_is_made_once(example: Example) -> None:
    before = {file: file.stat().st_mtime_ns for file in example.folder.glob("*.pt")}
    assert len(before) == 1  # with the references: they are of the same warm-up
    model = warmed_up(0, SMALL, example.folder)["start"]
    assert {file: file.stat().st_mtime_ns for file in example.folder.glob("*.pt")} == before
    _, held_out = problems_of_sizes(0, SMALL.sizes, held_out_per_level=SMALL.held_out_per_level)
    accuracy = success_probabilities(model, *encoded(held_out)).mean()
    assert accuracy == pytest.approx(example.records[0].course.accuracies[0], abs=1e-5)


def test_references_come_from_the_next_seed_s_warm_up_where_the_plan_says_so(tmp_path: Path) -> None:
    rates = reference_rates(0, replace(SMALL, related=False), tmp_path)
    assert rates.shape == (sum(SMALL.pool), 2)
    assert len(list(tmp_path.glob("*.pt"))) == 1
    warmed_up(1, SMALL, tmp_path)
    assert len(list(tmp_path.glob("*.pt"))) == 1  # it is the next seed's


def test_the_sharpness_gives_the_wanted_effective_task_ratio(example: Example) -> None:
    rng = random.Random(1)
    problems = [drawn(rng, level) for level in LEVELS for _ in range(6)]
    plan, model = Plan(pool=(70, 60, 50, 40, 30, 20, 10)), warmed_up(0, SMALL, example.folder)["start"]

    def ratio(sharpness: float) -> float:
        with torch.no_grad():
            model.head.weight *= sharpness
            probabilities = success_probabilities(model, *encoded(problems)).reshape(len(LEVELS), -1)
            model.head.weight /= sharpness
        by_level = effective_probabilities(probabilities, plan.rollouts).mean(axis=1)
        return float(np.average(by_level, weights=plan.pool))

    wanted = ratio(1.3)
    found = look(model, problems, replace(plan, lessons=Lessons(effective=wanted)))
    assert ratio(found.sharpness) == pytest.approx(wanted, rel=0.1)


def test_advantages_are_in_standard_deviations_of_the_group() -> None:
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 1]])
    found = advantages_of(rewards)
    for group, own in zip(rewards.numpy(), found.numpy(), strict=True):
        assert own == pytest.approx((group - group.mean()) / group.std(ddof=1), rel=1e-3)


def test_groups_without_a_spread_change_nothing() -> None:
    prompts, answers = encoded([drawn(random.Random(2), 7) for _ in range(4)])
    model = Model(3)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    # A random model never writes the answer to a sum of seven digits.
    assert Learner(model, Plan(), 1).step(prompts, answers) == [0] * 4
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_learning_makes_what_was_right_more_probable() -> None:
    rng = random.Random(4)
    plan = Plan(rollouts=32, rising=1, learning_rate=1e-3)
    model = Model(5)
    problems = [drawn(rng, 1) for _ in range(8)]
    prompts, answers = encoded(problems)
    with torch.no_grad():
        model.head.weight.zero_()  # then all tokens are equally probable, and an answer of one digit is 1 in 169
    before = success_probabilities(model, prompts, answers).mean()
    learner = Learner(model, plan, 6)
    for _ in range(12):
        learner.step(prompts, answers)
    assert success_probabilities(model, prompts, answers).mean() > 1.2 * before
