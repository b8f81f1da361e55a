"""The fast finetuning run in its small form, as a command: a service of its own, HTTP, the journal, GRPO; its model."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bots_client import Client, JournalEntry
from examples.finetune.course import Course, Record
from examples.finetune.families import Families
from examples.finetune.llama import as_llama, copy_back
from examples.finetune.model import FILLING, PROMPT_TOKENS, Model, encoded, log_probabilities
from examples.finetune.plan import ARMS, SMALL
from examples.finetune.tasks import Problem
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
KIND = Families()
RUN_S = 600.0  # a busy machine
SEED = 0
TRIED = ("shuffle", "pass-r2", "pass-tags", "oracle")  # an arm of each kind, in the order in which they run


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Example:
    courses: dict[str, Course]
    client: Client
    folder: Path

    def dataset(self, arm: str) -> str:
        (found,) = (one.name for one in self.client.datasets() if f"-{SEED}-{arm}-" in one.name)
        return found

    def reports(self, dataset: str, arm: str) -> list[JournalEntry]:
        return [entry for entry in self.client.journal(dataset, run=arm) if entry.kind == "report"]


def run_to_its_end(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "examples.finetune", "--small", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("finetune")
    with running_service(folder / "service") as service, Client(service.url) as client:
        options = ["--seeds", str(SEED), "--arms", ",".join(TRIED), "--output", str(folder / "out")]
        run_to_its_end(*options, "--url", service.url, "--processes", "1")
        lines = (folder / "out" / "results.jsonl").read_text("utf-8").splitlines()
        records = [Record.from_line(line) for line in lines]
        yield Example({record.course.arm: record.course for record in records}, client, folder / "out")


def test_a_finished_comparison_runs_nothing_again(example: Example) -> None:
    before = (example.folder / "results.jsonl").read_bytes()
    said = run_to_its_end("--seeds", str(SEED), "--arms", ",".join(TRIED), "--output", str(example.folder))
    assert "Follow it at" not in said
    assert (example.folder / "results.jsonl").read_bytes() == before


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


@pytest.fixture
def model() -> Model:
    """A model that is surer than a random one: differences between two forward passes then show."""
    made = Model(KIND.alphabet, 3)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1.5)
    return made


@pytest.fixture
def problems() -> list[Problem]:
    rng = random.Random(4)
    return [KIND.drawn(rng, group) for group in KIND.groups for _ in range(3)]


@torch.no_grad()
def logs_of_llama(llama: torch.nn.Module, model: Model, problems: list[Problem]) -> torch.Tensor:
    """Return the log probability of every token of the right answers, ends included: [problems, ANSWER_TOKENS]."""
    prompts, answers = encoded(model, problems)
    texts = torch.cat([prompts, answers], dim=1) - 1
    logits = llama(input_ids=texts.clamp(min=0)).logits[:, PROMPT_TOKENS - 1 : -1]
    logs = logits.log_softmax(dim=-1).gather(-1, texts[:, PROMPT_TOKENS:, None].clamp(min=0))[..., 0]
    return logs.masked_fill(answers == FILLING, 0.0)


@torch.no_grad()
def test_both_give_the_same_log_probabilities(model: Model, problems: list[Problem]) -> None:
    plain = log_probabilities(model, *encoded(model, problems))
    torch.testing.assert_close(logs_of_llama(as_llama(model), model, problems), plain, atol=1e-4, rtol=0)
    assert plain.min() < -3  # not the same everywhere


@torch.no_grad()
def test_what_transformers_learned_comes_back(model: Model, problems: list[Problem]) -> None:
    llama = as_llama(model)
    generator = torch.Generator().manual_seed(5)
    for weight in llama.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.05)
    before = log_probabilities(model, *encoded(model, problems))
    copy_back(llama, model)
    after = log_probabilities(model, *encoded(model, problems))
    torch.testing.assert_close(after, logs_of_llama(llama, model, problems), atol=1e-4, rtol=0)
    assert (after - before).abs().max() > 0.1
