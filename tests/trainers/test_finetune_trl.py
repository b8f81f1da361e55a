"""The finetuning example's run by TRL, in its small form, on a real service."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bots_client import BotsClientError, Client
from examples.finetune.course import Course
from examples.finetune.kinds import problems_of
from examples.finetune.model import encoded
from examples.finetune.notes import Notes
from examples.finetune.plan import COMPARISONS
from examples.finetune.prepare import prepare
from examples.finetune.sampling import success_probabilities
from examples.finetune.trl_loop import NotingSelector, Verifier, patient, train
from examples.finetune.warm_up import reference_rates, warmed_up
from tests.serving import NOWHERE

SMALL = COMPARISONS["trl"].small
SEED, ARM, DATASET = 0, "pass-r2", "finetune-trl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finetune-trl")


@pytest.fixture(scope="module")
def finished(url: str, folder: Path) -> tuple[Course, Notes, list[int]]:
    """A run's result, its notes, and the steps that it said to have done."""
    torch.set_num_threads(1)
    said: list[int] = []
    with Client(url) as client:
        prepare(client, DATASET, ARM, plan=SMALL, seed=SEED, rates=reference_rates(SEED, SMALL, folder))
        course, notes = train(SMALL, SEED, ARM, client=client, dataset=DATASET, folder=folder, on_step=said.append)
    return course, notes, said


def test_a_run_takes_all_its_steps_and_the_service_has_each_once(
    url: str, finished: tuple[Course, Notes, list[int]]
) -> None:
    course, _, said = finished
    assert said == list(range(1, SMALL.steps + 1))
    assert sum(course.visits) == SMALL.steps * SMALL.tasks_per_step
    with Client(url) as client:
        history = sorted(client.history(DATASET, run=ARM), key=lambda step: step.step)
    seen = [(step.reported, step.effective, round((step.mean_pass_rate or 0.0) * step.rollouts)) for step in history]
    assert seen == [(SMALL.tasks_per_step, *step) for step in zip(course.effective, course.solved, strict=True)]


def test_it_starts_from_the_warm_up_and_ends_elsewhere(folder: Path, finished: tuple[Course, Notes, list[int]]) -> None:
    course, _, _ = finished
    model = warmed_up(SEED, SMALL, folder)["start"]
    _, held_out = problems_of(SMALL, SEED)
    start = success_probabilities(model, *encoded(model, held_out)).mean()
    assert course.accuracies[0] == pytest.approx(start, abs=1e-6)
    assert len(course.accuracies) == SMALL.evaluations
    assert course.accuracies[-1] != course.accuracies[0]


def test_what_was_believed_of_the_chosen_is_noted(folder: Path, finished: tuple[Course, Notes, list[int]]) -> None:
    _, notes, _ = finished
    notes.save(folder / "notes.npz")
    with np.load(folder / "notes.npz") as arrays:
        assert arrays["means"].shape == arrays["chances"].shape == (SMALL.steps, SMALL.tasks_per_step)
        assert np.all((arrays["means"] > 0) & (arrays["means"] < 1))
        assert np.all((arrays["chances"] > 0) & (arrays["chances"] <= 1))


def test_a_run_without_its_service_ends_instead_of_choosing_tasks_itself(folder: Path) -> None:
    with (
        Client(NOWHERE) as client,
        pytest.raises(BotsClientError),
    ):
        train(SMALL, SEED, ARM, client=client, dataset="away", folder=folder, on_step=lambda _: None)


def test_the_verifier_rewards_the_whole_answer_alone(folder: Path) -> None:
    notes = Notes(SMALL, SEED, ARM)
    with patient(NOWHERE, folder / "none") as client:
        selector = NotingSelector(client, "any", ARM, ids=["a", "b"])
        selector.believed = {"a": (0.25, 0.5), "b": (0.75, 0.6)}
        verifier = Verifier(selector, {"a": 0, "b": 1}, 2, notes)
        found = verifier(["12", "1", "", "344"], ["12", "12", "34", "34"], ["a", "a", "b", "b"])
    assert found == [1.0, 0.0, 0.0, 0.0]
