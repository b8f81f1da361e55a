"""The fast finetuning run in its small form, as a command: a service of its own, HTTP, the journal, GRPO."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bots_client import Client, JournalEntry
from examples.finetune.additions import Additions
from examples.finetune.course import Course, Record
from examples.finetune.kinds import problems_of
from examples.finetune.model import Model, encoded
from examples.finetune.plan import ARMS, SMALL, Lessons, Plan
from examples.finetune.sampling import effective_probabilities, success_probabilities
from examples.finetune.table import tables
from examples.finetune.train import Learner, advantages_of
from examples.finetune.warm_up import look, reference_rates, warmed_up
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
RUN_S = 600.0  # a busy machine
ADDITIONS = Additions()
SEED = 0
TRIED = ("shuffle", "pass-r2", "pass-tags", "oracle")  # an arm of each kind, in the order in which they run


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

    courses: dict[str, Course]
    client: Client
    folder: Path

    def dataset(self, arm: str) -> str:
        """Return the dataset of the one attempt that was finished; an earlier one may have been killed."""
        named = [one.name for one in self.client.datasets() if f"-{SEED}-{arm}-" in one.name]
        (found,) = (name for name in named if len(self.reports(name, arm)) == SMALL.steps)
        return found

    def reports(self, dataset: str, arm: str) -> list[JournalEntry]:
        """Return what was reported; nothing where the command was killed before it had made the run."""
        if arm not in [one.run for one in self.client.runs(dataset)]:
            return []
        return [entry for entry in self.client.journal(dataset, run=arm) if entry.kind == "report"]

    def arrays(self, arm: str) -> dict[str, NDArray[np.float64]]:
        with np.load(self.folder / "runs" / f"{SEED}-{arm}.npz") as found:
            return {name: found[name] for name in found.files}


def started(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "examples.finetune", "--small", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_to_its_end(*options: str) -> str:
    """Run the command; return what it said."""
    process = started(*options)
    try:
        said, _ = process.communicate(timeout=RUN_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """Kill the command after its first run, then let it go on to the end."""
    folder = tmp_path_factory.mktemp("finetune")
    results = folder / "out" / "results.jsonl"
    with running_service(folder / "service") as service, Client(service.url) as client:
        options = ["--seeds", str(SEED), "--arms", ",".join(TRIED), "--output", str(folder / "out")]
        options += ["--url", service.url, "--processes", "1"]
        process = started(*options)
        try:
            give_up = time.monotonic() + RUN_S
            while not (results.exists() and results.read_text("utf-8")):
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < give_up
                time.sleep(0.02)
        finally:
            process.kill()
            process.communicate(timeout=RUN_S)  # once its own processes are gone, too: they hold its output
        before = results.read_text("utf-8")
        run_to_its_end(*options)
        after = results.read_text("utf-8")
        assert after.startswith(before)
        records = [Record.from_line(line) for line in after.splitlines()]
        yield Example({record.course.arm: record.course for record in records}, client, folder / "out")


def test_a_command_that_was_killed_goes_on_with_the_runs_that_are_not_there(example: Example) -> None:
    lines = (example.folder / "results.jsonl").read_text("utf-8").splitlines()
    arms = [Record.from_line(line).course.arm for line in lines]
    assert arms == list(TRIED)  # each once, in order


def test_a_finished_comparison_runs_nothing_again(example: Example) -> None:
    before = (example.folder / "results.jsonl").read_bytes()
    said = run_to_its_end("--seeds", str(SEED), "--arms", ",".join(TRIED), "--output", str(example.folder))
    assert "Follow it at" not in said
    assert (example.folder / "results.jsonl").read_bytes() == before


def test_tables_and_chart_lie_beside_the_results(example: Example) -> None:
    courses = [example.courses[arm] for arm in TRIED]
    assert (example.folder / "tables.md").read_text("utf-8") == tables(courses, SMALL)
    assert "effective task ratio" in (example.folder / "chart.svg").read_text("utf-8")


def test_every_arm_is_run_from_the_same_start(example: Example) -> None:
    assert {tuple(course.by_group[0]) for course in example.courses.values()} == {
        tuple(example.courses["shuffle"].by_group[0])
    }
    assert {len(course.accuracies) for course in example.courses.values()} == {SMALL.evaluations}


def test_every_step_of_a_finished_run_is_in_the_journal_once(example: Example) -> None:
    for arm in TRIED[:-1]:  # the last needs no service
        reports = example.reports(example.dataset(arm), arm)
        assert all(entry.closed for entry in reports)
        assert sum(entry.rollouts or 0 for entry in reports) == SMALL.steps * SMALL.tasks_per_step * SMALL.rollouts


def test_only_the_arms_that_say_so_know_references_and_tags(example: Example) -> None:
    known = {one.name.split("-", 2)[2].rpartition("-")[0]: one for one in example.client.datasets()}
    assert set(known) == set(TRIED) - {"oracle"}
    for arm, dataset in known.items():
        assert bool(dataset.reference_models) is ARMS[arm].references
        assert bool(dataset.tags) is ARMS[arm].tags
        assert (example.courses[arm].reference_rollouts > 0) is ARMS[arm].references


def test_shuffle_visits_every_task_as_often_as_any_other(example: Example) -> None:
    visits = example.courses["shuffle"].visits
    assert sum(visits) == SMALL.steps * SMALL.tasks_per_step
    assert max(visits) - min(visits) <= 1


def test_the_arrays_tell_what_the_result_was_made_of(example: Example) -> None:
    for arm, course in example.courses.items():
        found = example.arrays(arm)
        assert found["chosen"].shape == found["solved"].shape == (SMALL.steps, SMALL.tasks_per_step)
        assert found["solved"].sum(axis=1).tolist() == course.solved
        assert np.bincount(found["chosen"].ravel(), minlength=sum(SMALL.pool)).tolist() == course.visits
        assert found["pool"].shape == found["believed"].shape == (SMALL.evaluations, sum(SMALL.pool))
        assert found["held_out"].mean(axis=1) == pytest.approx(course.accuracies, abs=1e-5)
        assert ((found["chances"] >= 0) & (found["chances"] <= 1)).all()


def test_what_is_believed_of_a_task_is_told_as_the_service_tells_it(example: Example) -> None:
    tasks = example.client.tasks(example.dataset("pass-r2"), "pass-r2", sort="index")
    means = [task.mean for task in tasks]
    assert example.arrays("pass-r2")["believed"][-1] == pytest.approx(means, abs=1e-6)


def test_the_oracle_begins_with_the_truth(example: Example) -> None:
    found = example.arrays("oracle")
    assert found["believed"][0] == pytest.approx(found["pool"][0], abs=1e-6)


def test_a_warm_up_is_made_once(example: Example) -> None:
    before = {file: file.stat().st_mtime_ns for file in example.folder.glob("*.*")}
    assert [file.suffix for file in sorted(before)].count(".pt") == 1  # with the references: of the same warm-up
    model = warmed_up(SEED, SMALL, example.folder)["start"]
    rates = reference_rates(SEED, SMALL, example.folder)
    assert {file: file.stat().st_mtime_ns for file in example.folder.glob("*.*")} == before
    assert rates.shape == (sum(SMALL.pool), 2)
    assert set(np.unique(rates * SMALL.attempts)) <= set(range(SMALL.attempts + 1))
    _, held_out = problems_of(SMALL, SEED)
    accuracy = success_probabilities(model, *encoded(model, held_out)).mean()
    assert accuracy == pytest.approx(example.courses["shuffle"].accuracies[0], abs=1e-5)


def test_the_sharpness_gives_the_wanted_effective_task_ratio(example: Example) -> None:
    rng = random.Random(1)
    problems = [ADDITIONS.drawn(rng, group) for group in ADDITIONS.groups for _ in range(6)]
    plan, model = Plan(pool=(70, 60, 50, 40, 30, 20, 10)), warmed_up(SEED, SMALL, example.folder)["start"]

    def ratio(sharpness: float) -> float:
        with torch.no_grad():
            model.head.weight *= sharpness
            probabilities = success_probabilities(model, *encoded(model, problems)).reshape(len(plan.pool), -1)
            model.head.weight /= sharpness
        by_group = effective_probabilities(probabilities, plan.rollouts).mean(axis=1)
        return float(np.average(by_group, weights=plan.pool))

    wanted = ratio(1.3)
    found = look(model, problems, replace(plan, lessons=Lessons(effective=wanted)))
    assert ratio(found.sharpness) == pytest.approx(wanted, rel=0.1)


def test_advantages_are_in_standard_deviations_of_the_group() -> None:
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 1]])
    found = advantages_of(rewards)
    for group, own in zip(rewards.numpy(), found.numpy(), strict=True):
        assert own == pytest.approx((group - group.mean()) / group.std(ddof=1), rel=1e-3)


def test_groups_without_a_spread_change_nothing() -> None:
    model = Model(ADDITIONS.alphabet, 3)
    prompts, answers = encoded(model, [ADDITIONS.drawn(random.Random(2), "7") for _ in range(4)])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    # A random model never writes the answer to a sum of seven digits.
    assert Learner(model, Plan(), 1).step(prompts, answers) == [0] * 4
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_learning_makes_what_was_right_more_probable() -> None:
    rng = random.Random(4)
    plan = Plan(rollouts=32, rising=1, learning_rate=1e-3)
    model = Model(ADDITIONS.alphabet, 5)
    problems = [ADDITIONS.drawn(rng, "1") for _ in range(8)]
    prompts, answers = encoded(model, problems)
    with torch.no_grad():
        model.head.weight.zero_()  # then all tokens are equally probable, and an answer of one digit is 1 in 169
    before = success_probabilities(model, prompts, answers).mean()
    learner = Learner(model, plan, 6)
    for _ in range(12):
        learner.step(prompts, answers)
    assert success_probabilities(model, prompts, answers).mean() > 1.2 * before
